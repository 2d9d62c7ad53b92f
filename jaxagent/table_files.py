"""A gym written as a TOML or JSON file, read into a table; every error names the row."""

import json
import math
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from jaxagent.tables import Table
from jaxagent.types import Spec, Verdict, is_over

MAX_ENTRIES = 2**25  # N A C
MAX_BYTES = 2**24

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
    weight = weight / weight.sum()
    if not weight.all():
        raise ValueError(f"tasks: weights may not differ so much, got {_column(tasks, 'weight')}")
    return weight


def _chances(
    names: Names, transitions: list[Row], verdict: Verdict, otherwise: int | None
) -> dict[str, Shaped[np.ndarray, "N A C"]]:
    """Where each state and action lead: by the rows, else `otherwise`, and after an end nowhere."""
    over = np.asarray(is_over(verdict))
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
