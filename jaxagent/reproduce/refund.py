"""The refund desk (Chapter sections 23.4 and 23.7): scripted plays, and what they are worth."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxagent import choices, policies, scorers
from jaxagent.gyms import refund
from jaxagent.precision import exact
from jaxagent.reproduce.rows import Figure
from jaxagent.rollout import rollout
from jaxagent.types import Noise, Score, Trajectory

PROBLEM = refund.problem()
GYM, HORIZON = PROBLEM.gym, PROBLEM.horizon
POLICY = policies.tabular(GYM.spec)
SCORERS = ("outcome", "guarded")
HIGH = 80  # an amount that needs approval
SAFE = ("lookup", "request_approval", "refund", "finish")
SHORTCUT = ("lookup", "refund", "finish")
LOOPY = ("lookup", "request_approval", "refund", "refund", "finish")


class Play(NamedTuple):
    """A script, played on a task that begins at the start."""

    trajectory: Trajectory
    score: dict[str, Score]  # by scorer


@exact
@jax.jit
def _play(task, actions) -> Play:
    trajectory = rollout(GYM, policies.replay, task, Noise(actions, jnp.zeros(HORIZON)))
    has = choices.scorers_of(PROBLEM)
    score = {name: scorers.score(has[name], trajectory) for name in SCORERS}
    return Play(trajectory, score)


@cache
def play(amount: int, script: tuple[str, ...]) -> Play:
    """Do as the script says. It ends in finish, after which nothing moves."""
    padded = script + ("finish",) * (HORIZON - len(script))
    actions = np.array([refund.ACTIONS.index(name) for name in padded], np.int32)
    return _play(task(amount, refund.START), actions)


def task(amount: int, start: int) -> refund.Task:
    """A task of the desk, on the host."""
    return refund.Task(np.int32(amount), np.int32(start))


def flags(script: tuple[str, ...]) -> dict[str, bool]:
    """What the verifier reads at the end of a script on the high amount."""
    last = jax.tree.map(lambda leaf: leaf[-1], play(HIGH, script).trajectory.verdict)
    success, violation, duplicate = map(bool, (last.success, *last.violations))
    return {"success": success, "violation": violation, "duplicate": duplicate}


def traced(script: tuple[str, ...]) -> dict[str, Any]:
    """Its observations, and the final reading of state."""
    trajectory = play(HIGH, script).trajectory
    seen = [refund.PHASES[obs] for obs in trajectory.obs[: len(script) + 1]]
    read = without(flags(script), "duplicate")
    return {"observations": seen, **read, "effects": trajectory.state.effects[-1]}


def fresh() -> dict[str, Any]:
    """The state after a reset to a new task of 80."""
    return without(exact(GYM.reset)(task(HIGH, refund.START))._asdict(), "phase")


def reward(script: tuple[str, ...]) -> float:
    """The outcome score of a script on the high amount."""
    return float(play(HIGH, script).score["outcome"].total)


def without(said: dict[str, Any], *names: str) -> dict[str, Any]:
    """The same, with fewer words."""
    return {name: value for name, value in said.items() if name not in names}


FIGURES: dict[str, Figure] = {
    "gym.trace.safe": lambda: traced(SAFE),
    "gym.reset": fresh,
    "gym.trace.shortcut": lambda: without(flags(SHORTCUT), "duplicate"),
    "path.safe": lambda: reward(SAFE),
    "path.shortcut": lambda: reward(SHORTCUT),
    "path.edge": lambda: reward(SHORTCUT) - reward(SAFE),
    "table.safe": lambda: flags(SAFE),
    "table.shortcut": lambda: flags(SHORTCUT),
    "table.loopy": lambda: flags(LOOPY),
}
