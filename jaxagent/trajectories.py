"""What one trajectory says: its events, its length, and how it ended."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxagent.types import Trajectory, Verdict, is_over


class Events(NamedTuple):
    """Integer counts of what each decision brought about, read from the verdicts around it."""

    success: Int[Array, "*B T"]
    violation: Int[Array, "*B T V"]
    step: Int[Array, "*B T"]


def between(before: Verdict, after: Verdict) -> Events:
    """What one decision brought about: the difference of the verdicts around it."""
    gained = lambda new, old: jnp.asarray(new, jnp.int32) - jnp.asarray(old, jnp.int32)
    return Events(
        success=gained(after.success, before.success),
        violation=gained(after.violations, before.violations),
        step=jnp.asarray(~is_over(before), jnp.int32),
    )


def events(trajectory: Trajectory) -> Events:
    """The events of each decision. Over an episode they add up to its final verdict."""
    before = jax.tree.map(lambda leaf: leaf[:-1], trajectory.verdict)
    return jax.vmap(between)(before, after(trajectory))


def after(trajectory: Trajectory) -> Verdict:
    """The verdict just after each decision, [T]."""
    return jax.tree.map(lambda leaf: leaf[1:], trajectory.verdict)


def final(trajectory: Trajectory) -> Verdict:
    """The verdict on the episode: the state is frozen once it is over."""
    verdict = trajectory.verdict
    return Verdict(verdict.done[-1], verdict.success[-1], verdict.violations[-1], verdict.valid[-1])


def terminated(trajectory: Trajectory) -> Bool[Array, "T"]:
    """True at the decision after which the gym called the episode done."""
    return trajectory.live & trajectory.verdict.done[1:]


def truncated(trajectory: Trajectory) -> Bool[Array, "T"]:
    """True at the last decision of an episode that the budget, and nothing else, ended."""
    return ended(trajectory) & ~is_over(after(trajectory))


def ended(trajectory: Trajectory) -> Bool[Array, "T"]:
    """True at the last decision of an episode: the gym, the budget or a failure ended it."""
    return trajectory.live & ~jnp.append(trajectory.live[1:], False)
