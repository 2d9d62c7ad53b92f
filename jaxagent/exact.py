"""Expectations without sampling: dynamic programming on a table, and every episode enumerated.

A table is right for the horizon that it was made for (`tables.tabulate`): ask
for no longer one, since merged states then no longer mean the same. A scorer
with a payoff of its own takes it from `tables.payoff_of(table)`.

All of it is differentiable in the policy's parameters and in the scorer's
prices. Enter through `precision.exact` for float64 and NumPy arrays, as
`evaluate` and `optimum` do by themselves:

    gradient = exact(jax.grad(lambda params: objective(table, policy, params, scorer, horizon)))
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxagent import policies
from jaxagent.noise import MAX_STEPS, within
from jaxagent.precision import exact
from jaxagent.scorers import price
from jaxagent.tables import Code, Table
from jaxagent.trajectories import between
from jaxagent.types import Data, Params, Policy, Scorer, Trajectory, Verdict, is_over

MAX_EPISODES = 2**22

Chosen = Float[Array, "N A"]


# A table, a policy and a scorer as arrays


def chosen(policy: Policy, params: Params, table: Table) -> Chosen:
    """pi(a | observation of the state): a policy sees no more than that."""
    params = jax.tree.map(as_float, params)
    row = lambda obs: policies.probabilities(policy.logits(params, obs))
    return jax.vmap(row)(jnp.arange(len(table.spec.observations)))[jnp.asarray(table.obs)]


def rewards(table: Table, scorer: Scorer) -> Float[Array, "N A C"]:
    """What each step earns: its events, priced, and what the environment pays of its own."""

    def step(before: Int[Array, ""], action: Int[Array, ""], chance: Int[Array, ""]):
        after = jnp.asarray(table.next)[before, action, chance]
        at = lambda state: jax.tree.map(lambda leaf: jnp.asarray(leaf)[state], table.verdict)
        earned = price(scorer.prices, between(at(before), at(after)))
        paid = 0.0 if scorer.payoff is None else scorer.payoff(Code(before), action, chance)
        return jnp.where(is_over(at(before)), 0, earned + paid)

    over_chance = jax.vmap(step, (None, None, 0))
    over_actions = jax.vmap(over_chance, (None, 0, None))
    over_states = jax.vmap(over_actions, (0, None, None))
    return over_states(*(jnp.arange(size) for size in table.next.shape))


# Dynamic programming


class Values(NamedTuple):
    """Values of a policy with t decisions behind it; the budget ends an episode with value 0."""

    v: Float[Data, "T+1 N"]
    q: Float[Data, "T N A"]


def values(table: Table, chosen: Chosen, reward: Float[Array, "N A C"], horizon: int) -> Values:
    """Bellman's expectation, backwards from the horizon (Lecture section 5)."""

    within("horizon", horizon, MAX_STEPS)

    def back(later: Float[Array, "N"], _):
        q = expected(table, reward, later)
        v = jnp.sum(chosen * q, axis=1)
        return v, (v, q)

    nothing = jnp.zeros(len(table.obs))
    _, (v, q) = jax.lax.scan(back, nothing, length=horizon, reverse=True)
    return Values(jnp.append(v, nothing[None], axis=0), q)


def expected(
    table: Table, reward: Float[Array, "N A C"], later: Float[Array, "N"]
) -> Float[Array, "N A"]:
    """E[r + V(s') | s, a], 0 where the episode is over."""
    follows = jnp.asarray(table.odds) * (reward + later[jnp.asarray(table.next)])
    return jnp.where(is_over(table.verdict)[:, None], 0, jnp.sum(follows, axis=2))


def occupancy(
    table: Table, chosen: Chosen, start: Float[Array, "N"], horizon: int
) -> Float[Array, "{horizon+1} N"]:
    """P(s_t = n): where the policy is after t decisions, from a distribution of starts."""
    flow = chosen[:, :, None] * jnp.asarray(table.odds)
    states = jnp.asarray(table.next).ravel()

    def forward(now: Float[Array, "N"], _):
        moved = (now[:, None, None] * flow).ravel()
        return jnp.zeros_like(now).at[states].add(moved), now

    last, before = jax.lax.scan(forward, start, length=horizon)
    return jnp.append(before, last[None], axis=0)


def starts(table: Table) -> Float[Array, "K N"]:
    """Each task's start as a distribution over states."""
    return jax.nn.one_hot(jnp.asarray(table.start), len(table.obs), dtype=float)


def objective(
    table: Table, policy: Policy, params: Params, scorer: Scorer, horizon: int
) -> Float[Array, ""]:
    """J = sum over tasks of weight x E[total reward] (Chapter eq. 23.1; Lecture section 1)."""
    v = values(table, chosen(policy, params, table), rewards(table, scorer), horizon).v
    return jnp.asarray(table.weight) @ v[0][jnp.asarray(table.start)]


class Evaluation(NamedTuple):
    """Everything exact about a policy; leaves by task [K ...], as NumPy arrays in float64."""

    reward: Float[Data, "K"]  # E[total reward]; the objective weighs it by the tasks
    steps: Float[Data, "K"]  # E[decisions]
    success: Float[Data, "K"]  # probabilities from here on
    violation: Float[Data, "K V"]
    truncated: Float[Data, "K"]  # the budget, not the gym, ended the episode
    eligible: Float[Data, "K"]
    values: Values
    advantage: Float[Data, "T N A"]  # Q - V
    occupancy: Float[Data, "K T+1 N"]


