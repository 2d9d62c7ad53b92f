"""Everything finite is a table, and a table is a pytree: a gym enumerated, merged, or read."""

import json
import math
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from jaxagent.precision import exact
from jaxagent.types import Gym, Payoff, Spec, State, Task, Tasks, Verdict

MAX_STATES = 1_000_000  # situations that `tabulate` may find before it merges them
MAX_ENTRIES = 2**25  # N A C of a table read from a file
MAX_BYTES = 2**24  # of such a file
CHUNK = 256  # situations looked at in one compiled call


class Table(NamedTuple):
    """A finite gym by state code: NumPy arrays on the host, and a pytree anywhere.

    A state that is over leads to itself, and so does an outcome without odds;
    neither pays.
    """

    spec: Spec
    start: Int[Any, "K"]  # the state code in which each task begins
    weight: Float[Any, "K"]  # the tasks' probabilities
    next: Int[Any, "N A C"]
    odds: Float[Any, "N A C"]
    obs: Int[Any, "N"]
    verdict: Verdict  # leaves [N]
    payoff: Float[Any, "N A C"]  # zeros where the environment pays nothing of its own


class Start(NamedTuple):
    """A task of a table's gym."""

    index: Int[Array, "*B"]  # in 0..K-1


class Code(NamedTuple):
    """A state of a table's gym."""

    code: Int[Array, "*B"]  # in 0..N-1


# A table as a gym


