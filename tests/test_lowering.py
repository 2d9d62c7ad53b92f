"""Every training program lowers for cpu, cuda and tpu. No hardware is needed to say so."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
import pytest

from jaxagent import estimators, learn, losses, noise, policies, scorers
from jaxagent.diagnostics import clipping
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.rollout import collector
from jaxagent.types import Estimator, Problem, Scorer

PLATFORMS = ("cpu", "cuda", "tpu")
NUM_ROUNDS, GROUP_SIZE = 2, 2


class Recipe(NamedTuple):
    """The choices of a training program."""

    problem: Callable[[], Problem]
    scorer: Callable[[Problem], Scorer]
    estimator: Callable[[Problem], Estimator]
    optimizer: Callable[..., optax.GradientTransformation]
    batch_size: int | None


def guarded(problem: Problem) -> Scorer:
    return scorers.guarded(scorers.outcome(0.05), jnp.array([2.0, 1.0]))


def anchor(problem: Problem) -> Estimator:
    return estimators.anchor(problem.gym.spec)


def small_search() -> Problem:
    return number_search.problem(6, 3)


RECIPES = {
    "refund, in order": Recipe(refund.problem, guarded, anchor, optax.sgd, 1),
    "refund, adam": Recipe(refund.problem, guarded, anchor, optax.adam, None),
    "search, in batches": Recipe(
        small_search, lambda _: scorers.outcome(), lambda _: estimators.rloo(), optax.sgd, 8
    ),
    "bandit, adam": Recipe(
        bandit.problem,
        lambda problem: scorers.payoff(problem.payoff),
        lambda _: estimators.standardised(),
        optax.adam,
        None,
    ),
}


def program(recipe: Recipe):
    """`(lr, clip, index) -> (learner, metrics)`: a whole training run."""
    problem = recipe.problem()
    policy = policies.tabular(problem.gym.spec)
    sizes = {"group_size": GROUP_SIZE, "horizon": problem.horizon}
    collect = collector(problem.gym, policy, problem.train.task, **sizes)

    def train(lr, clip, index):
        optimizer = recipe.optimizer(lr)
        update = learn.descend(
            learn.objective(policy, losses.clipped_surrogate(clip)),
            optimizer,
            passes=2,
            batch_size=recipe.batch_size,
            audit=clipping(policy, clip),
        )
        step = learn.on_policy(collect, recipe.scorer(problem), recipe.estimator(problem), update)
        start = learn.start(policy.init(), optimizer)
        return jax.lax.scan(step, start, noise.rounds(0, index, NUM_ROUNDS))

    return jax.jit(train)


ARGUMENTS = (jnp.float32(0.04), jnp.float32(0.2), jnp.uint32(1))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_training_program_lowers_for_every_platform(recipe):
    exported = jax.export.export(program(recipe), platforms=PLATFORMS)(*ARGUMENTS)
    assert exported.platforms == PLATFORMS
    assert exported.mlir_module_serialized


def test_the_lowered_program_is_the_program():
    train = program(RECIPES["bandit, adam"])
    exported = jax.export.export(train, platforms=PLATFORMS)(*ARGUMENTS)
    chex.assert_trees_all_close(exported.call(*ARGUMENTS), train(*ARGUMENTS), rtol=1e-6)
