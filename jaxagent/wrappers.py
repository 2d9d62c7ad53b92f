"""Gyms made from functions and from other gyms. Wrap; do not branch."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from jaxagent.types import Gym, Spec, State, Task, Verdict, is_over


def deterministic(
    spec: Spec,
    reset: Callable[[Task], State],
    step: Callable[[Task, State, Int[Array, ""]], State],
    observe: Callable[[Task, State], Int[Array, ""]],
    judge: Callable[[Task, State], Verdict],
) -> Gym:
    """A gym in which an action has one outcome: C = 1, and `step` reads no chance."""

    def certain(task: Task, state: State, action: Int[Array, ""]):
        del task, state, action
        return jnp.ones(1)

    def moved(task: Task, state: State, action: Int[Array, ""], chance: Int[Array, ""]) -> State:
        del chance
        return step(task, state, action)

    return Gym(spec, reset, certain, moved, observe, judge)


class Gated(NamedTuple):
    """A state behind an action gate."""

    inner: State
    blocked: Int[Array, "*B"]  # attempts that the gate refused


def gated(gym: Gym, allowed: Callable[[Task, State, Int[Array, ""]], Bool[Array, ""]]) -> Gym:
    """`gym` behind a hard gate: a refused action has no effect and is counted.

    A gate enforces zero *before* the action occurs (Lecture section 7). The
    logged action stays the sampled one, so its log probability stays true.
    """

    def step(task: Task, state: Gated, action: Int[Array, ""], chance: Int[Array, ""]) -> Gated:
        passes = allowed(task, state.inner, action)
        moved = gym.step(task, state.inner, action, chance)
        inner = jax.tree.map(partial(jnp.where, passes), moved, state.inner)
        return Gated(inner, state.blocked + ~passes)

    return Gym(
        gym.spec,
        reset=lambda task: Gated(gym.reset(task), jnp.int32(0)),
        odds=lambda task, state, action: gym.odds(task, state.inner, action),
        step=step,
        observe=lambda task, state: gym.observe(task, state.inner),
        judge=lambda task, state: gym.judge(task, state.inner),
    )


def strict(gym: Gym) -> Gym:
    """`gym` for drivers other than `rollout`: a step after the end moves nothing and is counted.

    Compiled code cannot raise. Call `refuse_misuse` once per batch.
    """
    return gated(gym, lambda task, state, _: ~is_over(gym.judge(task, state)))


def refuse_misuse(state: Gated) -> None:
    """ValueError if any episode of a concrete batch of a `strict` gym was stepped after its end."""
    late = np.asarray(state.blocked) > 0
    if late.any():
        raise ValueError(f"step after terminal state, in {late.sum():,} of {late.size:,} episodes")


def advance(gym: Gym, task: Task, state: State, action: int, chance: int = 0) -> State:
    """One step for a caller outside compiled code. ValueError: "step after terminal state"."""
    if not 0 <= action < len(gym.spec.actions):
        raise ValueError(f"action must be in 0..{len(gym.spec.actions) - 1}, got {action}")
    if bool(is_over(gym.judge(task, state))):
        raise ValueError(f"step after terminal state: action {gym.spec.actions[action]!r}")
    return gym.step(task, state, jnp.int32(action), jnp.int32(chance))
