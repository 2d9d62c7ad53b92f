"""Whole runs: chance on held-out tasks, going on from a learner, and a stream read in order."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxagent import estimators, learn, noise, policies, runs, scorers
from jaxagent.gyms import number_search, refund
from jaxagent.types import Problem, Tasks

PROBLEM = refund.problem()
POLICY = policies.tabular(PROBLEM.gym.spec)
SGD = optax.sgd(0.04)


def method(problem, policy):
    update = runs.clipped_update(policy, SGD, batch_size=1)
    return runs.Method(policy, scorers.outcome(), estimators.anchor(problem.gym.spec), update)


def believed() -> Problem:
    """A game in which chance answers."""
    everything = number_search.Interval(np.zeros(1, np.int32), np.full(1, 8, np.int32))
    tasks = Tasks(("all",), everything, np.ones(1))
    nobody = {"taught": None, "expert": None, "payoff": None, "penalty": np.zeros(0)}
    return Problem(number_search.belief(8, 3), 3, tasks, tasks, **nobody)


def test_chance_acts_on_held_out_tasks_too():
    """A uniform policy guesses 1, 1, 1: over many runs it is right as often as chance says."""
    game = believed()
    policy = policies.tabular(game.gym.spec)

    def found(run):
        learner = learn.start(policy.init(), SGD)
        trained = runs.train(game, method(game, policy), learner, noise.rounds(0, run, 1), 1)
        return trained.held_out.obs[0, 1]

    after_one_guess = jax.jit(jax.vmap(found))(np.arange(2000))
    correct = np.mean(after_one_guess == 36)  # the terminal observation of 8 numbers
    assert abs(correct - 1 / 8) < 4 * np.sqrt(7 / 64 / 2000)


def test_a_run_goes_on_from_a_learner_as_if_it_had_not_stopped():
    train = jax.jit(lambda learner, stream: runs.train(
        PROBLEM, method(PROBLEM, POLICY), learner, stream, 4)[:2])  # fmt: skip
    stream = noise.rounds(0, 5, 6)
    start = learn.start(POLICY.init(), SGD)
    whole, history = train(start, stream)
    half, first = train(start, jax.tree.map(lambda leaf: leaf[:3], stream))
    again, second = train(half, jax.tree.map(lambda leaf: leaf[3:], stream))
    np.testing.assert_array_equal(whole.params, again.params)
    seen = jnp.append(first.transitions, second.transitions)
    np.testing.assert_array_equal(history.transitions, seen)


def test_a_stream_is_read_on_where_the_last_round_stopped():
    """What a round consumes are its live decisions: shift the stream by them, and round 2 comes."""
    uniforms = np.random.default_rng(0).random(2 * runs.per_round(PROBLEM, 2), np.float32)
    replay = partial(runs.replay, PROBLEM, method(PROBLEM, POLICY), group_size=2)
    start = learn.start(POLICY.init(), SGD)
    both = replay(start, uniforms, rounds=2)
    first = replay(start, uniforms, rounds=1)
    consumed = int(first.history.transitions[0])
    assert 0 < consumed < runs.per_round(PROBLEM, 2)
    rest = replay(first.learner, np.roll(uniforms, -consumed), rounds=1)
    np.testing.assert_array_equal(both.learner.params, rest.learner.params)


def test_a_stream_too_short_is_refused():
    with pytest.raises(ValueError, match="2 rounds may consume 112 uniforms, got 111"):
        runs.replay(
            PROBLEM,
            method(PROBLEM, POLICY),
            learn.start(POLICY.init(), SGD),
            np.zeros(111, np.float32),
            group_size=2,
            rounds=2,
        )
