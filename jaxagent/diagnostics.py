"""Diagnostics: what a person needs to know of a batch; none of it enters a gradient."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxagent import losses
from jaxagent.losses import gradient_zeroed, kl
from jaxagent.types import Decision, Params, Policy, Real


class Clipping(NamedTuple):
    """Counts over the rows that teach. Only `zeroed` rows lose their gradient (F15)."""

    zeroed: Int[Array, "*B"]  # the strict test: what the chapter calls clipped
    below_band: Int[Array, "*B"]  # ratio < 1 - clip, whatever the advantage
    above_band: Int[Array, "*B"]  # ratio > 1 + clip


def clipping(policy: Policy, clip: Real) -> Callable[[Params, Decision], Clipping]:
    """An audit for `descend`: ratios of rows [M] against the recorded log probabilities."""

    def audit(params: Params, rows: Decision) -> Clipping:
        ratio = jnp.exp(log_ratio(policy, params, rows))
        teaches = rows.weight != 0
        count = lambda flag: jnp.sum(teaches & flag, dtype=jnp.int32)
        return Clipping(
            zeroed=count(gradient_zeroed(rows.advantage, ratio, clip)),
            below_band=count(ratio < 1 - clip),
            above_band=count(ratio > 1 + clip),
        )

    return audit


def log_ratio(policy: Policy, params: Params, rows: Decision) -> Float[Array, "M"]:
    """`losses.log_ratio` of each row."""
    return jax.vmap(lambda row: losses.log_ratio(policy.logits(params, row.obs), row))(rows)


def effective_sample_size(log_weight: Float[Array, "M"]) -> Float[Array, ""]:
    """(sum w)^2 / sum w^2 in log space, in 1..M; 0 when every weight is zero, NaN if one is NaN."""
    peak = jnp.max(log_weight)
    log_weight = log_weight - jnp.where(jnp.isfinite(peak), peak, 0)
    total, squares = jnp.sum(jnp.exp(log_weight)), jnp.sum(jnp.exp(2 * log_weight))
    return jnp.where(squares == 0, 0, total**2 / jnp.where(squares == 0, 1, squares))


def degenerate(total: Float[Array, "G"], counted: Bool[Array, "G"]) -> Bool[Array, ""]:
    """Whether a group's rewards all tie (max = min), whatever is done with them after (F7)."""
    most = jnp.max(jnp.where(counted, total, -jnp.inf))
    least = jnp.min(jnp.where(counted, total, jnp.inf))
    return most <= least


class Spread(NamedTuple):
    """Two standard deviations of reward that are not the same number (F8)."""

    within: Float[Array, ""]  # mean over tasks of the std within the group: what training uses
    batch: Float[Array, ""]  # std over the whole batch


def spread(total: Float[Array, "K G"], counted: Bool[Array, "K G"]) -> Spread:
    """Population standard deviations of the counted totals; NaN where there is none."""
    within = jnp.std(total, axis=1, where=counted)
    return Spread(jnp.nanmean(within), jnp.std(total, where=counted))


class Contributions(NamedTuple):
    """How much of an update single rows carry."""

    norm: Float[Array, "M"]  # Euclidean norm of each row's weighted gradient
    largest_share: Float[Array, ""]  # of the sum of norms; 0 when nothing contributes


def contributions(
    objective: Callable[[Params, Decision], Float[Array, ""]], params: Params, rows: Decision
) -> Contributions:
    """The gradient of each row by itself, measured."""
    alone = jax.vmap(lambda row: jax.grad(objective)(params, jax.tree.map(lambda x: x[None], row)))
    squares = [jnp.sum(jnp.reshape(leaf, (leaf.shape[0], -1)) ** 2, axis=1)
               for leaf in jax.tree.leaves(alone(rows))]  # fmt: skip
    norm = jnp.sqrt(sum(squares))
    total = norm.sum()
    return Contributions(norm, jnp.where(total > 0, norm.max() / jnp.where(total > 0, total, 1), 0))


class Divergence(NamedTuple):
    """KL(pi || reference) over observations. A small mean can hide a large rare one."""

    mean: Float[Array, ""]  # weighted by visits
    largest: Float[Array, ""]  # over all observations


def divergence(
    policy: Policy, params: Params, reference: Params, visits: Float[Array, "S"]
) -> Divergence:
    """Exact per observation; `visits` are counts or probabilities."""
    at = lambda obs: kl(policy.logits(params, obs), policy.logits(reference, obs))
    each = jax.vmap(at)(jnp.arange(visits.shape[0]))
    total = visits.sum()
    mean = jnp.sum(jnp.where(visits > 0, visits * each, 0)) / jnp.where(total > 0, total, 1)
    return Divergence(mean, each.max())
