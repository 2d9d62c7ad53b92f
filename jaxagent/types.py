"""The nouns: every record and every function type that crosses a module boundary.

Axis letters, used in every shape in the library:

    K  tasks in a taskset              A  actions
    G  rollouts per task               S  observations
    T  decisions per rollout           V  kinds of violation
    M  decisions, flattened to rows    C  outcomes of chance
    N  states of a table               *B any batch axes, possibly none

Records of arrays are passed; records of functions are closed over. Functions
are written for one and lifted with `jax.vmap` where they are called.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import optax
from jaxtyping import AbstractArray, Array, Bool, Float, Int, PyTree, Shaped, jaxtyped

Data = Any  # an array, on the device or on the host
Params = PyTree[Float[Data, "..."]]
Real = Float[Array, ""] | float  # a number that may be traced
Logits = Float[Array, "A"]
Task = Any  # a NamedTuple of integer scalars, defined by each gym
State = Any  # a NamedTuple of integer scalars, defined by each gym


@jax.tree_util.register_static
@dataclass(frozen=True)
class Spec:
    """What is static about a gym: names, and through their lengths, sizes.

    Where an ended episode has an observation of its own it is the last one and
    is called `terminal`. No decision is ever made there.
    """

    observations: tuple[str, ...]  # S names
    actions: tuple[str, ...]  # A names
    violations: tuple[str, ...] = ()  # V names


class Verdict(NamedTuple):
    """The verifier's reading of authoritative state. No policy ever sees it."""

    done: Bool[Data, "*B"]  # the agent, or the gym, ended the episode
    success: Bool[Data, "*B"]
    violations: Bool[Data, "*B V"]
    valid: Bool[Data, "*B"]  # False once the infrastructure, not the agent, failed


def is_over(verdict: Verdict) -> Bool[Data, "*B"]:
    """Whether an episode has ended: the gym is done with it, or the infrastructure failed."""
    return verdict.done | ~verdict.valid


Payoff = Callable[[State, Int[Array, ""], Int[Array, ""]], Float[Array, ""]]
"""An environment's own reward for (state, action, chance)."""


class Gym(NamedTuple):
    """An environment: functions that move state, and two that read it.

    `observe` is all that a policy may see and `judge` all that a verifier may
    see. Neither needs a guard for ended episodes: the rollout freezes them.
    """

    spec: Spec
    reset: Callable[[Task], State]
    odds: Callable[[Task, State, Int[Array, ""]], Float[Array, "C"]]
    step: Callable[[Task, State, Int[Array, ""], Int[Array, ""]], State]
    observe: Callable[[Task, State], Int[Array, ""]]
    judge: Callable[[Task, State], Verdict]


class Tasks(NamedTuple):
    """A weighted set of tasks: the initial distribution, with names for people."""

    names: tuple[str, ...]  # K names
    task: Task  # leaves [K]
    weight: Float[Data, "K"]  # probabilities; they sum to 1


Expert = Callable[[Task, Int[Array, ""]], Int[Array, ""]]
"""A privileged rule: it reads the task, which no `Actor` can."""


class Problem(NamedTuple):
    """A gym with the data that an experiment needs. Each gym module has `problem(...)`."""

    gym: Gym
    horizon: int  # T, the most decisions in a rollout
    train: Tasks
    held_out: Tasks
    taught: Tasks | None  # the tasks that `expert` demonstrates
    expert: Expert | None
    payoff: Payoff | None  # None where success is all that the environment pays
    penalty: Float[Data, "V"]  # the usual fine for each kind of violation


class Policy(NamedTuple):
    """A differentiable map from an observation to action logits; -inf forbids."""

    init: Callable[[], Params]
    logits: Callable[[Params, Int[Array, ""]], Logits]


class Noise(NamedTuple):
    """What one decision consumes."""

    action: Shaped[Array, "*B"]  # a uniform in [0, 1), or what a replay is told to do
    chance: Float[Array, "*B"]  # a uniform in [0, 1)


Actor = Callable[[Shaped[Array, ""], Int[Array, ""]], tuple[Int[Array, ""], Float[Array, ""]]]
"""`(noise, obs) -> (action, log_prob)`: an actor cannot be handed a task or a state."""


