"""Trajectories: events are differences of verdicts, and the ways to end are two facts."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagent import policies, trajectories
from jaxagent.gyms import refund
from jaxagent.rollout import rollout
from jaxagent.types import Noise

HORIZON = 5
EVERY_SEQUENCE = np.array(list(itertools.product(range(4), repeat=HORIZON)), np.int32)
FINISHES = (EVERY_SEQUENCE == refund.FINISH).any(axis=1)
NUM_DECISIONS = np.where(FINISHES, (EVERY_SEQUENCE == refund.FINISH).argmax(axis=1) + 1, HORIZON)
AT_LAST_DECISION = np.arange(1, HORIZON + 1) == NUM_DECISIONS[:, None]


def failing():
    """The refund desk, whose infrastructure fails once an order is approved."""
    gym = refund.gym()

    def judge(task, state):
        return gym.judge(task, state)._replace(valid=state.phase != refund.APPROVED)

    return gym._replace(judge=judge)


def read(gym):
    """Every sequence of actions on a high-value order, and all that can be read from it."""

    def one(actions):
        task = refund.Task(amount=jnp.int32(90), start=jnp.int32(refund.RECOVER))
        noise = Noise(actions, jnp.zeros(HORIZON))
        trajectory = rollout(gym, policies.replay, task, noise)
        return trajectory, {
            name: getattr(trajectories, name)(trajectory)
            for name in ("events", "final", "terminated", "truncated", "ended")
        }

    return jax.device_get(jax.jit(jax.vmap(one))(EVERY_SEQUENCE))


@pytest.fixture(scope="module")
def every():
    return read(refund.gym())


@pytest.fixture(scope="module")
def every_failing():
    return read(failing())


def test_events_add_up_to_the_final_verdict(every):
    _, facts = every
    events, final = facts["events"], facts["final"]
    np.testing.assert_array_equal(events.success.sum(axis=1), final.success)
    np.testing.assert_array_equal(events.violation.sum(axis=1), final.violations)
    np.testing.assert_array_equal(events.step.sum(axis=1), NUM_DECISIONS)
    assert final.success.any() and final.violations.any(axis=0).all()


def test_events_are_integers_that_happen_at_most_once(every):
    for counts in every[1]["events"]:
        assert counts.dtype == np.int32
        assert set(np.unique(counts)) == {0, 1}


def test_an_event_stands_at_the_decision_that_brought_it_about(every):
    """Not one later: the decision to finish earns the success (F34)."""
    safe = [refund.LOOKUP, refund.REQUEST_APPROVAL, refund.REFUND, refund.FINISH, refund.REFUND]
    number = EVERY_SEQUENCE.tolist().index(safe)
    events = every[1]["events"]
    np.testing.assert_array_equal(events.success[number], [0, 0, 0, 1, 0])
    np.testing.assert_array_equal(events.step[number], [1, 1, 1, 1, 0])


def test_finishing_terminates_also_at_the_last_step(every):
    expected = AT_LAST_DECISION & FINISHES[:, None]
    np.testing.assert_array_equal(every[1]["terminated"], expected)
    assert expected[:, -1].any()


def test_running_out_of_budget_truncates(every):
    expected = AT_LAST_DECISION & ~FINISHES[:, None]
    np.testing.assert_array_equal(every[1]["truncated"], expected)


def test_every_episode_ends_once_at_its_last_decision(every):
    np.testing.assert_array_equal(every[1]["ended"], AT_LAST_DECISION)


def test_a_failure_of_the_infrastructure_is_neither_way_to_end(every_failing):
    trajectory, facts = every_failing
    failed = ~facts["final"].valid
    assert failed.any() and not failed.all()
    assert not facts["truncated"][failed].any() and not facts["terminated"][failed].any()
    np.testing.assert_array_equal(facts["ended"].sum(axis=1), 1)
    assert (trajectory.live <= trajectory.verdict.valid[:, :-1]).all()


def test_the_final_observation_survives(every):
    """What the last decision led to is kept, whatever comes next (F32)."""
    trajectory, _ = every
    assert (trajectory.obs[FINISHES, -1] == refund.TERMINAL).all()
    np.testing.assert_array_equal(trajectory.obs, trajectory.state.phase)
