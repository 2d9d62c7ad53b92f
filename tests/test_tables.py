"""A table acts as its gym does, and says nothing twice."""

from collections import deque
from functools import cache, partial
from itertools import combinations, product
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_refund
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxagent import scorers, tables
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.policies import replay
from jaxagent.rollout import rollout
from jaxagent.tables import Code, Start, Table, gym_of, payoff_of, tabulate, tasks_of
from jaxagent.types import Gym, Noise, Payoff, Spec, Tasks, Trajectory, Verdict, check
from jaxagent.wrappers import deterministic

some = settings(max_examples=15, deadline=None, derandomize=True)


class Source(NamedTuple):
    """A gym, and the table made of it."""

    gym: Gym
    tasks: Tasks
    horizon: int
    payoff: Payoff | None
    table: Table


def source(gym: Gym, tasks: Tasks, horizon: int, payoff: Payoff | None = None) -> Source:
    return Source(gym, tasks, horizon, payoff, tabulate(gym, tasks, horizon, payoff))


def from_problem(problem) -> Source:
    return source(problem.gym, problem.train, problem.horizon, problem.payoff)


def believed(num_numbers: int, budget: int) -> Source:
    everything = number_search.Interval(np.zeros(1, np.int32), np.full(1, num_numbers, np.int32))
    tasks = Tasks(("all",), everything, np.ones(1))
    return source(number_search.belief(num_numbers, budget), tasks, budget)


MAKERS = {
    "refund": lambda: from_problem(refund.problem()),
    "bandit": lambda: from_problem(bandit.problem()),
    "search": lambda: from_problem(number_search.problem(8, 3)),
    "belief": lambda: believed(8, 3),
}


@cache
def made_of(name: str) -> Source:
    return MAKERS[name]()


@pytest.fixture(params=MAKERS)
def made(request) -> Source:
    return made_of(request.param)


@pytest.fixture
def desk() -> Source:
    return made_of("refund")


def acted(gym: Gym, tasks: Tasks, number, action, chance) -> Trajectory:
    """One rollout [M T] for each row of task numbers [M], actions and uniforms [M T]."""

    def one(number, action, chance):
        task = jax.tree.map(lambda leaf: jnp.asarray(leaf)[number], tasks.task)
        return rollout(gym, replay, task, Noise(action, chance))

    return jax.device_get(jax.jit(jax.vmap(one))(number, action, chance))


def assert_act_alike(first: Trajectory, second: Trajectory) -> None:
    """All but the state, which differs by design, and the chance of a dead step, which is none."""
    chex.assert_trees_all_equal(
        (first.obs, first.live, first.verdict), (second.obs, second.live, second.verdict)
    )
    np.testing.assert_array_equal(first.chance[first.live], second.chance[first.live])


def assert_same_table(first: Table, second: Table) -> None:
    assert first.spec == second.spec
    chex.assert_trees_all_equal(first, second)


# The table against the gym


@pytest.mark.x64
def test_a_table_acts_as_the_gym_it_was_made_of(made):
    rng = np.random.default_rng(1)
    shape = (4000, made.horizon)
    number = rng.integers(0, len(made.table.start), shape[0])
    action = rng.integers(0, len(made.table.spec.actions), shape, np.int32)
    chance = (rng.integers(0, 2**24, shape) * 2.0**-24).astype(np.float32)
    theirs = acted(made.gym, made.tasks, number, action, chance)
    ours = acted(gym_of(made.table), tasks_of(made.table), number, action, chance)
    assert_act_alike(theirs, ours)
    assert theirs.live.all(axis=1).any(), "no rollout came to the horizon"


