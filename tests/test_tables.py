"""A table acts as its gym does, says nothing twice, and says what is wrong with a file."""

import json
import textwrap
import tomllib
from collections import deque
from functools import partial
from itertools import combinations, product
from pathlib import Path
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

from jaxagent import scorers, tables
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.policies import replay
from jaxagent.rollout import rollout
from jaxagent.tables import Code, Start, Table, gym_of, load, payoff_of, tabulate, tasks_of
from jaxagent.types import Gym, Noise, Payoff, Spec, Tasks, Trajectory, Verdict, check
from jaxagent.wrappers import deterministic

DATA = Path(__file__).parent / "data"
some = settings(max_examples=30, deadline=None, derandomize=True)


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


@pytest.fixture(scope="module", params=MAKERS)
def made(request) -> Source:
    return MAKERS[request.param]()


@pytest.fixture(scope="module")
def desk() -> Source:
    return MAKERS["refund"]()


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


def test_a_table_pays_what_the_environment_pays():
    made = MAKERS["bandit"]()
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
    table = MAKERS[name]().table
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
SIZE = dict(N=6, A=2, C=2, K=2)
ODDS = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.25, 0.75]])


@st.composite
def small_tables(draw) -> Table:
    """Random tables with few observations, so that much merges; nothing is ruled out."""
    N, A, C, K = SIZE.values()
    integers = lambda shape, most: draw(arrays(np.int32, shape, elements=st.integers(0, most)))
    flags = lambda shape: draw(arrays(bool, shape))
    rarely = lambda shape: integers(shape, 3) == 3
    return Table(
        SMALL,
        start=integers(K, N - 1),
        weight=np.full(K, 1 / K),
        next=integers((N, A, C), N - 1),
        odds=ODDS[integers((N, A), len(ODDS) - 1)],
        obs=integers(N, 1),
        verdict=Verdict(rarely(N), flags(N), rarely((N, 1)), ~rarely(N)),
        payoff=rarely((N, A, C)).astype(float),
    )


def tabled(table: Table, horizon: int) -> Table:
    return tabulate(gym_of(table), tasks_of(table), horizon, payoff_of(table))


@some
@given(small_tables(), st.integers(1, 7))
def test_merging_changes_nothing_that_the_horizon_can_show(table, horizon):
    merged = tabled(table, horizon)
    assert_alike_for(table, merged, horizon)
    assert in_order_of_discovery(merged) == list(range(len(merged.obs)))
    assert told_apart(merged) == set(combinations(range(len(merged.obs)), 2))


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
@given(small_tables(), st.integers(1, 7))
def test_a_counter_that_nothing_reads_leaves_no_trace_in_the_table(table, horizon):
    payoff = payoff_of(table)
    clocked = tabulate(
        with_unseen_clock(gym_of(table)),
        tasks_of(table),
        horizon,
        lambda state, action, chance: payoff(state.inner, action, chance),
    )
    assert_same_table(clocked, tabled(table, horizon))


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
        reset=lambda task: Code(task.index),
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


def lottery(odds: list[float], pays: list[float]) -> tuple[Gym, Tasks, Payoff]:
    """From two tasks that look alike, one draw decides between the observations 1, 2, ..."""
    spec = Spec(tuple("abcd"), ("draw",))
    gym = Gym(
        spec,
        reset=lambda task: Code(task.index),
        odds=lambda task, state, action: jnp.asarray(odds),
        step=lambda task, state, action, chance: Code(2 + chance),
        observe=lambda task, state: jnp.maximum(state.code - 1, 0),
        judge=lambda task, state: Verdict(
            state.code >= 2, jnp.bool_(False), jnp.zeros(0, bool), jnp.bool_(True)
        ),
    )
    tasks = Tasks(("one", "two"), Start(np.arange(2, dtype=np.int32)), np.array([0.25, 0.75]))
    return gym, tasks, lambda state, action, chance: jnp.asarray(pays)[state.code]


def test_tasks_that_nothing_tells_apart_begin_in_one_state():
    gym, tasks, _ = lottery([0.5, 0.5], [])
    table = tabulate(gym, tasks, 1)
    np.testing.assert_array_equal(table.start, [0, 0])
    np.testing.assert_array_equal(table.weight, [0.25, 0.75])


def test_states_that_pay_differently_stay_apart():
    gym, tasks, payoff = lottery([0.5, 0.5], [1.0, 2.0])
    table = tabulate(gym, tasks, 1, payoff)
    np.testing.assert_array_equal(table.start, [0, 1])
    np.testing.assert_array_equal(table.payoff[table.start, 0], [[1, 1], [2, 2]])


