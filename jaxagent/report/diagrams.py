"""What the diagrams show, as data: a gym's state machine, read from its table, and the flywheel."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from jaxagent.tables import Table
from jaxagent.types import Trajectory

Point = tuple[float | int, float | int]


class Box(NamedTuple):
    """A labelled box."""

    text: str
    at: Point  # its centre
    style: str = "plain"


class Arrow(NamedTuple):
    """A labelled arrow between two boxes, or from a box to itself."""

    start: str
    end: str
    label: str = ""
    style: str = "plain"
    where: float = 0.5  # along the arrow, where the label stands


class Diagram(NamedTuple):
    """Boxes of one size, arrows between them, and a frame around some."""

    boxes: dict[str, Box]
    size: Point  # of each box
    arrows: tuple[Arrow, ...]
    framed: tuple[str, ...]
    frame: str  # what the frame says
    note: str
    note_at: Point  # its left end
    box_legend: dict[str, str]  # what the styles mean
    arrow_legend: dict[str, str]


# The state machine


class Edge(NamedTuple):
    """What an action does to an observation."""

    source: str
    action: str
    target: str
    violations: tuple[str, ...] = ()  # kinds that it commits wherever they are not yet committed
    demonstrated: bool = False


class Machine(NamedTuple):
    """A gym as a policy sees it: observations, and the actions between them."""

    edges: tuple[Edge, ...]
    visited: tuple[str, ...]  # where the demonstrations go
    catch_all: str  # where most actions lead


def machine(table: Table, demonstrations: Trajectory) -> Machine:
    """The observations' state machine, from all that the table's states do."""
    spec, obs = table.spec, np.asarray(table.obs)
    # A state that is over, or beyond the horizon, leads to itself alone.
    moves = (table.next != np.arange(len(obs))[:, None, None]).any(axis=(1, 2))
    state, action, chance = np.nonzero(moves[:, None, None] & (table.odds > 0))
    after = table.next[state, action, chance]
    shown = _steps(demonstrations)
    seen = np.stack([obs[state], action, obs[after]], axis=1)
    edges = []
    for step in np.unique(seen, axis=0):
        rows = (seen == step).all(axis=1)
        kinds = _always_committed(table.verdict.violations, state[rows], after[rows])
        source, target = (spec.observations[step[end]] for end in (0, 2))
        violations = tuple(np.array(spec.violations)[kinds].tolist())
        demonstrated = tuple(step.tolist()) in shown
        edges.append(Edge(source, spec.actions[step[1]], target, violations, demonstrated))
    return Machine(
        edges=tuple(edges),
        visited=tuple(spec.observations[o] for o in np.unique(demonstrations.obs)),
        catch_all=Counter(edge.target for edge in edges).most_common(1)[0][0],
    )


def _steps(demonstrations: Trajectory) -> set[tuple[int, ...]]:
    """(observation, action, next observation) of every live decision."""
    obs, live = np.asarray(demonstrations.obs), np.asarray(demonstrations.live)
    step = np.stack([obs[..., :-1], demonstrations.action, obs[..., 1:]], axis=-1)
    return set(map(tuple, step[live].tolist()))


def _always_committed(violations: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """[V]: whether a step commits the violation from every state that has not yet."""
    clean = ~violations[before]
    return clean.any(axis=0) & (~clean | violations[after]).all(axis=0)


def leads_everywhere(machine: Machine) -> dict[str, str]:
    """The actions that lead to one observation from all, and that observation."""
    targets: dict[str, set[str]] = {}
    for edge in machine.edges:
        targets.setdefault(edge.action, set()).add(edge.target)
    return {action: next(iter(to)) for action, to in targets.items() if len(to) == 1}


class Layout(NamedTuple):
    """Where a machine's parts stand on the page."""

    places: dict[str, Point]  # the centre of each observation's box
    size: Point  # of a box
    note_at: Point
    where: dict[tuple[str, str], float]  # labels that do not stand in the middle of their arrow


