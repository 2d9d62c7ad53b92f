"""Everything finite is a table, and a table is a pytree: a gym enumerated and merged."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from jaxagent.precision import exact, real
from jaxagent.types import Data, Gym, Payoff, Problem, Spec, State, Task, Tasks, Verdict, is_over

MAX_STATES = 1_000_000  # situations that `tabulate` may find before it merges them
CHUNK = 256  # situations looked at in one compiled call


class Table(NamedTuple):
    """A finite gym by state code: NumPy arrays on the host, and a pytree anywhere.

    A state that is over leads to itself, and so does an outcome without odds;
    neither pays.
    """

    spec: Spec
    start: Int[Data, "K"]  # the state code in which each task begins
    weight: Float[Data, "K"]  # the tasks' probabilities
    next: Int[Data, "N A C"]
    odds: Float[Data, "N A C"]
    obs: Int[Data, "N"]
    verdict: Verdict  # leaves [N]
    payoff: Float[Data, "N A C"]  # zeros where the environment pays nothing of its own


class Start(NamedTuple):
    """A task of a table's gym."""

    number: Int[Data, "*B"]  # in 0..K-1


class Code(NamedTuple):
    """A state of a table's gym."""

    code: Int[Data, "*B"]  # in 0..N-1


# A table as a gym


def gym_of(table: Table) -> Gym:
    """The gym that a table is. It acts as the gym that was tabulated, by looking up."""
    at = lambda leaf, *place: jnp.asarray(leaf)[place]
    return Gym(
        table.spec,
        reset=lambda task: Code(at(table.start, task.number)),
        odds=lambda _, state, action: real(table.odds)[state.code, action],
        step=lambda _, state, action, chance: Code(at(table.next, state.code, action, chance)),
        observe=lambda _, state: at(table.obs, state.code),
        judge=lambda _, state: jax.tree.map(lambda leaf: at(leaf, state.code), table.verdict),
    )


def tasks_of(table: Table, names: tuple[str, ...] | None = None) -> Tasks:
    """The tasks of `gym_of(table)`, in the order in which they were tabulated."""
    num_tasks = len(table.start)
    names = tuple(f"task-{k}" for k in range(num_tasks)) if names is None else names
    if len(names) != num_tasks:
        raise ValueError(f"the table has {num_tasks} tasks, got {len(names)} names")
    return Tasks(names, Start(np.arange(num_tasks, dtype=np.int32)), table.weight)


def payoff_of(table: Table) -> Payoff:
    """What the environment of `gym_of(table)` pays of its own, for `scorers.payoff`."""
    return lambda state, action, chance: real(table.payoff)[state.code, action, chance]


def problem_of(table: Table, horizon: int) -> Problem:
    """A table to train on: its own tasks, held out too, and a fine of 1 for each violation."""
    tasks = tasks_of(table)
    return Problem(
        gym_of(table),
        horizon,
        tasks,
        tasks,
        taught=None,
        expert=None,
        payoff=payoff_of(table) if np.any(table.payoff) else None,
        penalty=np.ones(len(table.spec.violations)),
    )


# A gym as a table


def tabulate(gym: Gym, tasks: Tasks, horizon: int, payoff: Payoff | None = None) -> Table:
    """Everything that `horizon` decisions can reach from the tasks, coded breadth first.

    What no observation, verdict, odds or payoff can tell apart in the decisions
    that are left shares a code, across tasks too: a counter that grows without
    bound does not make the table grow. So the table is right for `horizon`
    decisions from a start, no further. Chance keeps its order; odds and payoffs
    are float64. ValueError for a horizon below 1, no task, an observation or
    odds that cannot be, or more than MAX_STATES situations before merging.
    """
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1 decision, got {horizon}")
    if not tasks.names:
        raise ValueError("a table needs at least one task, got none")
    weight = np.asarray(tasks.weight)
    if weight.shape != (len(tasks.names),) or not (weight >= 0).all() or weight.sum() == 0:
        raise ValueError(
            f"{len(tasks.names)} tasks need as many weights of 0 or more, got {weight.tolist()}"
        )
    return _merge(*_explore(gym, tasks, horizon, payoff))


