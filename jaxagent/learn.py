"""The one loop in which anything learns."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxagent.diagnostics import degenerate, spread
from jaxagent.scorers import score
from jaxagent.trajectories import final
from jaxagent.types import (
    Collect,
    Decision,
    Estimator,
    Learner,
    Loss,
    Objective,
    Params,
    Policy,
    Score,
    Scorer,
    Step,
    Trajectory,
    Update,
    check,
)


class Audit(NamedTuple):
    """What happened inside an update, pass by pass."""

    counts: PyTree[Int[Array, "passes"]]  # of the `audit` given to `descend`
    vetoed: Int[Array, "passes"]  # rows that taught without permission: must be 0


class Metrics(NamedTuple):
    """One round, counted on the sampled batch before its update. Integers stay integers."""

    success: Int[Array, "*B K"]  # rollouts
    violation: Int[Array, "*B K V"]  # rollouts, by kind
    failed: Int[Array, "*B K"]  # rollouts lost to the infrastructure: in no other count or mean
    vetoed: Int[Array, "*B"]  # rollouts refused permission to teach
    transitions: Int[Array, "*B"]  # live decisions
    eligible: Int[Array, "*B"]  # live decisions with permission
    degenerate: Int[Array, "*B"]  # groups whose rewards all tie
    reward: Float[Array, "*B K"]  # mean total of each task's rollouts; NaN if all failed
    std_within: Float[Array, "*B"]  # of totals within groups, averaged: what training divides by
    std_batch: Float[Array, "*B"]  # of totals across the batch: another number (F8)
    update: Any


def start(params: Params, optimizer: optax.GradientTransformation) -> Learner:
    """A learner about to take its first step."""
    return Learner(params, optimizer.init(params))


def decisions(
    batch: Trajectory,
    advantage: Float[Array, "*B T"],
    eligible: Bool[Array, "*B"],
    weight: Float[Array, "*#B"] | float = 1.0,
) -> Decision:
    """Flatten [*B T] to rows [M], in order. Dead steps and refused rollouts weigh 0."""
    allowed = jnp.broadcast_to(eligible[..., None], batch.live.shape)
    per_step = jnp.broadcast_to(jnp.expand_dims(weight, -1), batch.live.shape)
    weight = jnp.where(batch.live & allowed, per_step, 0).astype(advantage.dtype)
    obs = batch.obs[..., :-1]
    rows = Decision(obs, batch.action, batch.log_prob, advantage, weight, allowed)
    return jax.tree.map(jnp.ravel, rows)


def objective(policy: Policy, loss: Loss) -> Objective:
    """Lift a per-decision loss to a weighted SUM over rows [M]: any split adds up (F12).

    A row of weight 0 never reaches the loss, whatever stands in it (F18).
    """

    def total(params: Params, rows: Decision) -> Float[Array, ""]:
        shown = harmless(rows)
        logits = jax.vmap(policy.logits, in_axes=(None, 0))(params, shown.obs)
        each = jax.vmap(loss)(logits, shown)
        return jnp.sum(jnp.where(rows.weight != 0, shown.weight * each, 0))

    return total


def harmless(rows: Decision) -> Decision:
    """Rows [M] with those of weight 0 replaced: zeros, at a place where a row that teaches is."""
    teaches = rows.weight != 0
    place = jnp.argmax(teaches)
    blank = jax.tree.map(jnp.zeros_like, rows)
    blank = blank._replace(obs=rows.obs[place], action=rows.action[place])
    return jax.tree.map(partial(jnp.where, teaches), rows, blank)


def nothing(params: Params, rows: Decision) -> tuple[()]:
    """The audit that counts nothing."""
    del params, rows
    return ()


def descend(
    objective: Objective,
    optimizer: optax.GradientTransformation,
    *,
    passes: int,
    batch_size: int | None = None,
    audit: Callable[[Params, Decision], PyTree[Int[Array, ""]]] = nothing,
) -> Update:
    """Make `passes` over the rows in order, one optimiser step per `batch_size` rows that teach.

    A batch size of 1 is the chapter's sequential update; None takes all rows at
    once. Rows that teach are moved to the front, order kept, so a batch counts
    them and not padding. A batch in which nothing has permission moves nothing,
    momentum included: a weight of zero alone is no veto under Adam. `audit`
    counts over each batch just before its step.
    """
    if passes < 1 or (batch_size is not None and batch_size < 1):
        raise ValueError(f"passes and batch_size must be at least 1, got {passes}, {batch_size}")

    def one_batch(learner: Learner, rows: Decision):
        teaches = rows.weight != 0
        counts = audit(learner.params, rows), jnp.sum(teaches & ~rows.eligible, dtype=jnp.int32)
        grads = jax.grad(objective)(learner.params, rows)
        updates, opt_state = optimizer.update(grads, learner.opt_state, learner.params)
        moved = Learner(optax.apply_updates(learner.params, updates), opt_state)
        return jax.tree.map(partial(jnp.where, teaches.any()), moved, learner), counts

    def update(learner: Learner, rows: Decision) -> tuple[Learner, Audit]:
        everything = len(check(rows).weight)
        batches = batched(rows, min(batch_size or everything, everything))

        def one_pass(learner: Learner, _):
            learner, counts = jax.lax.scan(one_batch, learner, batches)
            return learner, jax.tree.map(lambda c: jnp.sum(c, axis=0, dtype=c.dtype), counts)

        learner, (counts, vetoed) = jax.lax.scan(one_pass, learner, length=passes)
        return learner, Audit(counts, vetoed)

    return update


def batched(rows: Decision, batch_size: int) -> Decision:
    """Rows [M] as batches [ceil(M / batch_size), batch_size], those that teach first."""
    if 1 < batch_size < len(rows.weight):
        order = jnp.argsort(rows.weight == 0, stable=True)
        rows = jax.tree.map(lambda field: field[order], rows)
    short = -len(rows.weight) % batch_size
    pad = lambda field: jnp.append(field, jnp.zeros(short, field.dtype))
    return jax.tree.map(lambda field: pad(field).reshape(-1, batch_size), rows)


def on_policy(
    collect: Collect,
    scorer: Scorer,
    estimator: Estimator,
    update: Update,
    weight: Float[Array, "K"] | None = None,
) -> Step:
    """Collect, score, compare, veto, update, discard (Chapter section 23.6).

    The advantages are computed once, outside the differentiated function, so no
    gradient leaks through them. `weight` are the tasks' probabilities; by
    default each counts the same, and each row weighs 1.
    """

    def step(learner: Learner, noise: Any) -> tuple[Learner, Metrics]:
        batch = check(collect(noise, learner.params))
        scores = jax.vmap(jax.vmap(partial(score, scorer)))(batch)
        advantage = jax.vmap(partial(estimator, learner.params))(batch, scores)
        per_rollout = 1.0 if weight is None else weight[:, None] * len(weight)
        rows = decisions(batch, advantage, scores.eligible, per_rollout)
        learner, inside = update(learner, rows)
        return learner, tally(batch, scores, inside)

    return step


def tally(batch: Trajectory, scores: Score, inside: Any) -> Metrics:
    """Count a round, [K G T]. What the infrastructure failed is counted as such and as no other."""
    last = jax.vmap(jax.vmap(final))(batch)
    counted = last.valid
    count = partial(jnp.sum, dtype=jnp.int32)
    within, across = spread(scores.total, counted)
    return Metrics(
        success=count(last.success & counted, axis=1),
        violation=count(last.violations & counted[:, :, None], axis=1),
        failed=count(~counted, axis=1),
        vetoed=count(~scores.eligible & counted),
        transitions=count(batch.live),
        eligible=count(batch.live & scores.eligible[:, :, None]),
        degenerate=count(jax.vmap(degenerate)(scores.total, counted)),
        reward=jnp.mean(scores.total, axis=1, where=counted),
        std_within=within,
        std_batch=across,
        update=inside,
    )
