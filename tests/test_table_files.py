"""A gym in a file is the table it describes; what is wrong with a file is said, and where."""

import json
import textwrap
import tomllib
from pathlib import Path

import chex
import numpy as np
import pytest
from test_tables import assert_same_table, made_of, tabled

from jaxagent import table_files
from jaxagent.table_files import load
from jaxagent.tables import tabulate
from jaxagent.types import Spec, Verdict

DATA = Path(__file__).parent / "data"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_desk_written_out_by_hand_is_the_table_of_the_gym():
    desk = made_of("refund")
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


def test_what_a_file_leaves_out_leads_where_it_says_otherwise(tmp_path):
    document = without("transitions", 2) | dict(otherwise="lost")
    table = load(written(tmp_path, "door.json", json.dumps(document)))
    np.testing.assert_array_equal(table.next[0, 1], [2, 0])
    np.testing.assert_array_equal(table.odds[0, 1], [1, 0])
    np.testing.assert_array_equal(table.next[1:, :, 0], [[1, 1], [2, 2]])


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
    monkeypatch.setattr(table_files, "MAX_BYTES", len(text))
    load(path)
    monkeypatch.setattr(table_files, "MAX_BYTES", len(text) - 1)
    with pytest.raises(ValueError, match=rf"door.json: .* may have {len(text) - 1:,} bytes"):
        load(path)


def test_a_table_beyond_the_limit_is_not_allocated(tmp_path, monkeypatch):
    path = written(tmp_path, "door.json", json.dumps(door()))
    monkeypatch.setattr(table_files, "MAX_ENTRIES", 12)
    load(path)
    monkeypatch.setattr(table_files, "MAX_ENTRIES", 11)
    with pytest.raises(ValueError, match=r"states x actions x chances may be 11, got \(3, 2, 2\)"):
        load(path)