def test_every_sequence_of_refund_actions_ends_alike_in_table_gym_and_plain_python(desk):
    sequences = np.array(list(product(range(4), repeat=7)), np.int32)
    action = np.tile(sequences, (4, 1))
    number = np.repeat(np.arange(4), len(sequences))
    chance = np.zeros(action.shape, np.float32)
    theirs = acted(desk.gym, desk.tasks, number, action, chance)
    ours = acted(gym_of(desk.table), tasks_of(desk.table), number, action, chance)
    assert_act_alike(theirs, ours)

    orders = zip(refund.TRAIN.task.amount, refund.TRAIN.task.start, strict=True)
    desks = [plain_refund.Desk(int(a), plain_refund.PHASES[start]) for a, start in orders]
    endings = [ending for order in desks for ending in plain_refund.endings(order, 7)]
    plain = [(e.success, e.violation, e.duplicate, lived) for e, lived in endings]
    last = jax.tree.map(lambda leaf: leaf[:, -1], ours.verdict)
    ending = np.column_stack([last.success, last.violations, ours.live.sum(axis=1)])
    np.testing.assert_array_equal(ending, plain)


@pytest.mark.x64
def test_a_table_pays_what_the_environment_pays():
    made = made_of("bandit")
    first = made.table.start[0]
    np.testing.assert_array_equal(made.table.payoff[first, :, 0], list(bandit.PAYS.values()))
    action = np.arange(4, dtype=np.int32)[:, None]
    rows = (np.zeros(4, int), action, np.zeros((4, 1), np.float32))
    theirs = acted(made.gym, made.tasks, *rows)
    ours = acted(gym_of(made.table), tasks_of(made.table), *rows)
    total = lambda payoff, played: (
        jax.vmap(partial(scorers.score, scorers.payoff(payoff)))(played).total
    )
    np.testing.assert_array_equal(total(made.payoff, theirs), total(payoff_of(made.table), ours))


@pytest.mark.x64
def test_a_table_has_the_stated_dtypes_and_axes(made):
    check(made.table)
    dtypes = {name: getattr(made.table, name).dtype for name in ("next", "obs", "start")}
    assert set(dtypes.values()) == {np.dtype(np.int32)}
    assert {made.table.odds.dtype, made.table.payoff.dtype} == {np.dtype(float)}
    assert {leaf.shape[0] for leaf in made.table.verdict} == {len(made.table.obs)}
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(made.table))


def test_a_state_that_is_over_leads_to_itself_for_sure(made):
    over = made.table.verdict.done
    own = np.broadcast_to(np.arange(len(over))[:, None, None], made.table.next.shape)
    certain = np.arange(made.table.odds.shape[2]) == 0
    np.testing.assert_array_equal(made.table.next[over], own[over])
    assert (made.table.odds[over] == certain).all()
    assert not made.table.payoff[over].any()
    assert over.any()


# Merging, against plain Python


def outcomes(table: Table, code: int, action: int) -> list[tuple[float, float, int] | None]:
    """What chance may bring, in order: odds, payoff and where it leads; None without odds."""
    rows = zip(
        table.odds[code, action].tolist(),
        table.payoff[code, action].tolist(),
        table.next[code, action].tolist(),
        strict=True,
    )
    return [row if row[0] > 0 else None for row in rows]


def shown(table: Table, code: int) -> tuple:
    return (int(table.obs[code]), *(leaf[code].tolist() for leaf in table.verdict))


def told_apart(table: Table) -> set[tuple[int, int]]:
    """The pairs of codes that some sequence of actions tells apart, marked until nothing new is."""
    codes, actions = range(len(table.obs)), range(len(table.spec.actions))
    moves = {(s, a): outcomes(table, s, a) for s in codes for a in actions}
    marked = {(s, t) for s, t in combinations(codes, 2) if shown(table, s) != shown(table, t)}

    def differ(one, other) -> bool:
        if one is None or other is None:
            return one is not other
        pair = (min(one[2], other[2]), max(one[2], other[2]))
        return one[:2] != other[:2] or pair in marked

    while True:
        more = {
            (s, t)
            for s, t in combinations(codes, 2)
            if (s, t) not in marked
            and any(any(map(differ, moves[s, a], moves[t, a])) for a in actions)
        }
        if not more:
            return marked
        marked |= more


def in_order_of_discovery(table: Table) -> list[int]:
    """Codes as a breadth-first walk from the tasks finds them."""
    found = list(dict.fromkeys(table.start.tolist()))
    queue = deque(found)
    while queue:
        code = queue.popleft()
        for action in range(len(table.spec.actions)):
            for outcome in outcomes(table, code, action):
                if outcome is not None and outcome[2] not in found:
                    found.append(outcome[2])
                    queue.append(outcome[2])
    return found


