"""Scorers: integer events priced once, so that equal histories tie; permission is not a price."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagent import policies, scorers
from jaxagent.gyms import bandit, refund
from jaxagent.precision import exact
from jaxagent.rollout import rollout
from jaxagent.trajectories import Events
from jaxagent.types import Noise, Verdict

HORIZON = 6
GYM = refund.gym()
HIGH = refund.Task(amount=np.int32(90), start=np.int32(refund.RECOVER))
PENALTY = np.array([2.0, 1.0])
EVERY_SEQUENCE = np.array(list(itertools.product(range(4), repeat=HORIZON)), np.int32)

SCORERS = {
    "outcome": lambda: scorers.outcome(0.05),
    "penalised": lambda: scorers.penalised(scorers.outcome(0.05), PENALTY),
    "guarded": lambda: scorers.guarded(scorers.outcome(0.05), PENALTY),
}


def follow(actions, gym=GYM, task=HIGH):
    """The trajectory of a list of actions."""
    noise = Noise(jnp.asarray(actions), jnp.zeros(len(actions)))
    return rollout(gym, policies.replay, jax.tree.map(jnp.asarray, task), noise)


@partial(jax.jit, static_argnums=0)
def score_all(make_scorer, sequences):
    """The trajectories [N T] of `sequences` and their scores."""
    trajectories = jax.vmap(follow)(sequences)
    return trajectories, jax.vmap(partial(scorers.score, make_scorer()))(trajectories)


@pytest.fixture(scope="module")
def every():
    """Every sequence of six actions, scored by every scorer."""
    return {name: jax.device_get(score_all(make, EVERY_SEQUENCE)) for name, make in SCORERS.items()}


def number_of(actions):
    """Where in EVERY_SEQUENCE an episode of these actions stands, the first of its kind."""
    padded = [*actions, *[0] * (HORIZON - len(actions))]
    return EVERY_SEQUENCE.tolist().index(padded)


def counted(trajectory):
    """(success, violations, steps) of trajectories [N T], counted from what is left at the end."""
    last = jax.tree.map(lambda leaf: leaf[:, -1], trajectory.verdict)
    return np.column_stack([last.success, last.violations, trajectory.live.sum(axis=1)]).astype(int)


def distinct_by_history(counts, totals):
    """How many different totals there are among the trajectories of each history."""
    histories = {}
    for count, total in zip(map(tuple, counts), totals, strict=True):
        histories.setdefault(count, set()).add(float(total))
    return [len(different) for different in histories.values()]


def summed_per_step(reward):
    """What a scorer without event counts would do: add up floats, step by step."""
    total = np.zeros_like(reward[:, 0])
    for column in reward.T:
        total = total + column
    return total


@pytest.mark.x64
@pytest.mark.parametrize("name", SCORERS)
def test_equal_histories_have_bit_equal_totals_in_any_order(every, name):
    trajectory, score = every[name]
    assert set(distinct_by_history(counted(trajectory), score.total)) == {1}


def test_equal_histories_have_bit_equal_totals_in_float64():
    trajectory, score = exact(score_all)(SCORERS["guarded"], EVERY_SEQUENCE)
    assert score.total.dtype == np.float64
    assert set(distinct_by_history(counted(trajectory), score.total)) == {1}
    assert max(distinct_by_history(counted(trajectory), summed_per_step(score.reward))) > 1


def test_float_rewards_summed_per_step_would_break_the_ties(every):
    trajectory, score = every["guarded"]
    assert max(distinct_by_history(counted(trajectory), summed_per_step(score.reward))) > 1


@pytest.mark.parametrize("name", SCORERS)
def test_rewards_per_step_add_up_to_the_total(every, name):
    score = every[name][1]
    np.testing.assert_allclose(score.reward.sum(axis=1), score.total, atol=1e-6)


def test_prices_apply_to_counts_of_events(every):
    trajectory, score = every["guarded"]
    success, bypassed, duplicate, steps = counted(trajectory).T
    np.testing.assert_allclose(
        score.total, success - 2 * bypassed - duplicate - 0.05 * steps, atol=1e-6
    )
    assert {0, 1} == set(success) == set(bypassed) == set(duplicate)


def test_the_reward_of_a_step_is_that_of_what_it_brought_about(every):
    bypass_twice = (refund.LOOKUP, refund.REFUND, refund.REFUND, refund.FINISH)
    reward = every["guarded"][1].reward[number_of(bypass_twice)]
    np.testing.assert_allclose(reward, [-0.05, -2.05, -1.05, 0.95, 0, 0], atol=1e-6)


def test_guarded_is_penalised_and_the_veto(every):
    guarded, penalised = every["guarded"][1], every["penalised"][1]
    np.testing.assert_array_equal(guarded.total, penalised.total)
    np.testing.assert_array_equal(guarded.reward, penalised.reward)
    assert penalised.eligible.all()
    np.testing.assert_array_equal(
        guarded.eligible, ~every["guarded"][0].verdict.violations[:, -1].any(axis=1)
    )


def test_a_penalty_of_zero_leaves_the_outcome(every):
    free = lambda: scorers.penalised(scorers.outcome(0.05), jnp.zeros(2))
    np.testing.assert_array_equal(
        score_all(free, EVERY_SEQUENCE)[1].total, every["outcome"][1].total
    )


@pytest.mark.parametrize("penalty", [0.0, -5.0, 1e9])
def test_no_price_buys_permission(every, penalty):
    priced = lambda: scorers.guarded(scorers.outcome(0.0), jnp.full(2, penalty))
    score = score_all(priced, EVERY_SEQUENCE)[1]
    np.testing.assert_array_equal(score.eligible, every["guarded"][1].eligible)


PATHS = {
    "safe": (
        (refund.LOOKUP, refund.REQUEST_APPROVAL, refund.REFUND, refund.FINISH),
        0.8,
        0.8,
        True,
    ),
    "shortcut": ((refund.LOOKUP, refund.REFUND, refund.FINISH), 0.85, -1.15, False),
}


@pytest.mark.parametrize("path", PATHS)
def test_the_paths_of_the_chapter_are_worth_what_it_says(every, path):
    actions, outcome, guarded, eligible = PATHS[path]
    path = number_of(actions)
    by_outcome, by_guard = every["outcome"][1], every["guarded"][1]
    np.testing.assert_allclose(by_outcome.total[path], outcome, rtol=1e-6)
    np.testing.assert_allclose(by_guard.total[path], guarded, rtol=1e-6)
    assert by_outcome.eligible[path]
    assert by_guard.eligible[path] == eligible


@pytest.mark.parametrize("name", SCORERS)
def test_an_infrastructure_failure_never_teaches(every, name):
    trajectory, score = every[name]
    lost = jax.tree.map(jnp.asarray, trajectory)
    verdict = lost.verdict._replace(valid=lost.verdict.valid.at[:, -1].set(False))
    scored = jax.jit(jax.vmap(partial(scorers.score, SCORERS[name]())))
    assert score.eligible.any()
    assert not scored(lost._replace(verdict=verdict)).eligible.any()


def test_a_payoff_pays_by_state_and_action_and_is_off_the_lattice():
    scorer = scorers.payoff(bandit.payoff())
    pull = lambda arm: follow(jnp.stack([arm, 0]), bandit.gym(), bandit.Task(jnp.int32(0)))
    score = jax.jit(jax.vmap(lambda arm: scorers.score(scorer, pull(arm))))(jnp.arange(4))
    np.testing.assert_allclose(score.total, list(bandit.PAYS.values()), rtol=1e-6)
    np.testing.assert_array_equal(score.reward[:, 1], np.zeros(4))
    assert not scorers.on_lattice(scorer)
    assert all(scorers.on_lattice(make()) for make in SCORERS.values())


def test_everyone_may_teach_whatever_happened():
    no = jnp.bool_(False)
    worst = Verdict(done=no, success=no, violations=jnp.ones(2, bool), valid=no)
    assert bool(scorers.everyone(worst))


def test_a_numpy_penalty_serves_one_precision_after_the_other():
    """JAX 0.10 keeps a NumPy constant in the precision that first traced it."""
    penalty = np.array([0.1, 0.7])
    make = lambda: scorers.penalised(scorers.outcome(0.0), penalty)
    bypass = EVERY_SEQUENCE[[number_of((refund.LOOKUP, refund.REFUND, refund.FINISH))]]
    totals = [score_all(make, bypass)[1].total, exact(score_all)(make, bypass)[1].total]
    assert [total.dtype for total in totals] == [np.float32, np.float64]
    assert totals[1] == 1 - 0.1


def test_many_prices_are_one_program():
    traces = []

    @jax.jit
    def worth(step_cost, penalty):
        traces.append(1)
        scorer = scorers.guarded(scorers.outcome(step_cost), penalty)
        return scorers.score(scorer, follow(EVERY_SEQUENCE[0])).total

    totals = [float(worth(cost, jnp.full(2, cost))) for cost in (0.0, 0.05, 0.5)]
    assert len(traces) == 1
    assert len(set(totals)) == len(totals)


@pytest.mark.parametrize("penalty", [[2.0], [2.0, 1.0, 0.5]])
def test_a_penalty_has_one_fine_for_each_kind_of_violation(penalty):
    """A wrong number of fines must not broadcast into a wrong price."""
    prices = scorers.penalised(scorers.outcome(), np.array(penalty)).prices
    counts = Events(jnp.int32(1), jnp.zeros(2, jnp.int32), jnp.int32(1))
    with pytest.raises(ValueError, match="a fine for each of 2 kinds of violation"):
        scorers.price(prices, counts)
