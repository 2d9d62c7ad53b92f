"""The information barrier: an actor answers to noise and observation, whatever lies behind them."""

import importlib
import inspect
import pkgutil
from functools import cache, partial
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Int

import jaxagent.gyms
from jaxagent import policies
from jaxagent.gyms import refund
from jaxagent.rollout import rollout
from jaxagent.types import Actor, Gym, Noise, Policy, Problem, Spec, State, Task

LENGTH, NUM_WORLDS = 6, 64
seeds = st.integers(0, 2**31 - 1)


class World(NamedTuple):
    """All that lies behind the barrier: a task, and the state in which its episode begins."""

    task: Task
    state: State


class Screened(NamedTuple):
    inner: State
    turn: Int[Array, "*B"]


def screened(gym: Gym, script: Int[Array, "T+1"]) -> Gym:
    """`gym`, but what a policy sees is read from `script` turn by turn, and nothing ends.

    So the observations are held fixed while `World`s, its tasks, vary.
    """

    def step(world: World, state: Screened, action, chance) -> Screened:
        return Screened(gym.step(world.task, state.inner, action, chance), state.turn + 1)

    def judge(world: World, state: Screened):
        return gym.judge(world.task, state.inner)._replace(done=jnp.bool_(False))

    return Gym(
        gym.spec,
        reset=lambda world: Screened(world.state, jnp.int32(0)),
        odds=lambda world, state, action: gym.odds(world.task, state.inner, action),
        step=step,
        observe=lambda world, state: script[state.turn],
        judge=judge,
    )


def outputs(gym: Gym, actor_of, worlds: World, script, noise: Noise):
    """What `actor_of(task)` answers in every world: observations, actions, log probabilities."""
    act = lambda world: rollout(screened(gym, script), actor_of(world.task), world, noise)
    seen = jax.vmap(act)(worlds)
    return seen.obs, seen.action, seen.log_prob


def check_barrier(script, answers) -> None:
    """AssertionError unless every world saw the script and got the same answers, bit for bit."""
    obs, action, log_prob = (np.asarray(field) for field in answers)
    assert (obs == np.asarray(script)).all(), "the observations were not held fixed"
    assert (action == action[0]).all(), "the action depends on what is behind the barrier"
    assert (log_prob == log_prob[0]).all(), "the log probability depends on what is behind it"


def behaviours(spec: Spec) -> dict[str, Policy]:
    """A policy, and every sampler made from it."""
    table = policies.tabular(spec)
    num_observations, num_actions = len(spec.observations), len(spec.actions)
    allowed = np.arange(num_observations)[:, None] % num_actions != np.arange(num_actions)
    return {
        "table": table,
        "tempered": policies.tempered(table, 0.7),
        "nucleus": policies.nucleus(table, 0.8),
        "masked": policies.masked(table, jnp.asarray(allowed)),
    }


def actors(behaviour: dict[str, Policy], params) -> dict[str, Actor]:
    """Every kind of actor that chooses by a policy."""
    greedy = {"greedy": policies.greedy(behaviour["table"], params)}
    return greedy | {name: policies.sample(each, params) for name, each in behaviour.items()}


def problems() -> dict[str, Problem]:
    names = [module.name for module in pkgutil.iter_modules(jaxagent.gyms.__path__)]
    return {name: importlib.import_module(f"jaxagent.gyms.{name}").problem() for name in names}


PROBLEMS = problems()


@cache
def worlds_of(name: str) -> World:
    """Many worlds, in which every field of task and state comes from another play."""
    problem, numbers = PROBLEMS[name], np.random.default_rng(0)
    horizon, num_actions = problem.horizon, len(problem.gym.spec.actions)
    which = numbers.integers(len(problem.train.names), size=NUM_WORLDS)
    task = jax.tree.map(lambda leaf: leaf[which], problem.train.task)
    actions = numbers.integers(num_actions, size=(NUM_WORLDS, horizon)).astype(np.int32)
    play = lambda task, actions: rollout(
        problem.gym, policies.replay, task, Noise(actions, jnp.zeros(horizon))
    )
    turn = numbers.integers(horizon + 1, size=NUM_WORLDS)
    states = jax.device_get(jax.jit(jax.vmap(play))(task, actions).state)
    begun = jax.tree.map(lambda leaf: leaf[np.arange(NUM_WORLDS), turn], states)
    return jax.tree.map(numbers.permutation, World(task, begun))