def gym_of(table: Table) -> Gym:
    """The gym that a table is. It acts as the gym that was tabulated, by looking up."""
    at = lambda leaf, *index: jnp.asarray(leaf)[index]
    return Gym(
        table.spec,
        reset=lambda task: Code(at(table.start, task.index)),
        odds=lambda _, state, action: at(table.odds, state.code, action),
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
    return lambda state, action, chance: jnp.asarray(table.payoff)[state.code, action, chance]


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
        # float64 may have widened an integer on the way; the same state must keep its bytes.
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
    acts = (~verdict.done & verdict.valid & (left > 0))[:, None, None]
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
        P_(j+1)  these, odds and payoff, and P_j of every outcome that has odds

    A state with r decisions left goes to the first of its class in P_r. Codes
    are in breadth-first order, so that is one with the most decisions left, its
    class has no earlier member in a finer partition, and the states kept are
    all reachable, in breadth-first order still.
    """
    shown = _first_equal((table.obs, table.verdict))
    kind = _first_equal((table.obs, table.verdict, table.odds, table.payoff))
    representative = shown.copy()
    for decisions in range(1, remaining[0] + 1):
        count = int(np.sum(remaining >= decisions))  # those states come first
        follows = table.odds[:count] > 0
        outcome = np.where(follows, shown[table.next[:count]], -1)
        finer = _first_equal((kind[:count], outcome))
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


# A file as a table

DOCUMENT = dict(observations=list, actions=list, violations=[], otherwise="",
                states=list, transitions=[], tasks=list)  # fmt: skip
STATE = dict(name=str, observation=str, done=False, success=False, valid=True, violations=[])
TRANSITION = {"from": str, "action": str, "to": str, "odds": 1.0, "payoff": 0.0}
TASK = dict(name=str, start=str, weight=1.0)
KINDS = {str: "a string", bool: "true or false", float: "a finite number", list: "a list"}

Fields = dict[str, Any]  # by key, a default, or a type where the file must give a value
Row = tuple[str, dict[str, Any]]  # where it stands in the file, and what it says
Names = dict[str, dict[str, int]]  # by key of the document, the code of each name


def load(path: str | Path) -> Table:
    """The table of a gym that a TOML or JSON file describes, chosen by the suffix.

        observations = ["closed", "open"]
        actions = ["push", "leave"]
        violations = ["noise"]     # optional
        otherwise = "outside"      # optional: where a state and action not listed lead

        [[states]]
        name = "outside"
        observation = "closed"

        [[states]]
        name = "inside"
        observation = "open"
        done = true                # false unless said
        success = true             # false unless said
        valid = true               # as here unless said
        violations = ["noise"]     # none unless said

        [[transitions]]
        from = "outside"
        action = "push"
        to = "inside"
        odds = 0.75                # 1 unless said
        payoff = 2.5               # 0 unless said

        [[transitions]]            # again the same from and action: chance decides between
        from = "outside"           # them, its outcomes in the order of the file
        action = "push"
        to = "outside"
        odds = 0.25

        [[tasks]]
        name = "enter"
        start = "outside"
        weight = 1.0               # as here unless said; the weights are normalised

    State codes are in the order of the file; nothing is merged. ValueError for
    anything else, naming the file and the row, counted from 0.
    """
    path = Path(path)
    try:
        return _read(_parse(path))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: {error}") from error


def _parse(path: Path) -> Any:
    parsers = {".toml": lambda data: tomllib.loads(data.decode()), ".json": _parse_json}
    if path.suffix not in parsers:
        raise ValueError(f"a table is a .toml or a .json file, got suffix {path.suffix!r}")
    if not path.is_file():
        raise ValueError("there is no such file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"a table's file may have {MAX_BYTES:,} bytes, got more")
    return parsers[path.suffix](data)


def _parse_json(data: bytes) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise ValueError(f"a key is given twice in {_short(fields)}")
        return fields

    return json.loads(data, object_pairs_hook=once)


def _read(document: Any) -> Table:
    """The table that a parsed document describes."""
    top = _fields("top level", document, DOCUMENT)
    states = _rows("states", top["states"], STATE)
    tasks = _rows("tasks", top["tasks"], TASK)
    transitions = _rows("transitions", top["transitions"], TRANSITION)

    names = {key: _codes(key, top[key]) for key in ("observations", "actions", "violations")}
    names |= {key: _codes(key, _column(rows, "name"))
              for key, rows in (("states", states), ("tasks", tasks))}  # fmt: skip
    for key in ("observations", "actions", "states", "tasks"):
        if not names[key]:
            raise ValueError(f"{key}: at least one is needed, got none")
    states = _coded(names, states, {"observation": "observations"})
    tasks = _coded(names, tasks, {"start": "states"})
    transitions = _coded(
        names, transitions, {"from": "states", "action": "actions", "to": "states"}
    )
    otherwise = _find(names, "states", top["otherwise"], "otherwise") if top["otherwise"] else None

    verdict = _verdict(names, states)
    return Table(
        Spec(tuple(names["observations"]), tuple(names["actions"]), tuple(names["violations"])),
        start=np.array(_column(tasks, "start"), np.int32),
        weight=_weight(tasks),
        obs=np.array(_column(states, "observation"), np.int32),
        verdict=verdict,
        **_chances(names, transitions, verdict, otherwise),
    )


def _verdict(names: Names, states: list[Row]) -> Verdict:
    violations = np.zeros((len(states), len(names["violations"])), bool)
    for code, (where, state) in enumerate(states):
        for violation in state["violations"]:
            violations[code, _find(names, "violations", violation, where)] = True
    flag = lambda key: np.array(_column(states, key))
    return Verdict(flag("done"), flag("success"), violations, flag("valid"))


def _weight(tasks: list[Row]) -> Float[np.ndarray, "K"]:
    for where, task in tasks:
        if task["weight"] <= 0:
            raise ValueError(f"{where}: weight must be positive, got {task['weight']}")
    weight = np.array(_column(tasks, "weight"), float)
    weight = weight / weight.max()  # first, lest the sum overflow
    return weight / weight.sum()


def _chances(
    names: Names, transitions: list[Row], verdict: Verdict, otherwise: int | None
) -> dict[str, Shaped[np.ndarray, "N A C"]]:
    """Where each state and action lead: by the rows, else `otherwise`, and after an end nowhere."""
    over = np.asarray(verdict.done | ~verdict.valid)
    outcomes = _outcomes(names, transitions, over)
    shape = (len(over), len(names["actions"]), max(map(len, outcomes.values()), default=1))
    if math.prod(shape) > MAX_ENTRIES:
        raise ValueError(f"states x actions x chances may be {MAX_ENTRIES:,}, got {shape}")

    after = np.broadcast_to(np.arange(len(over), dtype=np.int32)[:, None, None], shape).copy()
    odds, payoff = np.zeros(shape), np.zeros(shape)
    for pair, rows in outcomes.items():
        for chance, row in enumerate(rows):
            if row["odds"] > 0:
                at = (*pair, chance)
                after[at], odds[at], payoff[at] = row["to"], row["odds"], row["payoff"]

    unlisted = odds.sum(axis=2) == 0
    gaps = unlisted & ~over[:, None]
    if gaps.any():
        if otherwise is None:
            code, action = np.argwhere(gaps)[0].tolist()
            raise ValueError(
                f"states[{code}]: nothing says where {_name(names, 'actions', action)} leads from "
                f"{_name(names, 'states', code)}, and there is no 'otherwise'"
            )
        after[gaps, 0] = otherwise
    odds[unlisted, 0] = 1
    return dict(next=after, odds=odds, payoff=payoff)


def _outcomes(
    names: Names, transitions: list[Row], over: Bool[np.ndarray, "N"]
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """What the file says of each (state, action), in its order. The odds of each sum to 1."""
    outcomes: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for where, row in transitions:
        if over[row["from"]]:
            name = _name(names, "states", row["from"])
            raise ValueError(f"{where}: state {name} is over, so nothing may lead out of it")
        if not 0 <= row["odds"] <= 1:
            raise ValueError(f"{where}: odds must be in 0..1, got {row['odds']}")
        outcomes[row["from"], row["action"]].append((where, row))
    for rows in outcomes.values():
        total = math.fsum(_column(rows, "odds"))
        if abs(total - 1) > 1e-9:
            where = ", ".join(where for where, _ in rows[:20])
            raise ValueError(f"{where}: odds of one state and action must sum to 1, got {total}")
    return {pair: [row for _, row in rows] for pair, rows in outcomes.items()}


def _rows(key: str, rows: list, fields: Fields) -> list[Row]:
    where = [f"{key}[{number}]" for number in range(len(rows))]
    return [(place, _fields(place, row, fields)) for place, row in zip(where, rows, strict=True)]


def _column(rows: list[Row], key: str) -> list:
    return [row[key] for _, row in rows]


def _coded(names: Names, rows: list[Row], references: dict[str, str]) -> list[Row]:
    """The rows with codes for names; `references` says by key what is named there."""
    code = lambda where, row: {
        key: _find(names, kind, row[key], where) for key, kind in references.items()
    }
    return [(where, row | code(where, row)) for where, row in rows]


def _fields(where: str, row: Any, fields: Fields) -> dict[str, Any]:
    """The fields of a row, its defaults filled in."""
    if not isinstance(row, dict):
        raise ValueError(f"{where}: must be a table of keys and values, got {_short(row)}")
    required = {key for key, default in fields.items() if isinstance(default, type)}
    for what, keys in (("unknown", row.keys() - fields), ("missing", required - row.keys())):
        if keys:
            raise ValueError(f"{where}: {what} key {_listed(sorted(keys))}; "
                             f"the keys are {_listed(fields)}")  # fmt: skip
    for key, value in row.items():
        kind = fields[key] if key in required else type(fields[key])
        if not _is(kind, value):
            raise ValueError(f"{where}: {key} must be {KINDS[kind]}, got {_short(value)}")
    return {**fields, **row}


def _is(kind: type, value: Any) -> bool:
    if kind is not float:
        return isinstance(value, kind)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _codes(key: str, names: list) -> dict[str, int]:
    """The code of each name. Names are strings, not empty, and all different."""
    codes: dict[str, int] = {}
    for code, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"{key}[{code}]: a name must be a string, got {_short(name)}")
        if name in codes:
            raise ValueError(f"{key}[{code}]: {_short(name)} is there already, at {codes[name]}")
        codes[name] = code
    return codes


def _find(names: Names, key: str, name: Any, where: str) -> int:
    if isinstance(name, str) and name in names[key]:
        return names[key][name]
    known = _listed(names[key])
    raise ValueError(f"{where}: unknown {key[:-1]} {_short(name)}; the {key} are {known}")


def _name(names: Names, key: str, code: int) -> str:
    return _short(list(names[key])[code])


def _short(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _listed(names: Iterable[str], most: int = 20) -> str:
    some = [_short(name) for name in islice(names, most + 1)]
    return ", ".join(some[:most] + ["..."] * (len(some) > most))
