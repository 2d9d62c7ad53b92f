"""Laws of the wrappers, each against the plain desk or against the gym inside."""

from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_refund
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jaxagent import policies, wrappers
from jaxagent.gyms import refund
from jaxagent.rollout import rollout
from jaxagent.types import Gym, Noise

LENGTH = refund.HORIZON
few = settings(max_examples=40, deadline=None, derandomize=True)
sequences = arrays(np.int32, LENGTH, elements=st.integers(0, len(refund.ACTIONS) - 1))
numbers = st.integers(0, len(refund.TRAIN.names) - 1)


def task_of(number: int) -> refund.Task:
    return jax.tree.map(lambda leaf: leaf[number], refund.TRAIN.task)


def needs_approval(task, state, action):
    """The gate that the refund desk lacks: no refund of a known high amount without approval."""
    del task
    return ~((action == refund.REFUND) & (state.phase == refund.KNOWN_HIGH))


def nothing_passes(task, state, action):
    del task, state
    return action < 0


def everything_passes(task, state, action):
    del task, state
    return action >= 0


@cache
def replayed(gym_of, *arguments):
    """The jitted rollout of `gym_of(refund desk, *arguments)`: `(task, actions) -> Trajectory`."""
    gym = gym_of(refund.gym(), *arguments)
    silence = jnp.zeros(LENGTH)
    return jax.jit(lambda task, act: rollout(gym, policies.replay, task, Noise(act, silence)))


@cache
def stepped(gym_of):
    """As `replayed`, but driven by hand: nothing is frozen when the episode ends."""
    gym = gym_of(refund.gym())

    def drive(task, actions):
        step = lambda state, action: (gym.step(task, state, action, jnp.int32(0)), state)
        return jax.lax.scan(step, gym.reset(task), actions)[0]

    return jax.jit(drive)


def bare(gym: Gym) -> Gym:
    return gym


# gated


@pytest.mark.x64
@given(number=numbers, actions=sequences)
@few
def test_a_gate_counts_what_it_refuses_and_nothing_gets_past_it(number, actions):
    task = task_of(number)
    seen = replayed(wrappers.gated, needs_approval)(task, actions)
    desk = plain_refund.Desk(int(task.amount), refund.PHASES[int(task.start)])
    blocked = 0
    for turn, action in enumerate(refund.ACTIONS[code] for code in actions):
        assert seen.live[turn] == (not desk.done)
        if desk.done:
            break
        is_refused = action == "refund" and desk.phase == "known_high"
        blocked += is_refused
        desk = desk if is_refused else plain_refund.act(desk, action)
        assert seen.state.blocked[turn + 1] == blocked
        assert refund.PHASES[seen.obs[turn + 1]] == desk.phase
    assert seen.state.blocked[-1] == blocked
    assert (seen.state.inner.effects[-1], seen.state.inner.violation[-1]) == (desk.effects, False)


@given(number=numbers, actions=sequences)
@few
def test_a_refused_action_leaves_the_inner_state_untouched_and_stays_in_the_log(number, actions):
    task = task_of(number)
    seen = replayed(wrappers.gated, nothing_passes)(task, actions)
    np.testing.assert_array_equal(seen.action, actions)
    assert seen.state.blocked.tolist() == list(range(LENGTH + 1))
    for leaf, fresh in zip(seen.state.inner, refund.reset(task), strict=True):
        np.testing.assert_array_equal(leaf, np.full(LENGTH + 1, fresh))


@given(number=numbers, actions=sequences)
@few
def test_a_gate_that_refuses_nothing_changes_nothing(number, actions):
    seen = replayed(wrappers.gated, everything_passes)(task_of(number), actions)
    plain = replayed(bare)(task_of(number), actions)
    assert not seen.state.blocked.any()
    chex.assert_trees_all_equal(seen._replace(state=seen.state.inner), plain)


