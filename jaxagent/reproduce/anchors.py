"""Eight rollouts in a row (Chapter sections 23.4 and 23.6): the wanderer, one anchor group."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxagent import choices, estimators, replays, scorers
from jaxagent.gyms import refund
from jaxagent.losses import clipped_surrogate
from jaxagent.precision import exact
from jaxagent.reproduce.imitation import imitated
from jaxagent.reproduce.refund import GYM, HORIZON, POLICY, PROBLEM, task
from jaxagent.reproduce.rows import Claim, Entry, Figure, Finding
from jaxagent.rollout import collect_in_order
from jaxagent.types import Data, Decision, Score, Trajectory

GROUP_SIZE = 8
UNTRAINED = np.zeros((len(refund.PHASES), len(refund.ACTIONS)))
RECOVER_HIGH = (90, refund.RECOVER)
LOW = (20, refund.START)


class Sampled(NamedTuple):
    """Rollouts of one task, scored by outcome and compared by visits."""

    trajectory: Trajectory  # leaves [G ...]
    score: Score
    advantage: Float[Data, "G T"]


@exact
@jax.jit
def _sample(task, params, stream) -> Sampled:
    alone = jax.tree.map(lambda leaf: leaf[None], task)
    collect = collect_in_order(GYM, POLICY, alone, group_size=GROUP_SIZE, horizon=HORIZON)
    group = jax.tree.map(lambda leaf: leaf[0], collect(stream, params))
    score = jax.vmap(partial(scorers.score, choices.scorers_of(PROBLEM)["outcome"]))(group)
    anchor = estimators.anchor(GYM.spec)
    return Sampled(group, score, anchor(params, group, score))


def sampled(which: tuple[int, int], params: Float[np.ndarray, "S A"], seed: int) -> Sampled:
    """What the stream of a Mersenne Twister leads to."""
    return _sample(task(*which), params, replays.uniforms(seed, GROUP_SIZE * HORIZON))


@cache
def wanderer() -> dict[str, Any]:
    """The untrained policy on amount 20, seed 3: the first rollout."""
    group = sampled(LOW, UNTRAINED, seed=3).trajectory
    actions = group.action[0][group.live[0]]
    named = [refund.ACTIONS[action] for action in actions]
    return {"actions": named, "success": group.verdict.success[0, -1]}


def wanders() -> Finding:
    """The sentence about that rollout, against the output printed beneath it."""
    actions = wanderer()["actions"]
    reason = f"the rollout, printed there too, is a single {' '.join(actions)}: nothing wanders"
    return Finding(len(actions), True, reason)


@cache
def anchored() -> Sampled:
    """The chapter's anchor group: recover-high under the cloned policy, seed 11."""
    return sampled(RECOVER_HIGH, imitated().params["cloned"], seed=11)


def member(number: int) -> dict[str, Any]:
    """First action at recover, reward and advantage of one of its rollouts."""
    found = anchored()
    return {
        "action": refund.ACTIONS[found.trajectory.action[number, 0]],
        "reward": found.score.total[number],
        "advantage": found.advantage[number, 0],
    }


@exact
@jax.jit
def step_is_taken():
    """Whether the clipped surrogate has a gradient at p = 0.25, behaviour 0.95, advantage +1."""
    number, one = jnp.int32(0), jnp.ones(())
    row = Decision(number, number, jnp.log(0.95 * one), one, one, jnp.bool_(True))
    logits = jnp.zeros(len(refund.ACTIONS))  # each action has 0.25
    return jax.grad(clipped_surrogate())(logits, row).any()


ADDED = (
    Entry(
        "gym.wanderer.text",
        "Chapter section 23.4",
        "the untrained rollout wanders for four random actions",
        printed=4,
    ),
)

FIGURES: dict[str, Figure] = {
    "gym.wanderer": wanderer,
    **{f"anchor.{number}": partial(member, number) for number in range(GROUP_SIZE)},
    "clip.probe": step_is_taken,
}

CLAIMS: dict[str, Claim] = {"gym.wanderer.text": wanders}
