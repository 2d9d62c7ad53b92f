"""Types: `check` refuses a record whose fields disagree, and names the field."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagent.gyms import bandit
from jaxagent.types import Decision, Score, Trajectory, Verdict, check

G, T, V = 3, 4, 2


def trajectory():
    situations = (G, T + 1)
    flags = jnp.zeros(situations, bool)
    return Trajectory(
        obs=jnp.zeros(situations, jnp.int32),
        action=jnp.zeros((G, T), jnp.int32),
        chance=jnp.zeros((G, T), jnp.int32),
        log_prob=jnp.zeros((G, T)),
        live=jnp.ones((G, T), bool),
        state=bandit.State(jnp.zeros(situations, jnp.int32)),
        verdict=Verdict(flags, flags, jnp.zeros((*situations, V), bool), flags),
    )


RECORDS = {
    "trajectory": trajectory,
    "score": lambda: Score(jnp.zeros((G, T)), jnp.zeros(G), jnp.ones(G, bool)),
    "decision": lambda: Decision(
        *jnp.zeros((2, G), jnp.int32), *jnp.zeros((3, G)), jnp.ones(G, bool)
    ),
    "verdict": lambda: trajectory().verdict,
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_good_record_is_handed_back(name):
    record = RECORDS[name]()
    assert check(record) is record


def test_a_record_may_have_any_batch_axes():
    one = jax.tree.map(lambda leaf: leaf[0], trajectory())
    many = jax.tree.map(lambda leaf: leaf[None, None], trajectory())
    for record in (one, many):
        assert check(record) is record


ARRAYS = ("obs", "action", "chance", "log_prob", "live")


@pytest.mark.x64
@pytest.mark.parametrize("field", ARRAYS)
def test_a_wrong_dtype_is_refused_by_name(field):
    good = trajectory()
    bad = good._replace(**{field: getattr(good, field).astype(jnp.complex64)})
    with pytest.raises(
        ValueError, match=rf"^Trajectory\.{field} must be .* got complex64\[3, [45]\]$"
    ):
        check(bad)


@pytest.mark.parametrize("field", ["obs", "chance", "log_prob", "live"])
def test_a_wrong_length_is_refused_by_name(field):
    good = trajectory()
    bad = good._replace(**{field: getattr(good, field)[:, :-1]})
    with pytest.raises(ValueError, match=rf"^Trajectory\.{field} must be"):
        check(bad)


def test_of_two_lengths_that_disagree_the_later_field_is_named():
    """A T must be taken from somewhere: the first field has it."""
    good = trajectory()
    with pytest.raises(ValueError, match=r"^Trajectory\.chance must be"):
        check(good._replace(action=good.action[:, :-1]))


@pytest.mark.parametrize("field", ["state", "verdict"])
def test_states_and_verdicts_stand_around_every_decision(field):
    good = trajectory()
    one_short = jax.tree.map(lambda leaf: leaf[:, :-1], getattr(good, field))
    with pytest.raises(ValueError, match=rf"^Trajectory\.{field} must have leaves"):
        check(good._replace(**{field: one_short}))


@pytest.mark.parametrize("field", Verdict._fields)
def test_a_verdict_inside_a_trajectory_is_checked_too(field):
    good = trajectory()
    bad = good.verdict._replace(**{field: getattr(good.verdict, field).astype(jnp.float32)})
    with pytest.raises(ValueError, match=rf"^Verdict\.{field} must be"):
        check(good._replace(verdict=bad))


@pytest.mark.parametrize("field", ["total", "eligible"])
def test_a_score_of_another_batch_is_refused(field):
    good = RECORDS["score"]()
    with pytest.raises(ValueError, match=rf"^Score\.{field} must be"):
        check(good._replace(**{field: getattr(good, field)[1:]}))


@pytest.mark.parametrize("stranger", [3.0, None, [1, 2], np.zeros((G, T), int)])
def test_what_is_not_an_array_of_floats_is_refused(stranger):
    with pytest.raises(ValueError, match=r"^Trajectory\.log_prob must be"):
        check(trajectory()._replace(log_prob=stranger))
