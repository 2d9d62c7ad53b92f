"""Laws of the one acting loop and its collectors; the ordered one against a plain program."""

import random
from functools import cache
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_refund
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jaxtyping import Array, Int

import jaxagent.rollout
from jaxagent import noise, policies, scorers
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.precision import exact
from jaxagent.rollout import collect_in_order, collector, evaluate, play, rollout, silence
from jaxagent.trajectories import ended, terminated, truncated
from jaxagent.types import Gym, Noise, Spec, Verdict
from jaxagent.wrappers import deterministic

GROUP_SIZE, HORIZON = 3, refund.HORIZON
TASKS = refund.TRAIN.task
K = len(refund.TRAIN.names)
POLICY = policies.tabular(refund.gym().spec)
some = settings(max_examples=40, deadline=None, derandomize=True)
sequences = arrays(np.int32, HORIZON, elements=st.integers(0, len(refund.ACTIONS) - 1))
numbers = st.integers(0, K - 1)
seeds = st.integers(0, 2**31 - 1)


def task_of(number: int) -> refund.Task:
    return jax.tree.map(lambda leaf: leaf[number], TASKS)


def some_logits(seed: int) -> np.ndarray:
    shape = (len(refund.PHASES), len(refund.ACTIONS))
    return np.random.default_rng(seed).normal(size=shape)


@cache
def replayed():
    """The jitted `(task, actions) -> (trajectory, ends)` of the refund desk."""

    def run(task, actions):
        seen = rollout(refund.gym(), policies.replay, task, Noise(actions, jnp.zeros(HORIZON)))
        return seen, {how.__name__: how(seen) for how in (terminated, truncated, ended)}

    return jax.jit(run)


# One episode


@pytest.mark.x64
@given(number=numbers, actions=sequences)
@some
def test_what_is_live_is_a_prefix_and_after_it_everything_is_frozen(number, actions):
    seen, _ = jax.device_get(replayed()(task_of(number), actions))
    lived = int(seen.live.sum())
    assert seen.live.tolist() == [True] * lived + [False] * (HORIZON - lived)
    np.testing.assert_array_equal(seen.live, ~seen.verdict.done[:-1])
    for leaf in jax.tree.leaves((seen.obs, seen.state, seen.verdict)):
        assert (leaf[lived:] == leaf[lived]).all()


@pytest.mark.x64
@given(number=numbers, actions=sequences)
@some
def test_termination_and_truncation_are_two_facts(number, actions):
    task = task_of(number)
    _, ends = jax.device_get(replayed()(task, actions))
    desk = plain_refund.Desk(int(task.amount), refund.PHASES[int(task.start)])
    desk, lived = plain_refund.play(desk, [refund.ACTIONS[action] for action in actions])
    last = np.arange(HORIZON) == lived - 1
    np.testing.assert_array_equal(ends["terminated"], last & desk.done)
    np.testing.assert_array_equal(ends["truncated"], last & (not desk.done))
    np.testing.assert_array_equal(ends["ended"], last)


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_an_episode_that_finishes_on_its_last_turn_is_terminated_and_not_truncated(how):
    last = refund.FINISH if how == "terminated" else refund.LOOKUP
    _, ends = replayed()(task_of(0), np.array([refund.LOOKUP] * 6 + [last], np.int32))
    assert ends[how].tolist() == [False] * 6 + [True]
    assert not ends["truncated" if how == "terminated" else "terminated"].any()


@given(number=numbers, actions=sequences)
@some
def test_the_final_observation_survives_a_truncation(number, actions):
    actions = np.where(actions == refund.FINISH, refund.LOOKUP, actions)
    task = task_of(number)
    seen, _ = replayed()(task, actions)
    desk = plain_refund.Desk(int(task.amount), refund.PHASES[int(task.start)])
    desk, _ = plain_refund.play(desk, [refund.ACTIONS[action] for action in actions])
    assert seen.obs.shape == (HORIZON + 1,)
    assert refund.PHASES[seen.obs[-1]] == desk.phase == refund.PHASES[seen.state.phase[-1]]


class Flaky(NamedTuple):
    """A desk whose infrastructure fails at a turn that the task names."""

    turn: Int[Array, "*B"]