class Trajectory(NamedTuple):
    """What a rollout leaves behind: T decisions, and the T + 1 situations around them."""

    obs: Int[Data, "*B T+1"]
    action: Int[Data, "*B T"]
    chance: Int[Data, "*B T"]
    log_prob: Float[Data, "*B T"]  # of `action`, under the distribution that drew it
    live: Bool[Data, "*B T"]  # False once the episode is over
    state: State  # leaves [*B T+1]
    verdict: Verdict  # leaves [*B T+1]


class Prices(NamedTuple):
    """What each kind of event is worth. Traced numbers: a grid of prices is one program."""

    success: Float[Data, "*B"] | float
    violation: Float[Data, "*B V"] | float  # a fine, subtracted
    step: Float[Data, "*B"] | float  # a cost, subtracted


class Scorer(NamedTuple):
    """A price list and a permission. Quality is a number; permission is not."""

    prices: Prices
    permit: Callable[[Verdict], Bool[Array, ""]]  # reads the final verdict
    payoff: Payoff | None  # given: the rewards are off the lattice of event prices


class Score(NamedTuple):
    """What one trajectory earned, and whether it may teach."""

    reward: Float[Array, "*B T"]
    total: Float[Array, "*B"]  # priced once, from integer totals
    eligible: Bool[Array, "*B"]


Estimator = Callable[[Params, Trajectory, Score], Float[Array, "G T"]]
"""`(params, group, score) -> advantage` for the G rollouts of one task."""


class Decision(NamedTuple):
    """One row of training data: everything that a loss may look at, and the audit's flag."""

    obs: Int[Array, "*B"]
    action: Int[Array, "*B"]
    log_prob: Float[Array, "*B"]  # as recorded when the action was drawn
    advantage: Float[Array, "*B"]
    weight: Float[Array, "*B"]  # 0 drops the row
    eligible: Bool[Array, "*B"]  # read by the veto audit alone


Loss = Callable[[Logits, Decision], Float[Array, ""]]
Objective = Callable[[Params, Decision], Float[Array, ""]]  # rows [M] -> a number to minimise


class Learner(NamedTuple):
    """What training carries from one step to the next."""

    params: Params
    opt_state: optax.OptState


Collect = Callable[[Any, Params], Trajectory]  # (noise, params) -> [K G T]
Update = Callable[[Learner, Decision], tuple[Learner, Any]]
Step = Callable[[Learner, Any], tuple[Learner, Any]]  # the body of a `lax.scan`

Record = TypeVar("Record", bound=tuple)


def check(record: Record) -> Record:
    """`record` itself, once its array fields have their kind of dtype and agree in their axes.

    jaxtyping checks functions, not the fields of a NamedTuple: call this at a
    public entry. ValueError names the first field that disagrees.
    """
    hints: dict[str, Any] = type(record).__annotations__
    arrays = {name: hint for name, hint in hints.items() if _is_array(hint)}
    with jaxtyped("context"):
        for name in sorted(arrays, key=lambda name: "+" in arrays[name].dim_str):  # T before T+1
            value = getattr(record, name)
            if not isinstance(value, arrays[name]):
                given = f"{value.dtype}{list(value.shape)}" if _is_data(value) else value
                raise ValueError(
                    f"{type(record).__name__}.{name} must be "
                    f"{arrays[name].__name__}, with axes that agree across fields, got {given}"
                )
    if isinstance(record, Trajectory):
        if not isinstance(record.verdict, Verdict):
            raise ValueError(f"Trajectory.verdict must be a Verdict, got {record.verdict!r}")
        check(record.verdict)
        _check_situations(record)
    return record


def _is_array(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _is_data(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray)


def _check_situations(trajectory: Trajectory) -> None:
    """ValueError unless states and verdicts have an entry for every observation."""
    axes = trajectory.obs.shape
    for name in ("state", "verdict"):
        for leaf in jax.tree.leaves(getattr(trajectory, name)):
            if np.shape(leaf)[: len(axes)] != axes:
                raise ValueError(
                    f"Trajectory.{name} must have leaves with the axes of obs, "
                    f"{list(axes)}, first, got {list(np.shape(leaf))}"
                )
