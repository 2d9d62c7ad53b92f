"""The bandit (Chapter section 23.1): one prompt, one decision, a payoff for each arm."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxagent.precision import real
from jaxagent.types import Data, Gym, Payoff, Problem, Spec, Tasks, Verdict
from jaxagent.wrappers import deterministic

PAYS = {"plan": 0.2, "search": 0.5, "cite": 0.9, "guess": 0.1}
PROMPT, TERMINAL = range(2)
UNPULLED = -1


class Task(NamedTuple):
    """A prompt. Nothing depends on it: there is one."""

    prompt: Int[Data, "*B"]


class State(NamedTuple):
    pulled: Int[Array, "*B"]  # an arm, or UNPULLED


def gym(pays: dict[str, float] = PAYS) -> Gym:
    """One pull ends the episode; success means that no other arm pays more."""
    if not pays or not np.isfinite(list(pays.values())).all():
        raise ValueError(f"a bandit needs arms that pay a finite number, got {pays}")
    best = max(pays.values())
    is_best = np.array([pay == best for pay in pays.values()])

    def reset(task: Task) -> State:
        del task
        return State(pulled=jnp.int32(UNPULLED))

    def step(task: Task, state: State, arm: Int[Array, ""]) -> State:
        del task, state
        return State(pulled=arm)

    def observe(task: Task, state: State) -> Int[Array, ""]:
        del task
        return jnp.where(state.pulled == UNPULLED, jnp.int32(PROMPT), jnp.int32(TERMINAL))

    def judge(task: Task, state: State) -> Verdict:
        del task
        done = state.pulled != UNPULLED
        return Verdict(
            done=done,
            success=done & jnp.asarray(is_best)[state.pulled],
            violations=jnp.zeros(0, bool),
            valid=jnp.bool_(True),
        )

    spec = Spec(observations=("prompt", "terminal"), actions=tuple(pays))
    return deterministic(spec, reset, step, observe, judge)


def payoff(pays: dict[str, float] = PAYS) -> Payoff:
    """What the pulled arm pays (Chapter eq. 23.1)."""
    table = np.array(list(pays.values()))

    def pay(state: State, arm: Int[Array, ""], chance: Int[Array, ""]):
        del state, chance
        return real(table)[arm]

    return pay


def problem(pays: dict[str, float] = PAYS) -> Problem:
    """The bandit as an experiment; there is nothing to hold out."""
    tasks = Tasks(("prompt",), Task(np.zeros(1, np.int32)), np.ones(1))
    return Problem(
        gym(pays),
        1,
        tasks,
        tasks,
        taught=None,
        expert=None,
        payoff=payoff(pays),
        penalty=np.zeros(0),
    )