def flaky() -> Gym:
    return deterministic(
        Spec(("waiting", "terminal"), ("wait", "stop")),
        reset=lambda task: Flaky(jnp.int32(0)),
        step=lambda task, state, action: Flaky(jnp.where(action == 1, 99, state.turn + 1)),
        observe=lambda task, state: (state.turn >= 99).astype(jnp.int32),
        judge=lambda task, state: Verdict(
            done=state.turn >= 99,
            success=state.turn >= 99,
            violations=jnp.zeros(0, bool),
            valid=(state.turn < task) | (state.turn >= 99),
        ),
    )


def test_an_infrastructure_failure_ends_an_episode_and_is_neither_kind_of_end():
    silence = jnp.zeros(6)
    act = lambda fails_at, actions: rollout(
        flaky(), policies.replay, fails_at, Noise(actions, silence)
    )
    waits = jnp.zeros(6, jnp.int32)
    failed = act(jnp.int32(2), waits)
    assert failed.live.tolist() == [True] * 2 + [False] * 4
    assert failed.state.turn.tolist() == [0, 1, 2, 2, 2, 2, 2]
    assert not failed.verdict.done.any()
    assert not (terminated(failed) | truncated(failed)).any()
    assert not scorers.score(scorers.outcome(), failed).eligible

    survived = act(jnp.int32(50), waits)
    assert survived.live.all() and truncated(survived)[-1]
    stopped = act(jnp.int32(2), waits.at[1].set(1))
    assert terminated(stopped).tolist() == [False, True] + [False] * 4


# The collector of samples


@cache
def sampled():
    """The jitted collector `(stream, params) -> [K G T]` and one rollout of it."""
    gym = refund.gym()
    collect = collector(gym, POLICY, TASKS, group_size=GROUP_SIZE, horizon=HORIZON)

    def one(stream, params, number, repeat):
        task = jax.tree.map(lambda leaf: jnp.asarray(leaf)[number], TASKS)
        drawn = noise.episode(stream, number, repeat, HORIZON)
        return rollout(gym, policies.sample(POLICY, params), task, drawn)

    return jax.jit(collect), jax.jit(one)


def stream_of(seed: int) -> noise.Stream:
    return noise.Stream(jnp.uint32(seed), jnp.uint32(seed // 2), jnp.uint32(3))


@pytest.mark.x64
@given(seed=seeds)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_the_collector_equals_its_rollouts_one_by_one(seed):
    collect, one = sampled()
    stream, params = stream_of(seed), jnp.asarray(some_logits(seed), float)
    batch = collect(stream, params)
    for number in range(K):
        for repeat in range(GROUP_SIZE):
            pick = lambda leaf, at=(number, repeat): leaf[at]
            alone = one(stream, params, jnp.int32(number), jnp.int32(repeat))
            chex.assert_trees_all_equal(jax.tree.map(pick, batch), alone)


@pytest.mark.x64
@given(seed=seeds)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_the_recorded_log_probability_is_that_of_the_action_drawn(seed):
    table = some_logits(seed)
    batch = jax.device_get(sampled()[0](stream_of(seed), jnp.asarray(table, float)))
    log_probs = table - np.log(np.exp(table).sum(axis=1, keepdims=True))
    assert len(np.unique(log_probs)) == log_probs.size  # so a shift by one would show (F23)
    told = log_probs[batch.obs[..., :-1], batch.action]
    np.testing.assert_allclose(batch.log_prob[batch.live], told[batch.live], atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"group_size": 0, "horizon": 7}, "group_size"), ({"group_size": 8, "horizon": 0}, "horizon")],
)
def test_a_collector_refuses_sizes_that_no_address_has(sizes, message):
    with pytest.raises(ValueError, match=f"{message} must be in 1.*got 0"):
        collector(refund.gym(), POLICY, TASKS, **sizes)


# The collector of a program with one generator


