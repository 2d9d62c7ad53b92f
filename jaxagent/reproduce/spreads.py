"""How far the rewards of an anchor group spread: before training, exactly, and while it goes on."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxagent import choices, estimators, replays, runs, scorers, tables
from jaxagent.exact import Episodes, episodes, expectation
from jaxagent.gyms import refund
from jaxagent.precision import exact
from jaxagent.reproduce.imitation import imitated
from jaxagent.reproduce.refund import GYM, HORIZON, POLICY, PROBLEM
from jaxagent.reproduce.training import SEED
from jaxagent.rollout import collect_in_order
from jaxagent.types import Data, Score, Trajectory

TRAIN = PROBLEM.train
VISIBLE = len(refund.PHASES) - 1  # observations at which decisions are made
SETTING = replays.Setting(seed=SEED, scorer="outcome")


# Before training, exactly


class Expected(NamedTuple):
    """The cloned policy on each training task; outcome rewards."""

    success: Float[Data, "K"]
    mean: Float[Data, "K S"]  # of the reward, over all visits to an observation
    std: Float[Data, "K S"]  # NaN where the task never leads


@cache
def expected() -> Expected:
    """By enumerating every episode."""
    table, params = tables.tabulate(GYM, TRAIN, HORIZON), imitated().params["cloned"]
    each = [_expect(params, episodes(table, k, HORIZON)) for k in range(len(TRAIN.names))]
    return Expected(*map(np.stack, zip(*each, strict=True)))


@exact
@jax.jit
def _expect(params, every: Episodes) -> Expected:
    outcome = choices.scorers_of(PROBLEM)["outcome"]
    reward = jax.vmap(partial(scorers.score, outcome))(every.trajectory).total[:, None]
    count = jax.vmap(visits)(every.trajectory)
    of = lambda value: expectation(POLICY, params, every, value.astype(float))
    mean = of(count * reward) / of(count)
    std = jnp.sqrt(of(count * (reward - mean[None]) ** 2) / of(count))
    return Expected(of(every.trajectory.verdict.success[:, -1]), mean, std)


def visits(trajectory: Trajectory) -> Int[Array, "S"]:
    """How often an episode comes to each observation."""
    live = trajectory.live.astype(jnp.int32)
    return jnp.zeros(VISIBLE, jnp.int32).at[trajectory.obs[:-1]].add(live, mode="drop")


# While it goes on


class Watched(NamedTuple):
    """A round of the published run, and what its batch looked like."""

    transitions: Data
    std: Float[Data, "K S"]  # of the reward, over the group's visits; NaN where there is none


@cache
def sampled() -> Float[np.ndarray, "rounds K S"]:
    """The standard deviation in every anchor group of the published outcome run."""
    window = runs.per_round(PROBLEM, SETTING.group_size)
    return _watch(replays.uniforms(SEED, SETTING.rounds * window)).std


@exact
@jax.jit
def _watch(stream) -> Watched:
    """`runs.replay`, with an eye on the batch that each update reads."""
    how = replays.method(SETTING.scorer, SETTING.lr, SETTING.clip, SETTING.passes)
    shape = {"group_size": SETTING.group_size, "horizon": HORIZON}
    collect = collect_in_order(GYM, POLICY, TRAIN.task, **shape)
    train = runs.training_step(PROBLEM, how, collect)

    def step(learner, noise):
        batch = collect(noise, learner.params)
        score = jax.vmap(jax.vmap(partial(scorers.score, how.scorer)))(batch)
        learner, metrics = train(learner, noise)
        return learner, Watched(metrics.transitions, jax.vmap(group_std)(batch, score))

    read = runs.in_order(step, stream, runs.per_round(PROBLEM, SETTING.group_size))
    begin = replays.start(SETTING.lr), jnp.int32(0)
    return jax.lax.scan(read, begin, length=SETTING.rounds)[1]


def group_std(group: Trajectory, score: Score) -> Float[Array, "S"]:
    """What standardising divides by, at each observation that the task's rollouts visit."""
    peers = estimators.visits(GYM.spec)(group, score)
    found = estimators.standing(peers)
    where = jnp.where(peers.member, peers.group, VISIBLE)
    std = jnp.sqrt(found.squares / found.members)
    return jnp.full(VISIBLE, jnp.nan).at[where].set(std, mode="drop")