class Situation(NamedTuple):
    """What decides all that follows; leaves [M ...]."""

    task: Task
    state: State


class View(NamedTuple):
    """All that a gym says about situations."""

    obs: Int[np.ndarray, "M"]
    verdict: Verdict
    odds: Float[np.ndarray, "M A C"]
    payoff: Float[np.ndarray, "M A C"]
    moved: State  # leaves [M A C ...]


def _explore(
    gym: Gym, tasks: Tasks, horizon: int, payoff: Payoff | None
) -> tuple[Table, Int[np.ndarray, "N"]]:
    """The table before merging, and how many decisions are left when a state is first reached."""
    task = jax.tree.map(np.asarray, tasks.task)
    look = _look(gym, payoff)
    known: dict[bytes, int] = {}
    start, frontier = _number(known, Situation(task, exact(jax.vmap(gym.reset))(task)))
    parts: list[dict[str, Any]] = []
    remaining: list[int] = []
    for left in range(horizon, -1, -1):
        found = []
        for chunk in _chunks(frontier):
            part, fresh = _expand(gym.spec, look(chunk), chunk, known, len(remaining), left)
            if len(known) > MAX_STATES:
                raise ValueError(
                    f"a table may have {MAX_STATES:,} situations before merging, got {len(known):,}"
                    f" after {horizon - left + 1} of {horizon} decisions in {len(start)} tasks"
                )
            parts.append(part)
            found.append(fresh)
            remaining += [left] * _size(chunk)
        frontier = _join(found)
        if not _size(frontier):
            break
    table = Table(gym.spec, start, np.asarray(tasks.weight, float), **_join(parts))
    return table, np.array(remaining)


def _look(gym: Gym, payoff: Payoff | None) -> Callable[[Situation], View]:
    """A function of at most CHUNK situations. It is compiled once, since it pads them."""
    action = jnp.arange(len(gym.spec.actions), dtype=jnp.int32)

    def one(task: Task, state: State) -> tuple:
        odds = jax.vmap(partial(gym.odds, task, state))(action)
        chance = jnp.arange(odds.shape[1], dtype=jnp.int32)
        each = lambda act: jax.vmap(jax.vmap(act, (None, 0)), (0, None))(action, chance)
        moved = each(partial(gym.step, task, state))
        # float64 may widen an integer on the way; the same state must have the same bytes.
        moved = jax.tree.map(lambda new, old: new.astype(old.dtype), moved, state)
        paid = jnp.zeros_like(odds) if payoff is None else each(partial(payoff, state))
        return gym.observe(task, state), gym.judge(task, state), odds, paid, moved

    compiled = exact(jax.jit(jax.vmap(one)))

    def look(situation: Situation) -> View:
        padding = np.minimum(np.arange(CHUNK), _size(situation) - 1)
        return View(*_take(compiled(*_take(situation, padding)), slice(_size(situation))))

    return look


def _expand(
    spec: Spec,
    view: View,
    situation: Situation,
    known: dict[bytes, int],
    first_code: int,
    left: int,
) -> tuple[dict[str, Any], Situation]:
    """The rows of a table for situations with consecutive codes, and what was not known before.

    Where nothing follows, chance is certain: what a gym says of the odds there
    means nothing, and must not tell states apart.
    """
    verdict = view.verdict
    acts = (~is_over(verdict) & (left > 0))[:, None, None]
    certain = np.arange(view.odds.shape[2]) == 0
    odds = np.where(acts, view.odds, certain).astype(float) + 0.0  # no negative zero
    _refuse_impossible(spec, view.obs, odds)
    follows = acts & (odds > 0)

    code = first_code + np.arange(_size(situation), dtype=np.int32)
    after = np.broadcast_to(code[:, None, None], odds.shape).copy()
    moved = Situation(_take(situation.task, np.nonzero(follows)[0]), _take(view.moved, follows))
    after[follows], fresh = _number(known, moved)
    payoff = np.where(follows, view.payoff, 0).astype(float) + 0.0
    obs = view.obs.astype(np.int32)
    return dict(next=after, odds=odds, obs=obs, verdict=verdict, payoff=payoff), fresh