@pytest.fixture(scope="module", params=PROBLEMS)
def behind(request):
    """The spec of a gym, worlds of it, and a jitted run of every actor in all of them."""
    gym = PROBLEMS[request.param].gym
    behaviour = behaviours(gym.spec)

    @jax.jit
    def run(worlds, params, script, noise):
        everyone = actors(behaviour, params)
        one = lambda actor: outputs(gym, lambda task: actor, worlds, script, noise)
        return {name: one(actor) for name, actor in everyone.items()}

    return gym.spec, worlds_of(request.param), run


@pytest.mark.x64
@given(seed=seeds)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_no_actor_answers_to_the_task_or_to_the_state(behind, seed):
    spec, worlds, run = behind
    numbers = np.random.default_rng(seed)
    worlds = jax.tree.map(numbers.permutation, worlds)
    params = numbers.normal(size=(len(spec.observations), len(spec.actions))).astype(np.float32)
    script = numbers.integers(len(spec.observations), size=LENGTH + 1).astype(np.int32)
    noise = Noise(*numbers.random((2, LENGTH)).astype(np.float32))
    for answers in run(worlds, params, script, noise).values():
        check_barrier(script, answers)


def test_the_worlds_differ_in_every_field_that_a_task_or_a_state_has():
    worlds = worlds_of("refund")
    for leaf in jax.tree.leaves(worlds):
        assert len(np.unique(leaf)) > 1


def leaks_its_action(task: refund.Task) -> Actor:
    """An actor that closes over the task: it asks for approval only where the amount is high."""
    is_high = task.amount > refund.LIMIT
    choice = jnp.where(is_high, jnp.int32(refund.REQUEST_APPROVAL), jnp.int32(refund.REFUND))
    return policies.scripted(lambda task, obs: choice, task)


def leaks_its_log_prob(task: refund.Task) -> Actor:
    """An actor whose action is honest while the probability it reports is not."""
    return lambda noise, obs: (jnp.int32(0), -task.amount.astype(float))


@pytest.mark.parametrize(
    ("leak", "where"),
    [(leaks_its_action, "the action depends"), (leaks_its_log_prob, "the log probability depends")],
)
def test_a_planted_leak_is_seen(leak, where):
    worlds = worlds_of("refund")
    script = np.full(LENGTH + 1, refund.KNOWN_HIGH, np.int32)
    noise = Noise(np.zeros(LENGTH, np.float32), np.zeros(LENGTH, np.float32))
    run = jax.jit(partial(outputs, refund.gym(), leak))
    with pytest.raises(AssertionError, match=where):
        check_barrier(script, run(worlds, script, noise))


def test_an_observation_that_was_not_held_fixed_is_seen():
    worlds = worlds_of("refund")
    seen = np.stack([worlds.state.phase] * (LENGTH + 1), axis=1)
    silence = np.zeros((NUM_WORLDS, LENGTH))
    with pytest.raises(AssertionError, match="not held fixed"):
        check_barrier(np.full(LENGTH + 1, refund.START), (seen, silence, silence))


def test_an_actor_takes_noise_and_observation_and_nothing_else():
    noise_and_obs, _ = get_args(Actor)
    assert len(noise_and_obs) == 2
    spec = refund.gym().spec
    params = policies.tabular(spec).init()
    everyone = actors(behaviours(spec), params) | {
        "scripted": policies.scripted(refund.expert, refund.Task(*map(jnp.int32, (20, 0)))),
        "replay": policies.replay,
    }
    for name, actor in everyone.items():
        assert list(inspect.signature(actor).parameters) == ["noise", "obs"], name


@given(seed=seeds)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_the_refund_desk_shows_neither_its_task_nor_what_only_a_verifier_may_read(seed):
    numbers = np.random.default_rng(seed)
    worlds = worlds_of("refund")
    shuffle = lambda record: jax.tree.map(numbers.permutation, record)
    hidden = shuffle(worlds.state)._replace(phase=worlds.state.phase)
    seen = jax.vmap(refund.observe)(shuffle(worlds.task), hidden)
    np.testing.assert_array_equal(seen, worlds.state.phase)
