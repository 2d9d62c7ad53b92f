"""Groups of rewards (Chapter section 23.2, Lecture section 6): advantages, and groups that tie."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxagent import estimators
from jaxagent.diagnostics import degenerate
from jaxagent.estimators import Normalise, Standing
from jaxagent.precision import exact
from jaxagent.reproduce.rows import Claim, Figure, Finding

Rewards = Float[np.ndarray, "M"]

GROUP = np.array([1.0, 0, 0, 1, 0, 1, 0, 0])
FOUR = np.array([1.0, 0, 0, 1])
FIVE = np.array([1.0, 1, 0, 0, 0])
RARE = 0.01  # the probability of success of one rollout
SIZE = 8


def standing(rewards: Float[Array, "M"]) -> Standing:
    """One group, compared by the library's estimators."""
    group, member = jnp.zeros(len(rewards), jnp.int32), jnp.ones(len(rewards), bool)
    return estimators.standing(estimators.Peers(rewards, group, member, 1))


@exact
@jax.jit
def mean(rewards):
    """What the members are compared with."""
    return (rewards - standing(rewards).deviation)[0]


@exact
@jax.jit
def std(rewards):
    """The population standard deviation."""
    found = standing(rewards)
    return jnp.sqrt(found.squares / found.members)[0]


def advantages(rewards: Rewards, normalise: Normalise) -> Rewards:
    """The advantage of each member."""
    return exact(jax.jit(lambda rewards: normalise(standing(rewards))))(rewards)


def totals(advantage: Rewards) -> list[float]:
    """The sums of the positive and of the negative ones."""
    return [advantage.clip(min=0).sum(), advantage.clip(max=0).sum()]


def binary() -> tuple[Float[np.ndarray, "E G"], Float[np.ndarray, "E"]]:
    """Every group of SIZE binary rewards, with its probability."""
    groups = np.array(list(product((0.0, 1.0), repeat=SIZE)))
    return groups, np.where(groups == 1, RARE, 1 - RARE).prod(axis=1)


def all_fail() -> float:
    """The probability of a group without a success."""
    groups, probability = binary()
    return probability[~groups.any(axis=1)].sum()


def ties() -> float:
    """The probability of a group that teaches nothing, by the library's own test of it."""
    groups, probability = binary()
    tied = exact(jax.jit(jax.vmap(degenerate)))(groups, np.ones(groups.shape, bool))
    return probability[tied].sum()


def ties_exceed() -> Finding:
    """The lecture says "greater than"."""
    computed, stated = ties(), 0.92
    reason = f"{computed:.6f}, all-success groups included"
    return Finding(computed, bool(computed > stated), reason)


FIGURES: dict[str, Figure] = {
    "group.mean": lambda: mean(GROUP),
    "group.std": lambda: std(GROUP),
    "group.advantages": lambda: advantages(GROUP, estimators.standardise()),
    "lecture.centred": lambda: advantages(FOUR, estimators.centre),
    "lecture.centred.5": lambda: advantages(FIVE, estimators.centre),
    "lecture.centred.totals": lambda: totals(advantages(FIVE, estimators.centre)),
    "lecture.degenerate": all_fail,
}

CLAIMS: dict[str, Claim] = {"lecture.degenerate.total": ties_exceed}