def assert_alike_for(table: Table, other: Table, horizon: int) -> None:
    """Walk both at once, by every action and every chance, from every task."""
    pairs = set(zip(table.start.tolist(), other.start.tolist(), strict=True))
    for left in range(horizon, -1, -1):
        ahead = set()
        for one, two in pairs:
            assert shown(table, one) == shown(other, two)
            over = table.verdict.done[one] or not table.verdict.valid[one]
            if over or left == 0:
                continue
            for action in range(len(table.spec.actions)):
                first, second = outcomes(table, one, action), outcomes(other, two, action)
                known = lambda rows: [row and row[:2] for row in rows]
                assert known(first) == known(second)
                ahead |= {(a[2], b[2]) for a, b in zip(first, second, strict=True) if a}
        pairs = ahead


@pytest.mark.parametrize("name", ["refund", "bandit", "belief"])
def test_no_two_codes_are_indistinguishable(name):
    table = made_of(name).table
    assert told_apart(table) == set(combinations(range(len(table.obs)), 2))


def test_codes_are_in_breadth_first_order_and_all_reachable(made):
    assert in_order_of_discovery(made.table) == list(range(len(made.table.obs)))


def test_the_refund_table_does_not_grow_with_the_horizon(desk):
    closed = tabulate(desk.gym, desk.tasks, 8)
    assert len(closed.obs) == len(desk.table.obs)
    assert_same_table(tabulate(desk.gym, desk.tasks, 20), closed)


def test_a_table_of_a_table_is_that_table(made):
    table = made.table
    again = tabulate(gym_of(table), tasks_of(table), made.horizon, payoff_of(table))
    assert_same_table(again, table)


SMALL = Spec(("x", "y"), ("left", "right"), ("spill",))
ODDS = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.25, 0.75]])


def small_table(seed: int) -> Table:
    """A random table. Little shows in a state, so much merges; every field may tell it apart."""
    rng = np.random.default_rng(seed)
    N, A, C, K = 8, 2, 2, 2
    rarely = lambda *shape: rng.random(shape) < 0.1
    return Table(
        SMALL,
        start=rng.integers(0, N, K, np.int32),
        weight=np.full(K, 1 / K),
        next=rng.integers(0, N, (N, A, C), np.int32),
        odds=ODDS[np.where(rarely(N, A), rng.integers(1, len(ODDS), (N, A)), rng.integers(0, 2))],
        obs=rarely(N).astype(np.int32),
        verdict=Verdict(rarely(N), rarely(N), rarely(N, 1), ~rarely(N)),
        payoff=np.where(rarely(N, A, C), 1.0, 0.0),
    )


small_tables = st.builds(small_table, st.integers(0, 2**32 - 1))


def tabled(table: Table, horizon: int) -> Table:
    return tabulate(gym_of(table), tasks_of(table), horizon, payoff_of(table))


class Clocked(NamedTuple):
    inner: Code
    time: jax.Array


def with_unseen_clock(gym: Gym) -> Gym:
    """`gym` with a counter in its state that nothing reads."""
    return Gym(
        gym.spec,
        reset=lambda task: Clocked(gym.reset(task), jnp.int32(0)),
        odds=lambda task, state, action: gym.odds(task, state.inner, action),
        step=lambda task, state, action, chance: Clocked(
            gym.step(task, state.inner, action, chance), state.time + 1
        ),
        observe=lambda task, state: gym.observe(task, state.inner),
        judge=lambda task, state: gym.judge(task, state.inner),
    )


@some
@given(small_tables, st.integers(1, 7))
def test_merging_changes_nothing_that_the_horizon_can_show(table, horizon):
    merged = tabled(table, horizon)
    assert_alike_for(table, merged, horizon)
    assert in_order_of_discovery(merged) == list(range(len(merged.obs)))
    assert told_apart(merged) == set(combinations(range(len(merged.obs)), 2))