def _refuse_impossible(
    spec: Spec, obs: Int[np.ndarray, "M"], odds: Float[np.ndarray, "M A C"]
) -> None:
    if not ((obs >= 0) & (obs < len(spec.observations))).all():
        raise ValueError(f"observations must be in 0..{len(spec.observations) - 1}, got {obs}")
    possible = (odds >= 0).all(axis=2) & (np.abs(odds.sum(axis=2) - 1) <= 1e-6)
    if not possible.all():
        raise ValueError(f"odds must be >= 0 and sum to 1, got {odds[~possible][0]}")


def _merge(table: Table, remaining: Int[np.ndarray, "N"]) -> Table:
    """Redirect each state to the first one that agrees with it on all the decisions it has left.

    P_j is the partition of the states with at least j decisions left by what j
    decisions can show:

        P_0      observation and verdict
        P_(j+1)  these, odds and payoff, and P_j of every outcome

    An outcome without odds leads to the state itself, so it adds nothing here. A
    state with r decisions left goes to the first of its class in P_r. Codes are
    in breadth-first order, so that is one with the most decisions left, it goes
    no further itself, and the states kept are reachable, and in breadth-first
    order still.
    """
    shown = _first_equal((table.obs, table.verdict))
    kind = _first_equal((table.obs, table.verdict, table.odds, table.payoff))
    representative = shown.copy()
    for decisions in range(1, remaining[0] + 1):
        count = int(np.sum(remaining >= decisions))  # those states come first
        finer = _first_equal((kind[:count], shown[table.next[:count]]))
        if np.array_equal(finer, shown[:count]):
            break  # and so it stays: the next partition is made of this one in the same way
        representative[:count] = shown = finer
    kept = np.unique(representative)
    code = np.searchsorted(kept, representative).astype(np.int32)
    table = table._replace(start=code[table.start], next=code[table.next])
    rows = _take((table.next, table.odds, table.obs, table.verdict, table.payoff), kept)
    return Table(table.spec, table.start, table.weight, *rows)


def _number(
    known: dict[bytes, int], situation: Situation
) -> tuple[Int[np.ndarray, "M"], Situation]:
    """The code of each situation, and those that had none: they are added to `known`."""
    before = len(known)
    code = np.array([known.setdefault(key, len(known)) for key in _keys(situation)], np.int32)
    new, first = np.unique(code, return_index=True)
    return code, _take(situation, first[new >= before])


def _first_equal(rows: PyTree) -> Int[np.ndarray, "M"]:
    """For each row of the leaves [M ...], the number of the first row that equals it."""
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(key, row) for row, key in enumerate(_keys(rows))])


def _keys(rows: PyTree) -> list[bytes]:
    """Each row of the leaves [M ...] as bytes."""
    flat = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])) for leaf in jax.tree.leaves(rows)]
    joined = np.concatenate([np.ascontiguousarray(leaf).view(np.uint8) for leaf in flat], axis=1)
    return joined.view(f"V{joined.shape[1]}").ravel().tolist()


def _take(rows: PyTree, index: Any) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], rows)


def _join(parts: list) -> PyTree:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _size(rows: PyTree) -> int:
    return len(jax.tree.leaves(rows)[0])


def _chunks(rows: PyTree) -> Iterator[PyTree]:
    return (_take(rows, slice(at, at + CHUNK)) for at in range(0, _size(rows), CHUNK))
