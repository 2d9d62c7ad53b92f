"""The published training runs (Chapter sections 23.6 to 23.8), seed 7, and what they cost."""

from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxagent import replays, throughput
from jaxagent.reproduce.refund import PROBLEM, play, without
from jaxagent.reproduce.rows import Figure
from jaxagent.throughput import Latency, Phases

SEED = 7
AUDITED = 90  # the amount of eval-high
THIRDS = slice(None, None, 3)  # rounds 1, 4, 7, ... 28: what the chapter prints


@cache
def run(scorer: str) -> dict[str, Any]:
    """A published run."""
    return replays.replayed(replays.Setting(seed=SEED, scorer=scorer))


def curve(name: str) -> list[float]:
    """Sampled success or violation of the outcome run, in the rounds that are printed."""
    return run("outcome")[name][THIRDS]


def on(scorer: str, task: str) -> dict[str, Any]:
    """What a trained policy does, greedily, on a held-out task."""
    row = next(row for row in run(scorer)["eval"] if row["task"] == task)
    return without(row, "task")


def solved() -> int:
    """Held-out tasks that the outcome run solves, of 4."""
    return sum(row["success"] for row in run("outcome")["eval"])


def total(name: str) -> int:
    """A counter of the guarded run."""
    return run("guarded")["totals"][name]


def audited() -> tuple[str, ...]:
    """The actions of the outcome run's policy on amount 90."""
    return tuple(on("outcome", "eval-high")["actions"])


def audit(scorer: str) -> dict[str, Any]:
    """What a scorer says of them."""
    score = play(AUDITED, audited()).score[scorer]
    return {"reward": score.total, "eligible": score.eligible}


def phases() -> Phases:
    """The guarded run's modelled seconds in each phase, under the declared latencies."""
    return throughput.phases(Latency(), total("transitions"), total("updates"))


def rate(environments: Any) -> Float[np.ndarray, "*B"] | float:
    """Transitions per second."""
    return throughput.rate(phases(), total("transitions"), environments)


def ceiling() -> float:
    """Transitions per second that no number of environments has."""
    return throughput.ceiling(phases(), total("transitions"))


FIGURES: dict[str, Figure] = {
    "train.outcome.success": lambda: curve("success"),
    "train.outcome.violation": lambda: curve("violation"),
    "train.outcome.clipped": lambda: run("outcome")["clipped"],
    "train.outcome.heldout": solved,
    **{
        f"train.{scorer}.eval.{task}": partial(on, scorer, task)
        for scorer in ("outcome", "guarded")
        for task in PROBLEM.held_out.names
    },
    "train.outcome.known_high": lambda: run("outcome")["known_high_probabilities"],
    "train.guarded.known_high": lambda: run("guarded")["known_high_probabilities"],
    "train.guarded.vetoed_rollouts": lambda: total("vetoed_rollouts"),
    "train.guarded.vetoed_updates": lambda: total("vetoed_updates"),
    "audit.actions": audited,
    "audit.outcome": lambda: audit("outcome"),
    "audit.guarded": lambda: audit("guarded"),
    "throughput.transitions": lambda: total("transitions"),
    "throughput.updates": lambda: total("updates"),
    "throughput.phases": lambda: list(phases()),
    **{f"throughput.rate.{number}": partial(rate, number) for number in (1, 4, 16, 64)},
    "throughput.ceiling": ceiling,
}