def test_the_logged_log_probability_is_that_of_the_sampled_action_though_it_was_refused():
    policy = policies.tabular(refund.gym().spec)
    numbers = np.random.default_rng(0)
    table = jnp.asarray(numbers.normal(size=(len(refund.PHASES), len(refund.ACTIONS))), float)
    uniforms = numbers.random((2, 64, LENGTH), np.float32)

    gym, actor = wrappers.gated(refund.gym(), nothing_passes), policies.sample(policy, table)
    act = jax.vmap(lambda noise: rollout(gym, actor, task_of(1), noise))
    seen = jax.jit(act)(Noise(*uniforms))
    log_probs = jax.nn.log_softmax(table[refund.START])
    np.testing.assert_allclose(seen.log_prob, log_probs[seen.action], rtol=1e-6)
    assert len(np.unique(seen.action)) == len(refund.ACTIONS)


# strict


@pytest.mark.x64
@given(number=numbers, actions=sequences)
@few
def test_strict_remembers_a_step_after_the_end_and_moves_nothing(number, actions):
    driven = stepped(wrappers.strict)(task_of(number), actions)
    frozen = replayed(bare)(task_of(number), actions)
    chex.assert_trees_all_equal(driven.inner, jax.tree.map(lambda leaf: leaf[-1], frozen.state))
    finishes = np.flatnonzero(actions == refund.FINISH)
    assert bool(driven.blocked) == (len(finishes) > 0 and finishes[0] < LENGTH - 1)


def test_without_strict_a_step_after_the_end_would_move_the_desk():
    after_the_end = np.array([refund.FINISH] + [refund.LOOKUP] * (LENGTH - 1), np.int32)
    assert stepped(bare)(task_of(0), after_the_end).phase != refund.TERMINAL
    assert stepped(wrappers.strict)(task_of(0), after_the_end).inner.phase == refund.TERMINAL


def test_a_rollout_never_misuses_a_strict_gym():
    actions = np.zeros(LENGTH, np.int32)
    assert not replayed(wrappers.strict)(task_of(0), actions).state.blocked.any()


def test_misuse_in_a_batch_is_refused_once_with_its_count():
    state = lambda *misuse: wrappers.Gated(inner=(), blocked=np.array(misuse))
    wrappers.refuse_misuse(state(0, 0, 0))
    with pytest.raises(ValueError, match="step after terminal state, in 2 of 3"):
        wrappers.refuse_misuse(state(1, 0, 3))


# advance


@given(number=numbers, actions=st.lists(st.integers(0, 3), min_size=1, max_size=LENGTH))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_advance_walks_like_the_plain_desk_and_like_it_refuses_to_go_on(number, actions):
    gym, task = refund.gym(), task_of(number)
    state = gym.reset(task)
    desk = plain_refund.Desk(int(task.amount), refund.PHASES[int(task.start)])
    for action in actions:
        if desk.done:
            with pytest.raises(ValueError, match="step after terminal state"):
                plain_refund.act(desk, refund.ACTIONS[action])
            with pytest.raises(ValueError, match="step after terminal state"):
                wrappers.advance(gym, task, state, action)
            return
        desk = plain_refund.act(desk, refund.ACTIONS[action])
        state = wrappers.advance(gym, task, state, action)
        assert (refund.PHASES[int(state.phase)], int(state.effects)) == (desk.phase, desk.effects)


@pytest.mark.parametrize("action", [-1, 4])
def test_advance_refuses_an_action_that_the_gym_does_not_have(action):
    gym, task = refund.gym(), task_of(0)
    with pytest.raises(ValueError, match=rf"action must be in 0\.\.3, got {action}"):
        wrappers.advance(gym, task, gym.reset(task), action)


# deterministic


@given(number=numbers, actions=sequences, chance=arrays(np.int32, 2, elements=st.integers(0, 9)))
@few
def test_a_deterministic_gym_has_one_outcome_and_reads_no_chance(number, actions, chance):
    gym, task = refund.gym(), task_of(number)
    state = gym.reset(task)
    odds = gym.odds(task, state, jnp.int32(actions[0]))
    assert odds.tolist() == [1.0]
    after = [gym.step(task, state, jnp.int32(actions[0]), jnp.int32(fall)) for fall in chance]
    chex.assert_trees_all_equal(*after)