def plain_program(generator: random.Random, table: np.ndarray) -> list[tuple[list, list]]:
    """(phases, actions) of each rollout: tasks in order, one draw for every live decision."""
    probability = np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)
    rollouts = []
    for amount, start in zip(*TASKS, strict=True):
        for _ in range(GROUP_SIZE):
            desk, actions = plain_refund.Desk(int(amount), refund.PHASES[start]), []
            phases = [desk.phase]
            while not desk.done and len(actions) < HORIZON:
                weights = probability[refund.PHASES.index(desk.phase)]
                actions += generator.choices(refund.ACTIONS, weights=weights, k=1)
                desk = plain_refund.act(desk, actions[-1])
                phases.append(desk.phase)
            rollouts.append((phases, actions))
    return rollouts


def ordered():
    """The jitted ordered collector, in float64."""
    sizes = {"group_size": GROUP_SIZE, "horizon": HORIZON}
    return exact(jax.jit(collect_in_order(refund.gym(), POLICY, TASKS, **sizes)))


@pytest.fixture(scope="module")
def collect_ordered():
    return ordered()


def check_reads_in_order(collect, seed: int) -> None:
    """AssertionError unless `collect` does what the plain program does with the same generator."""
    generator, table = random.Random(seed), some_logits(seed)
    uniforms = np.array([generator.random() for _ in range(K * GROUP_SIZE * HORIZON)])
    batch = collect(uniforms, table)
    for row, (phases, actions) in enumerate(plain_program(random.Random(seed), table)):
        at, lived = divmod(row, GROUP_SIZE), len(actions)
        assert [refund.ACTIONS[code] for code in batch.action[at][:lived]] == actions
        assert [refund.PHASES[code] for code in batch.obs[at][: lived + 1]] == phases
        if phases[-1] == "terminal":
            assert batch.verdict.done[at][lived]


@given(seed=seeds)
@some
def test_uniforms_are_read_in_order_and_only_by_live_decisions(collect_ordered, seed):
    check_reads_in_order(collect_ordered, seed)


def test_a_cursor_moved_by_an_ended_episode_is_seen(monkeypatch):
    act = jaxagent.rollout.rollout
    forgets_the_end = lambda *given: (seen := act(*given))._replace(live=jnp.ones_like(seen.live))
    monkeypatch.setattr(jaxagent.rollout, "rollout", forgets_the_end)
    with pytest.raises(AssertionError):
        check_reads_in_order(ordered(), seed=0)


def test_one_uniform_a_decision_is_refused_where_chance_acts():
    believed = number_search.Interval(np.zeros(1, np.int32), np.full(1, 16, np.int32))
    game = number_search.belief()
    policy = policies.tabular(game.spec)
    with pytest.raises(ValueError, match="chance does not act"):
        collect_in_order(game, policy, believed, group_size=2, horizon=4)


# Without noise


def test_play_gives_every_task_its_own_actor():
    quiet = silence(refund.gym(), TASKS, HORIZON)
    everywhere = play(
        refund.gym(), lambda task: policies.scripted(refund.expert, task), TASKS, quiet
    )
    assert everywhere.obs.shape == (K, HORIZON + 1)
    np.testing.assert_array_equal(everywhere.obs[:, 0], TASKS.start)
    assert everywhere.verdict.success[:, -1].all()
    own = lambda task: lambda noise, obs: (task.amount % 4, jnp.zeros(()))
    seen = play(refund.gym(), own, TASKS, quiet)
    np.testing.assert_array_equal(seen.action[:, 0], TASKS.amount % 4)


def test_evaluation_takes_the_first_of_the_likeliest_actions():
    table = jnp.zeros((2, 4)).at[bandit.PROMPT].set(jnp.array([0.0, 1.0, 1.0, 0.5]))
    problem = bandit.problem()
    policy = policies.tabular(problem.gym.spec)
    tasks = problem.train.task
    quiet = silence(problem.gym, tasks, 1)
    assert evaluate(problem.gym, policy, table, tasks, quiet).action.tolist() == [[1]]


def test_no_noise_is_no_answer_where_chance_acts():
    believed = number_search.Interval(np.zeros(1, np.int32), np.full(1, 16, np.int32))
    with pytest.raises(ValueError, match="chance does not act, got 3 outcomes"):
        silence(number_search.belief(), believed, 4)