@exact
def evaluate(
    table: Table, policy: Policy, params: Params, scorer: Scorer, horizon: int
) -> Evaluation:
    """A policy on a table, by dynamic programming."""
    pi = chosen(policy, params, table)
    found = values(table, pi, rewards(table, scorer), horizon)
    where = jax.vmap(lambda start: occupancy(table, pi, start, horizon))(starts(table))
    last, verdict = where[:, -1], jax.tree.map(as_float, table.verdict)
    over = as_float(is_over(table.verdict))
    return Evaluation(
        reward=found.v[0][jnp.asarray(table.start)],
        steps=jnp.sum(where[:, :-1] @ (1 - over), axis=1),
        success=last @ verdict.success,
        violation=last @ verdict.violations,
        truncated=last @ (1 - over),
        eligible=last @ as_float(permitted(table, scorer)),
        values=found,
        advantage=found.q - found.v[:-1, :, None],
        occupancy=where,
    )


def permitted(table: Table, scorer: Scorer) -> Bool[Array, "N"]:
    """Whether an episode that ends in each state may teach."""
    verdict = Verdict(*map(jnp.asarray, table.verdict))
    return jax.vmap(scorer.permit)(verdict) & verdict.valid


def as_float(array: Data) -> Float[Array, "*B"]:
    """The same numbers in the default float type of the scope."""
    return jnp.asarray(array, float)


class Optimum(NamedTuple):
    """The best over all policies that see the state; float64 NumPy arrays."""

    reward: Float[Data, "K"]
    values: Values
    action: Int[Data, "T N"]  # a best one, the first on ties


@exact
def optimum(table: Table, scorer: Scorer, horizon: int) -> Optimum:
    """Value iteration: V = max_a E[r + V(s')], backwards from the horizon.

    Where the observation tells states apart, no policy of the history does
    better. Where it hides something, this is an upper bound.
    """
    within("horizon", horizon, MAX_STEPS)
    reward = rewards(table, scorer)

    def back(later: Float[Array, "N"], _):
        q = expected(table, reward, later)
        return q.max(axis=1), (q.max(axis=1), q)

    nothing = jnp.zeros(len(table.obs))
    _, (v, q) = jax.lax.scan(back, nothing, length=horizon, reverse=True)
    found = Values(jnp.append(v, nothing[None], axis=0), q)
    return Optimum(v[0][jnp.asarray(table.start)], found, jnp.argmax(q, axis=2))


# Enumeration


class Episodes(NamedTuple):
    """Every episode of one task; the gym is `tables.gym_of(table)`."""

    trajectory: Trajectory  # leaves [E T]; its recorded log probabilities are 0
    log_odds: Float[Data, "E"]  # log probability of what chance did


def episodes(table: Table, task: int, horizon: int) -> Episodes:
    """All that can happen in `horizon` decisions from a task's start, each once.

    ValueError for more than MAX_EPISODES of them.
    """
    within("horizon", horizon, MAX_STEPS)
    within("task", task, len(table.start) - 1, least=0)
    over = np.asarray(is_over(table.verdict))
    branches = np.where(over, 1, np.count_nonzero(table.odds, axis=(1, 2)))
    state = np.array([[table.start[task]]])  # [E t+1]
    action = chance = np.zeros((1, 0), np.int64)
    log_odds = np.zeros(1)
    for _ in range(horizon):
        now = state[:, -1]
        if branches[now].sum() > MAX_EPISODES:
            raise ValueError(
                f"at most {MAX_EPISODES:,} episodes, got {branches[now].sum():,} and more"
            )
        # An ended episode goes on in one way: action 0, outcome 0, in place.
        possible = np.where(over[now][:, None, None], _only_first(table), table.odds[now])
        episode, a, c = np.nonzero(possible)
        state = np.column_stack([state[episode], table.next[now[episode], a, c]])
        action, chance = (np.column_stack([past[episode], new])
                          for past, new in ((action, a), (chance, c)))  # fmt: skip
        log_odds = log_odds[episode] + np.log(possible[episode, a, c])
    at = lambda leaf: np.asarray(leaf)[state]
    trajectory = Trajectory(
        obs=at(table.obs),
        action=action.astype(np.int32),
        chance=chance.astype(np.int32),
        log_prob=np.zeros(action.shape),
        live=~over[state[:, :-1]],
        state=Code(state.astype(np.int32)),
        verdict=jax.tree.map(at, table.verdict),
    )
    return Episodes(trajectory, log_odds)


def _only_first(table: Table) -> Float[np.ndarray, "A C"]:
    first = np.zeros(table.odds.shape[1:])
    first[0, 0] = 1
    return first


def log_probability(policy: Policy, params: Params, episodes: Episodes) -> Float[Array, "E"]:
    """log P(episode) = sum_t log pi(a_t|o_t) + log odds: only the policy's part has a gradient."""

    def one(trajectory: Trajectory):
        logits = jax.vmap(partial(policy.logits, params))(jnp.asarray(trajectory.obs[:-1]))
        taken = jax.vmap(policies.log_prob)(logits, jnp.asarray(trajectory.action))
        return jnp.sum(jnp.where(trajectory.live, taken, 0))

    params = jax.tree.map(as_float, params)
    return jax.vmap(one)(episodes.trajectory) + episodes.log_odds


def expectation(
    policy: Policy, params: Params, episodes: Episodes, value: Shaped[Data, "E *D"]
) -> Float[Array, "*D"]:
    """E[value] of any function of the episode (Chapter eq. 23.1); differentiable in params."""
    probability = jnp.exp(log_probability(policy, params, episodes))
    return jnp.tensordot(probability, as_float(value), axes=1)
