"""Imitation (Chapter section 23.5): demonstrations, cloning and DAgger are the same two loops."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Int

from jaxagent import learn
from jaxagent.losses import score_function
from jaxagent.policies import greedy, scripted
from jaxagent.rollout import play, silence
from jaxagent.types import Actor, Decision, Expert, Gym, Params, Policy, Real, Task, Trajectory


def demonstrations(gym: Gym, expert: Expert, tasks: Task, horizon: int) -> Trajectory:
    """The expert plays each task once, [K T]."""
    return play(gym, partial(scripted, expert), tasks, silence(gym, tasks, horizon))


def examples(batch: Trajectory, keep: Bool[Array, "*B"] | bool = True) -> Decision:
    """Rows to imitate: every live decision of the kept trajectories, with advantage 1."""
    kept = jnp.broadcast_to(jnp.asarray(keep), batch.live.shape[:-1])
    return learn.decisions(batch, jnp.ones(batch.live.shape), kept)


def clone(
    policy: Policy,
    params: Params,
    rows: Decision,
    *,
    lr: Real = 0.25,
    passes: int = 40,
) -> Params:
    """Minimise -sum log pi(a|o) (Chapter eq. 23.7; a sum, not a mean), one row a step, in order."""
    descent = optax.sgd(lr)
    fit = learn.descend(
        learn.objective(policy, score_function), descent, passes=passes, batch_size=1
    )
    return fit(learn.start(params, descent), rows)[0].params


def relabel(gym: Gym, driver: Actor, expert: Expert, tasks: Task, horizon: int) -> Trajectory:
    """DAgger (Ross 2011): `driver` acts, and the expert labels every observation it visits.

    The actions that come back are the labels; the observations are the
    driver's own, which is the point.
    """
    driven = play(gym, lambda _: driver, tasks, silence(gym, tasks, horizon))
    label = jax.vmap(jax.vmap(expert, in_axes=(None, 0)))(tasks, driven.obs[:, :-1])
    return driven._replace(action=label, log_prob=jnp.zeros_like(driven.log_prob))


def dagger(
    gym: Gym, policy: Policy, params: Params, expert: Expert, tasks: Task, horizon: int
) -> Decision:
    """One round of labels for the greedy policy, as rows to fit beside those already held."""
    return examples(relabel(gym, greedy(policy, params), expert, tasks, horizon))


def together(*parts: Decision) -> Decision:
    """Rows one after another: the aggregate that DAgger fits."""
    return jax.tree.map(lambda *fields: jnp.concatenate(fields), *parts)


def pairs(rows: Decision) -> list[tuple[int, int]]:
    """(observation, action) of the rows that teach, in order, for people."""
    keep = rows.weight != 0
    as_ints: Int[Array, "M 2"] = jnp.stack([rows.obs, rows.action], axis=1)[keep]
    return [(int(obs), int(action)) for obs, action in as_ints]