REFUND = Layout(
    places={
        "start": (0, 1.5),
        "known_low": (2.7, 0.25),
        "known_high": (2.7, 2.75),
        "approved": (5.9, 2.75),
        "refunded": (8.3, 1.5),
        "terminal": (10.9, 1.5),
        "recover": (0, -1.2),
    },
    size=(1.4, 0.56),
    note_at=(1.2, -1.2),
    where={
        ("known_high", "refunded"): 0.52,
        ("recover", "known_high"): 0.75,
        ("recover", "known_low"): 0.4,
    },
)


def state_machine(machine: Machine, layout: Layout) -> Diagram:
    """A machine on the page.

    What leads to the catch-all, and an action that leads to one observation
    from all, are told in a note; the latter is drawn where it is demonstrated.
    """
    everywhere = leads_everywhere(machine)
    caught = [edge for edge in machine.edges if edge.target == machine.catch_all]
    drawn = [
        edge
        for edge in machine.edges
        if edge not in caught and (edge.demonstrated or edge.action not in everywhere)
    ]
    told = [f"{action} leads to {target} from everywhere;" for action, target in everywhere.items()]
    pairs = f"{len(caught)} pairs of observation and action"
    told.append(f"what is not drawn leads to {machine.catch_all}: {pairs}")
    return Diagram(
        boxes={name: Box(name, at) for name, at in layout.places.items()},
        size=layout.size,
        arrows=tuple(_arrow(edge, layout) for edge in drawn),
        framed=machine.visited,
        frame="where the expert's demonstrations go",
        note="\n".join(told),
        note_at=layout.note_at,
        box_legend={},
        arrow_legend={
            "demonstrated": "demonstrated",
            "plain": "permitted",
            "violating": "permitted, and a violation",
        },
    )


def _arrow(edge: Edge, layout: Layout) -> Arrow:
    label = "\n".join((edge.action, *(f"({kind})" for kind in edge.violations)))
    lawful = "demonstrated" if edge.demonstrated else "plain"
    style = "violating" if edge.violations else lawful
    where = layout.where.get((edge.source, edge.target), 0.5)
    return Arrow(edge.source, edge.target, label, style, where)


# The flywheel


def flywheel() -> Diagram:
    """From traces to a promoted bundle and around, with its gates (Chapter section 23.9)."""
    ring = {
        "traces": Box("traces and\ndemonstrations", (0, 1)),
        "curation": Box("verify by replay, redact,\ndeduplicate, version", (1, 1), "gate"),
        "snapshot": Box("immutable\nsnapshot", (2, 1)),
        "learning": Box("cloning, DAgger,\nsandboxed rollouts", (3, 1)),
        "scoring": Box("reward components\nand vetoes", (3, 0), "gate"),
        "candidate": Box("candidate and its\nevidence packet", (2, 0)),
        "evaluation": Box("offline evaluation,\nshadow, canary", (1, 0), "gate"),
        "bundle": Box("promoted bundle", (0, 0)),
    }
    labels = ("", "freeze", "", "trajectories", "eligible\nonly", "", "release\ndecision", "serve")
    names = list(ring)
    around = zip(names, names[1:] + names[:1], labels, strict=True)
    back = Arrow("evaluation", "curation", "a regression or an exploit,\nas a fixture", "back")
    return Diagram(
        boxes={
            name: box._replace(at=(3.9 * box.at[0], 2.6 * box.at[1])) for name, box in ring.items()
        },
        size=(2.65, 0.95),
        arrows=(*(Arrow(*each) for each in around), back),
        framed=("snapshot", "learning", "scoring", "candidate"),
        frame="the trainer: a snapshot in, a candidate out",
        note="A bundle carries weights, observation and action schema, taskset, harness, runtime,\n"
        "scorer and sampler versions together; rollback restores all of it.",
        note_at=(-1.3, -1.4),
        box_legend={"gate": "gate"},
        arrow_legend={"back": "the way back"},
    )
