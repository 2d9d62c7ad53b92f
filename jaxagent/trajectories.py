"""What one trajectory says: its events, its length, and how it ended."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxagent.types import Trajectory, Verdict


class Events(NamedTuple):
    """Integer counts of what each decision brought about, read from the verdicts around it."""

    success: Int[Array, "*B T"]
    violation: Int[Array, "*B T V"]
    step: Int[Array, "*B T"]


def events(trajectory: Trajectory) -> Events:
    """Differences of verdicts. Over an episode they add up to its final verdict."""
    verdict = trajectory.verdict
    return Events(
        success=jnp.diff(verdict.success.astype(jnp.int32), axis=0),
        violation=jnp.diff(verdict.violations.astype(jnp.int32), axis=0),
        step=trajectory.live.astype(jnp.int32),
    )


def final(trajectory: Trajectory) -> Verdict:
    """The verdict on the episode: the state is frozen once it is over."""
    verdict = trajectory.verdict
    return Verdict(verdict.done[-1], verdict.success[-1], verdict.violations[-1], verdict.valid[-1])


def terminated(trajectory: Trajectory) -> Bool[Array, "T"]:
    """True at the decision after which the gym called the episode done."""
    return trajectory.live & trajectory.verdict.done[1:]


def truncated(trajectory: Trajectory) -> Bool[Array, "T"]:
    """True at the last decision of an episode that the budget, not the gym, ended."""
    last = jnp.arange(trajectory.live.shape[0]) == trajectory.live.shape[0] - 1
    over = trajectory.verdict.done[1:] | ~trajectory.verdict.valid[1:]
    return trajectory.live & last & ~over


def ended(trajectory: Trajectory) -> Bool[Array, "T"]:
    """True at the last decision of an episode, whatever ended it."""
    return terminated(trajectory) | truncated(trajectory)
