"""The names that a command line may say, and the parts that they mean."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import optax

from jaxagent import estimators, scorers
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.types import Estimator, Problem, Scorer

GymName = Literal["refund", "bandit", "search"]
ScorerName = Literal["outcome", "penalised", "guarded", "payoff"]
EstimatorName = Literal["anchor", "anchor-trajectory", "centred", "standardised", "rloo"]
OptimizerName = Literal["sgd", "adam"]
StartName = Literal["cloned", "uniform"]

GYMS: dict[GymName, Callable[[], Problem]] = {
    "refund": refund.problem,
    "bandit": bandit.problem,
    "search": number_search.problem,
}

ESTIMATORS: dict[EstimatorName, Callable[[int], Estimator]] = {
    "anchor": estimators.anchor,
    "anchor-trajectory": estimators.anchor_trajectory,
    "centred": lambda _: estimators.centred(),
    "standardised": lambda _: estimators.standardised(),
    "rloo": lambda _: estimators.rloo(),
}

OPTIMIZERS: dict[OptimizerName, Callable[..., optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "adam": optax.adam,
}

STEP_COST = 0.05
PENALTY = np.array([2.0, 1.0])  # approval bypassed, duplicate effect (Chapter section 23.7)

OUTCOME = scorers.outcome(STEP_COST)
EVENT_SCORERS: dict[str, Scorer] = {
    "outcome": OUTCOME,
    "penalised": scorers.penalised(OUTCOME, PENALTY),
    "guarded": scorers.guarded(OUTCOME, PENALTY),
}


def scorers_of(problem: Problem) -> dict[str, Scorer]:
    """The scorers that a gym has, the default first.

    Fines need violations. `payoff` is the environment's own reward; where
    reaching success is all that it pays, that is 1 for a success. The refund
    desk pays nothing of its own.
    """
    if problem.gym.spec.violations:
        names = ("guarded", "outcome", "penalised")
        return {name: EVENT_SCORERS[name] for name in names}
    own = scorers.outcome(0.0) if problem.payoff is None else scorers.payoff(problem.payoff)
    return {"payoff": own, "outcome": OUTCOME}


def scorer_name(problem: Problem, gym: str, name: str | None) -> str:
    """`name`, or by default the first of the gym's scorers. ValueError if the gym lacks it."""
    return _one_of(f"--scorer for {gym}", tuple(scorers_of(problem)), name)


def start_name(problem: Problem, gym: str, name: str | None) -> str:
    """`name`, or by default cloned where the gym has demonstrations to clone, else uniform."""
    has = ("cloned", "uniform") if problem.expert is not None else ("uniform",)
    return _one_of(f"--from for {gym}", has, name)


def _one_of(option: str, has: tuple[str, ...], name: str | None) -> str:
    if name is None:
        return has[0]
    if name not in has:
        raise ValueError(f"{option} must be {' or '.join(has)}, got {name}")
    return name