def test_chance_keeps_its_order_and_what_has_no_odds_leads_nowhere():
    gym, tasks, payoff = lottery([0.0, 0.25, 0.75], [1.0, 1.0])
    table = tabulate(gym, tasks, 3, payoff)
    first = table.start[0]
    np.testing.assert_array_equal(table.odds[first, 0], [0, 0.25, 0.75])
    np.testing.assert_array_equal(table.payoff[first, 0], [0, 1, 1])
    assert table.next[first, 0, 0] == first
    np.testing.assert_array_equal(table.obs[table.next[first, 0, 1:]], [2, 3])
    assert 1 not in table.obs


def test_odds_are_computed_in_float64():
    gym, tasks, _ = lottery([1 / 3, 2 / 3], [])
    table = tabulate(gym, tasks, 1)
    np.testing.assert_array_equal(table.odds[table.start[0], 0], [1 / 3, 2 / 3])


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
    gym, tasks, _ = lottery(odds, [])
    with pytest.raises(ValueError, match="odds must be >= 0 and sum to 1"):
        tabulate(gym, tasks, 1)


def test_an_observation_without_a_name_is_refused():
    gym, tasks, _ = lottery([0, 0, 0, 1], [])
    with pytest.raises(ValueError, match=r"observations must be in 0\.\.3"):
        tabulate(gym, tasks, 1)


# Files


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_desk_written_out_by_hand_is_the_table_of_the_gym(desk):
    by_hand = load(DATA / "refund.toml")
    assert_same_table(by_hand, tabulate(desk.gym, desk.tasks, 8))
    assert_same_table(tabled(by_hand, 7), desk.table)


def test_json_says_what_toml_says(tmp_path):
    document = tomllib.loads((DATA / "refund.toml").read_text())
    twin = load(written(tmp_path, "refund.json", json.dumps(document)))
    assert_same_table(twin, load(DATA / "refund.toml"))


def test_the_example_in_the_docstring_loads_as_it_says(tmp_path):
    _, example = load.__doc__.split("suffix.\n", 1)
    example, _ = example.split("State codes")
    table = load(written(tmp_path, "door.toml", textwrap.dedent(example)))
    assert table.spec == Spec(("closed", "open"), ("push", "leave"), ("noise",))
    np.testing.assert_array_equal(table.odds, [[[0.75, 0.25], [1, 0]], [[1, 0], [1, 0]]])
    np.testing.assert_array_equal(table.next, [[[1, 0], [0, 0]], [[1, 1], [1, 1]]])
    np.testing.assert_array_equal(table.payoff, [[[2.5, 0], [0, 0]], [[0, 0], [0, 0]]])
    np.testing.assert_array_equal(table.obs, [0, 1])
    chex.assert_trees_all_equal(
        table.verdict,
        Verdict(
            done=np.array([False, True]),
            success=np.array([False, True]),
            violations=np.array([[False], [True]]),
            valid=np.array([True, True]),
        ),
    )
    np.testing.assert_array_equal(table.weight, [1.0])


def door() -> dict:
    """A small gym with one of everything."""
    return dict(
        observations=["closed", "open"],
        actions=["push", "leave"],
        violations=["noise"],
        states=[
            dict(name="outside", observation="closed"),
            dict(name="inside", observation="open", done=True, violations=["noise"]),
            dict(name="lost", observation="open", valid=False),
        ],
        transitions=[
            {"from": "outside", "action": "push", "to": "inside", "odds": 0.75, "payoff": 2},
            {"from": "outside", "action": "push", "to": "outside", "odds": 0.25},
            {"from": "outside", "action": "leave", "to": "lost"},
        ],
        tasks=[dict(name="enter", start="outside"), dict(name="again", start="outside", weight=3)],
    )


def changed(*path, to) -> dict:
    """The door with one value replaced; a key that is not there is added."""
    *inner, last = path
    document = door()
    place = document
    for key in inner:
        place = place[key]
    place[last] = to
    return document


def without(*path) -> dict:
    *inner, last = path
    document = door()
    place = document
    for key in inner:
        place = place[key]
    del place[last]
    return document


def test_weights_of_tasks_are_normalised(tmp_path):
    table = load(written(tmp_path, "door.json", json.dumps(door())))
    np.testing.assert_array_equal(table.weight, [0.25, 0.75])