@some
@given(small_tables, st.integers(1, 7))
def test_a_counter_that_nothing_reads_leaves_no_trace_in_the_table(table, horizon):
    """But for the last decision, after which states that look alike are as good as each other."""
    payoff = payoff_of(table)
    clocked = tabulate(
        with_unseen_clock(gym_of(table)),
        tasks_of(table),
        horizon,
        lambda state, action, chance: payoff(state.inner, action, chance),
    )
    merged = tabled(table, horizon)
    assert_same_table(clocked._replace(next=merged.next), merged)
    assert_alike_for(table, clocked, horizon)


# Cases of merging


def walk(length: int, alarm: int) -> tuple[Gym, Tasks]:
    """A counter, always observed as 0; at `alarm` it is a violation, and nothing follows.

    Past the alarm a state looks like the first one until an alarm is due from there.
    """

    def judge(task: Start, state: Code) -> Verdict:
        del task
        no = jnp.bool_(False)
        return Verdict(no, no, (state.code == alarm)[None], jnp.bool_(True))

    gym = deterministic(
        Spec(("somewhere",), ("on",), ("alarm",)),
        reset=lambda task: Code(task.number),
        step=lambda task, state, action: Code(jnp.minimum(state.code + 1, length)),
        observe=lambda task, state: jnp.int32(0),
        judge=judge,
    )
    return gym, Tasks(("here",), Start(np.zeros(1, np.int32)), np.ones(1))


@pytest.mark.parametrize(
    ("horizon", "num_states"), [(9, 1), (10, 11), (20, 11), (21, 12), (40, 12)]
)
def test_a_difference_counts_once_the_horizon_can_reach_it(horizon, num_states):
    gym, tasks = walk(length=100, alarm=10)
    assert len(tabulate(gym, tasks, horizon).obs) == num_states


def lottery(odds: list[list[float]], pays: tuple[float, float] = (0, 0)):
    """Two tasks that look alike: a draw with their odds, at their pay, shows b, c, ... and ends."""

    def judge(task: Start, state: Code) -> Verdict:
        del task
        no = jnp.bool_(False)
        return Verdict(state.code >= 2, no, jnp.zeros(0, bool), jnp.bool_(True))

    gym = Gym(
        Spec(tuple("abcd"), ("draw",)),
        reset=lambda task: Code(task.number),
        odds=lambda task, state, action: jnp.asarray(odds)[state.code],
        step=lambda task, state, action, chance: Code(2 + chance),
        observe=lambda task, state: jnp.maximum(state.code - 1, 0),
        judge=judge,
    )
    tasks = Tasks(("one", "two"), Start(np.arange(2, dtype=np.int32)), np.array([0.25, 0.75]))
    return gym, tasks, 2, lambda state, action, chance: jnp.asarray(pays)[state.code]


EVEN, ODD = [0.5, 0.5], [0.25, 0.75]


def test_tasks_that_nothing_tells_apart_begin_in_one_state():
    table = tabulate(*lottery([EVEN, EVEN]))
    np.testing.assert_array_equal(table.start, [0, 0])
    np.testing.assert_array_equal(table.weight, [0.25, 0.75])


def test_states_that_pay_differently_stay_apart():
    table = tabulate(*lottery([EVEN, EVEN], pays=(1.0, 2.0)))
    np.testing.assert_array_equal(table.start, [0, 1])
    np.testing.assert_array_equal(table.payoff[table.start, 0], [[1, 1], [2, 2]])


def test_states_whose_odds_differ_stay_apart():
    table = tabulate(*lottery([EVEN, ODD]))
    np.testing.assert_array_equal(table.start, [0, 1])
    np.testing.assert_array_equal(table.odds[table.start, 0], [EVEN, ODD])


def test_chance_keeps_its_order_and_what_has_no_odds_leads_nowhere():
    table = tabulate(*lottery([[0.0, *ODD]] * 2, pays=(1.0, 1.0)))
    np.testing.assert_array_equal(table.start, [0, 0])
    np.testing.assert_array_equal(table.odds[0, 0], [0, *ODD])
    np.testing.assert_array_equal(table.payoff[0, 0], [0, 1, 1])
    np.testing.assert_array_equal(table.next[0, 0], [0, 1, 2])
    np.testing.assert_array_equal(table.obs, [0, 2, 3])


