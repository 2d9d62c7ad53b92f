"""Scorers: what a trajectory earned, and whether it may teach.

Events are integers and a scorer prices them, so histories with equal counts
have bit-equal totals whatever the order of their events: what should tie, ties.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxagent.precision import real
from jaxagent.trajectories import Events, events, final
from jaxagent.types import Data, Payoff, Prices, Real, Score, Scorer, Trajectory, Verdict


def outcome(step_cost: Real = 0.05) -> Scorer:
    """Success, minus a cost per decision. Every trajectory teaches (Chapter section 23.6)."""
    return Scorer(Prices(success=1.0, violation=0.0, step=step_cost), everyone, payoff=None)


def penalised(scorer: Scorer, penalty: Float[Data, "V"]) -> Scorer:
    """`scorer` with a fine for each kind of violation: any finite fine is a price."""
    return scorer._replace(prices=scorer.prices._replace(violation=penalty))


def vetoed(scorer: Scorer) -> Scorer:
    """`scorer`, but a trajectory with any violation may not teach, at any reward."""

    def permit(verdict: Verdict) -> Bool[Array, ""]:
        return scorer.permit(verdict) & ~verdict.violations.any()

    return scorer._replace(permit=permit)


def guarded(scorer: Scorer, penalty: Float[Data, "V"]) -> Scorer:
    """Fines and the veto together (Chapter section 23.7): its penalties are 2 and 1."""
    return vetoed(penalised(scorer, penalty))


def payoff(reward: Payoff) -> Scorer:
    """The environment's own reward per (state, action, chance) (Chapter section 23.1)."""
    return Scorer(Prices(success=0.0, violation=0.0, step=0.0), everyone, reward)


def everyone(verdict: Verdict) -> Bool[Array, ""]:
    """The permission that refuses nobody."""
    del verdict
    return jnp.bool_(True)


def on_lattice(scorer: Scorer) -> bool:
    """Whether every reward is a sum of integer multiples of the event prices."""
    return scorer.payoff is None


def score(scorer: Scorer, trajectory: Trajectory) -> Score:
    """Price one trajectory [T]. The total is priced once, from integer totals.

    An infrastructure failure is no verdict on the agent: it never teaches (F50).
    """
    counts = events(trajectory)
    verdict = final(trajectory)
    reward = jax.vmap(partial(price, scorer.prices))(counts)
    total = price(scorer.prices, jax.tree.map(partial(jnp.sum, axis=0), counts))
    if scorer.payoff is not None:
        before = jax.tree.map(lambda leaf: leaf[:-1], trajectory.state)
        paid = jax.vmap(scorer.payoff)(before, trajectory.action, trajectory.chance)
        paid = jnp.where(trajectory.live, paid, 0)
        reward, total = reward + paid, total + paid.sum()
    return Score(reward, total, scorer.permit(verdict) & verdict.valid)


def price(prices: Prices, count: Events) -> Float[Array, ""]:
    """The worth of event counts, added in the stated order: outcome, penalty, step cost.

    ValueError unless there is one fine, or one for each kind of violation.
    """
    penalty = real(prices.violation)
    if penalty.shape not in ((), count.violation.shape):
        raise ValueError(
            f"a penalty must have a fine for each of {len(count.violation)} kinds of violation, "
            f"got {penalty.shape}"
        )
    each = jnp.broadcast_to(penalty, count.violation.shape)
    fine = sum((fine * times for fine, times in zip(each, count.violation, strict=True)), real(0))
    return real(prices.success) * count.success - fine - real(prices.step) * count.step