def test_an_outcome_without_odds_in_a_file_leads_nowhere(tmp_path):
    document = door()
    document["transitions"][0]["odds"], document["transitions"][1]["odds"] = 0.0, 1
    table = load(written(tmp_path, "door.json", json.dumps(document)))
    np.testing.assert_array_equal(table.odds[0, 0], [0, 1])
    np.testing.assert_array_equal(table.next[0, 0], [0, 0])
    assert not table.payoff.any()


WRONG = {
    "a missing table": (without("tasks"), "top level: missing key 'tasks'; the keys are"),
    "an unknown table": (changed("state", to=[]), "top level: unknown key 'state'; the keys are"),
    "not a table": ([], "top level: must be a table of keys and values, got []"),
    "a table that is no list": (changed("tasks", to={}), "top level: tasks must be a list, got {}"),
    "a row that is no table": (
        changed("states", 1, to="x"),
        "states[1]: must be a table of keys and values, got 'x'",
    ),
    "a missing key": (
        without("states", 1, "name"),
        "states[1]: missing key 'name'; the keys are 'name', 'observation', 'done'",
    ),
    "an unknown key": (
        changed("transitions", 2, "prob", to=1),
        "transitions[2]: unknown key 'prob'; the keys are 'from', 'action', 'to', 'odds', 'payoff'",
    ),
    "two missing keys": (changed("tasks", 0, to={}), "tasks[0]: missing key 'name', 'start'"),
    "a string for a flag": (
        changed("states", 0, "done", to="no"),
        "states[0]: done must be true or false, got 'no'",
    ),
    "a number for a flag": (
        changed("states", 0, "valid", to=1),
        "states[0]: valid must be true or false, got 1",
    ),
    "a flag for a number": (
        changed("transitions", 0, "odds", to=True),
        "transitions[0]: odds must be a finite number, got True",
    ),
    "a number for a name": (
        changed("states", 0, "name", to=7),
        "states[0]: name must be a string, got 7",
    ),
    "an empty name": (changed("actions", 1, to=""), "actions[1]: a name must be a string, got ''"),
    "a name that is a list": (
        changed("observations", 0, to=[]),
        "observations[0]: a name must be a string, got []",
    ),
    "an action twice": (changed("actions", 1, to="push"), "actions[1]: 'push' is there already"),
    "an observation twice": (
        changed("observations", 1, to="closed"),
        "observations[1]: 'closed' is there already, at 0",
    ),
    "a violation twice": (
        changed("violations", to=["a", "b", "a"]),
        "violations[2]: 'a' is there already, at 0",
    ),
    "a state twice": (
        changed("states", 2, "name", to="outside"),
        "states[2]: 'outside' is there already, at 0",
    ),
    "a task twice": (
        changed("tasks", 1, "name", to="enter"),
        "tasks[1]: 'enter' is there already, at 0",
    ),
    "an unknown source": (
        changed("transitions", 1, "from", to="x"),
        "transitions[1]: unknown state 'x'; the states are 'outside', 'inside', 'lost'",
    ),
    "an unknown target": (
        changed("transitions", 1, "to", to="x"),
        "transitions[1]: unknown state 'x'; the states are 'outside', 'inside', 'lost'",
    ),
    "an unknown action": (
        changed("transitions", 0, "action", to="pull"),
        "transitions[0]: unknown action 'pull'; the actions are 'push', 'leave'",
    ),
    "an unknown observation": (
        changed("states", 2, "observation", to="ajar"),
        "states[2]: unknown observation 'ajar'; the observations are 'closed', 'open'",
    ),
    "an unknown violation": (
        changed("states", 1, "violations", to=["noise", "smell"]),
        "states[1]: unknown violation 'smell'; the violations are 'noise'",
    ),
    "a violation that is a list": (
        changed("states", 1, "violations", to=[[]]),
        "states[1]: unknown violation []; the violations are 'noise'",
    ),
    "an unknown start": (changed("tasks", 1, "start", to="x"), "tasks[1]: unknown state 'x'"),
    "an unknown otherwise": (
        changed("otherwise", to="x"),
        "otherwise: unknown state 'x'; the states are 'outside', 'inside', 'lost'",
    ),
    "negative odds": (
        changed("transitions", 0, "odds", to=-0.5),
        "transitions[0]: odds must be in 0..1, got -0.5",
    ),
    "odds above 1": (
        changed("transitions", 0, "odds", to=1e308),
        "transitions[0]: odds must be in 0..1, got 1e+308",
    ),
    "odds that are no number": (
        changed("transitions", 0, "odds", to=float("nan")),
        "transitions[0]: odds must be a finite number, got nan",
    ),
    "an infinite payoff": (
        changed("transitions", 0, "payoff", to=float("-inf")),
        "transitions[0]: payoff must be a finite number, got -inf",
    ),
    "a payoff beyond floats": (
        changed("transitions", 0, "payoff", to=10**400),
        "transitions[0]: payoff must be a finite number, got 1000",
    ),
    "odds that do not add up": (
        changed("transitions", 1, "odds", to=0.25 + 1e-8),
        "transitions[0], transitions[1]: odds of one state and action must sum to 1, got 1.0",
    ),
    "a gap": (
        without("transitions", 2),
        "states[0]: nothing says where 'leave' leads from 'outside', and there is no 'otherwise'",
    ),
    "a way out of a done state": (
        changed("transitions", 2, "from", to="inside"),
        "transitions[2]: state 'inside' is over, so nothing may lead out of it",
    ),
    "a way out of a failed state": (
        changed("transitions", 2, "from", to="lost"),
        "transitions[2]: state 'lost' is over, so nothing may lead out of it",
    ),
    "no state": (changed("states", to=[]), "states: at least one is needed, got none"),
    "no action": (changed("actions", to=[]), "actions: at least one is needed, got none"),
    "no task": (changed("tasks", to=[]), "tasks: at least one is needed, got none"),
    "no observation": (
        changed("observations", to=[]),
        "observations: at least one is needed, got none",
    ),
    "a weight of zero": (
        changed("tasks", 1, "weight", to=0),
        "tasks[1]: weight must be positive, got 0",
    ),
    "a negative weight": (
        changed("tasks", 1, "weight", to=-1.5),
        "tasks[1]: weight must be positive, got -1.5",
    ),
    "an infinite weight": (
        changed("tasks", 1, "weight", to=float("inf")),
        "tasks[1]: weight must be a finite number, got inf",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_names_the_file_the_row_and_what_was_given(tmp_path, what):
    document, message = WRONG[what]
    with pytest.raises(ValueError) as caught:
        load(written(tmp_path, "door.json", json.dumps(document)))
    assert str(caught.value).startswith(f"door.json: {message}")


def test_the_door_itself_has_nothing_wrong(tmp_path):
    load(written(tmp_path, "door.json", json.dumps(door())))


UNREADABLE = {
    "door.yaml": ("", "a table is a .toml or a .json file, got suffix '.yaml'"),
    "door": ("", "a table is a .toml or a .json file, got suffix ''"),
    "door.toml": ("a = ", "Invalid value"),
    "open.json": ("{", "Expecting property name"),
    "deep.json": ("[" * 100_000, "maximum recursion depth"),
    "twins.json": ('{"a": 1, "a": 2}', "a key is given twice in {'a': 2}"),
    "twins.toml": ("a = 1\na = 2", "Cannot overwrite a value"),
    "nan.toml": (
        "observations = ['o']\nactions = ['a']\nstates = [{name = 's', observation = 'o'}]\n"
        "tasks = [{name = 't', start = 's', weight = nan}]",
        "tasks[0]: weight must be a finite number, got nan",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_parsed_is_named(tmp_path, name):
    text, message = UNREADABLE[name]
    with pytest.raises(ValueError) as caught:
        load(written(tmp_path, name, text))
    assert str(caught.value).startswith(f"{name}: {message}")


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "door.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"door.toml: 'utf-8' codec can't decode"):
        load(path)


@pytest.mark.parametrize("name", ["missing.toml", "folder.toml"])
def test_what_is_no_file_is_named(tmp_path, name):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ValueError, match=f"{name}: there is no such file"):
        load(str(tmp_path / name))


def test_a_file_beyond_the_limit_is_not_parsed(tmp_path, monkeypatch):
    text = json.dumps(door())
    path = written(tmp_path, "door.json", text)
    monkeypatch.setattr(tables, "MAX_BYTES", len(text))
    load(path)
    monkeypatch.setattr(tables, "MAX_BYTES", len(text) - 1)
    with pytest.raises(ValueError, match=rf"door.json: .* may have {len(text) - 1:,} bytes"):
        load(path)


def test_a_table_beyond_the_limit_is_not_allocated(tmp_path, monkeypatch):
    path = written(tmp_path, "door.json", json.dumps(door()))
    monkeypatch.setattr(tables, "MAX_ENTRIES", 12)
    load(path)
    monkeypatch.setattr(tables, "MAX_ENTRIES", 11)
    with pytest.raises(ValueError, match=r"states x actions x chances may be 11, got \(3, 2, 2\)"):
        load(path)