def test_odds_are_computed_in_float64():
    table = tabulate(*lottery([[1 / 3, 2 / 3]] * 2))
    np.testing.assert_array_equal(table.odds[0, 0], [1 / 3, 2 / 3])


def test_nothing_follows_once_the_infrastructure_failed():
    gym, tasks = walk(length=100, alarm=3)
    failing = gym._replace(
        judge=lambda task, state: gym.judge(task, state)._replace(valid=state.code < 2)
    )
    table = tabulate(failing, tasks, 10)
    np.testing.assert_array_equal(table.verdict.valid, [True, True, False])
    np.testing.assert_array_equal(table.next[:, 0, 0], [1, 2, 2])


def test_a_state_that_float64_would_widen_is_still_recognised(monkeypatch):
    gym, tasks = walk(length=3, alarm=1)
    round_trip = lambda task, state, action, chance: Code(
        (state.code + jnp.sum(jnp.array([True]))) % 3  # the sum is an int64 in float64's scope
    )
    monkeypatch.setattr(tables, "MAX_STATES", 3)
    assert len(tabulate(gym._replace(step=round_trip), tasks, 10).obs) == 3


# A table as an argument


def test_tables_of_one_shape_share_a_program(desk):
    traces = []

    @jax.jit
    def ending(table: Table, action):
        traces.append(table.spec)
        one = lambda task: rollout(gym_of(table), replay, task, Noise(action, jnp.zeros(7)))
        return jax.vmap(one)(tasks_of(table).task).verdict.success[:, -1]

    action = jnp.array([1, 2, 3, 0, 0, 0, 0])  # lookup, approval, refund, finish
    np.testing.assert_array_equal(ending(desk.table, action), [False, True, False, True])
    failing = desk.table._replace(
        verdict=desk.table.verdict._replace(success=np.zeros_like(desk.table.verdict.success))
    )
    assert not ending(failing, action).any()
    assert len(traces) == 1


def test_tasks_of_a_table_can_be_named(desk):
    assert tasks_of(desk.table, refund.TRAIN.names).names == refund.TRAIN.names
    assert tasks_of(desk.table).names == ("task-0", "task-1", "task-2", "task-3")
    with pytest.raises(ValueError, match="the table has 4 tasks, got 1 names"):
        tasks_of(desk.table, ("one",))


# What cannot be tabulated


def test_a_horizon_below_one_is_refused(desk):
    with pytest.raises(ValueError, match="horizon must be at least 1 decision, got 0"):
        tabulate(desk.gym, desk.tasks, 0)


def test_a_table_without_tasks_is_refused(desk):
    none = Tasks((), refund.Task(np.zeros(0, np.int32), np.zeros(0, np.int32)), np.zeros(0))
    with pytest.raises(ValueError, match="at least one task, got none"):
        tabulate(desk.gym, none, 7)


def test_too_many_situations_are_refused_with_their_number(monkeypatch):
    monkeypatch.setattr(tables, "MAX_STATES", 50)
    gym, tasks = walk(length=100, alarm=10)
    assert len(tabulate(gym, tasks, 49).obs) == 12
    expected = "may have 50 situations before merging, got 51 after 50 of 60 decisions in 1 tasks"
    with pytest.raises(ValueError, match=expected):
        tabulate(gym, tasks, 60)


@pytest.mark.parametrize("odds", [[0.5, 0.4], [-0.5, 1.5], [float("nan"), 1.0]])
def test_odds_that_are_no_distribution_are_refused(odds):
    with pytest.raises(ValueError, match="odds must be >= 0 and sum to 1"):
        tabulate(*lottery([EVEN, odds]))


def test_an_observation_without_a_name_is_refused():
    with pytest.raises(ValueError, match=r"observations must be in 0\.\.3"):
        tabulate(*lottery([[0, 0, 0, 1]] * 2))
