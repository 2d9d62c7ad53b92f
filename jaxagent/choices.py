"""The names that a command line may say, and the parts that they mean."""

from collections.abc import Callable
from typing import Literal

import optax

from jaxagent import estimators, scorers
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.types import Estimator, Problem, Scorer, Spec

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

ESTIMATORS: dict[EstimatorName, Callable[[Spec], Estimator]] = {
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


def scorers_of(problem: Problem) -> dict[str, Scorer]:
    """The scorers that a gym has, the default first.

    Fines need violations. `payoff` is the environment's own reward; where
    reaching success is all that it pays, that is 1 for a success. The refund
    desk pays nothing of its own.
    """
    outcome = scorers.outcome(STEP_COST)
    if problem.gym.spec.violations:
        return {
            "guarded": scorers.guarded(outcome, problem.penalty),
            "outcome": outcome,
            "penalised": scorers.penalised(outcome, problem.penalty),
        }
    own = scorers.outcome(0.0) if problem.payoff is None else scorers.payoff(problem.payoff)
    return {"payoff": own, "outcome": outcome}


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
