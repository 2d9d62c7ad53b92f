"""A whole training run, composed of the library's parts: the chapter's procedure, section 23.6."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxagent import diagnostics, imitate, learn, losses
from jaxagent.noise import Stream
from jaxagent.rollout import collect_in_order, collector, evaluate, num_tasks
from jaxagent.types import (
    Collect,
    Estimator,
    Learner,
    Params,
    Policy,
    Problem,
    Scorer,
    Step,
    Trajectory,
)


class Method(NamedTuple):
    """How a run learns. Its numbers may be traced; `passes` and `batch_size` are shapes."""

    policy: Policy
    scorer: Scorer
    estimator: Estimator
    optimizer: optax.GradientTransformation
    clip: Float[Array, ""] | float
    passes: int
    batch_size: int | None  # rows per optimiser step; None is all of them


class Run(NamedTuple):
    """What a run leaves behind."""

    params: Params
    history: learn.Metrics  # leaves [rounds ...]
    held_out: Trajectory  # greedy play of the held-out tasks, [K T]


def train(problem: Problem, method: Method, params: Params, stream: Stream, group_size: int) -> Run:
    """One run from `params` on counter-based noise, a round for each entry of `stream`.

    It is a pure function of its arguments: `vmap` it over streams for seeds,
    over numbers of `method` for a grid.
    """
    collect = collector(
        problem.gym,
        method.policy,
        problem.train.task,
        group_size=group_size,
        horizon=problem.horizon,
    )
    learner = learn.start(params, method.optimizer)
    learner, history = jax.lax.scan(training_step(problem, method, collect), learner, stream)
    return _concluded(problem, method, learner, history)


def replay(
    problem: Problem,
    method: Method,
    params: Params,
    uniforms: Float[Array, "N"],
    *,
    group_size: int,
    rounds: int,
) -> Run:
    """The same run on one stream of uniforms read in order, as a program with one generator.

    Run it in float64 (`precision.exact`): the stream of Python's
    `random.Random(seed)` then reproduces the published runs. At least
    `rounds * per_round(problem, group_size)` uniforms must be given.
    """
    collect = collect_in_order(
        problem.gym,
        method.policy,
        problem.train.task,
        group_size=group_size,
        horizon=problem.horizon,
    )
    window = per_round(problem, group_size)
    if len(uniforms) < rounds * window:
        raise ValueError(
            f"{rounds} rounds may consume {rounds * window:,} uniforms, got {len(uniforms):,}"
        )
    step = learn.in_order(training_step(problem, method, collect), uniforms, window)
    begin = learn.start(params, method.optimizer), jnp.int32(0)
    (learner, _), history = jax.lax.scan(step, begin, length=rounds)
    return _concluded(problem, method, learner, history)


def per_round(problem: Problem, group_size: int) -> int:
    """The most decisions, and so uniforms, in one round."""
    return num_tasks(problem.train.task) * group_size * problem.horizon


def training_step(problem: Problem, method: Method, collect: Collect) -> Step:
    """Clipped-surrogate training on what `collect` brings, its clipping audited."""
    update = learn.descend(
        learn.objective(method.policy, losses.clipped_surrogate(method.clip)),
        method.optimizer,
        passes=method.passes,
        batch_size=method.batch_size,
        audit=diagnostics.clipping(method.policy, method.clip),
    )
    weight = jnp.asarray(problem.train.weight, dtype=float)
    return learn.on_policy(collect, method.scorer, method.estimator, update, weight)


def cloned(problem: Problem, policy: Policy) -> Params:
    """The policy fitted to the problem's demonstrations. ValueError if it has none."""
    if problem.expert is None or problem.taught is None:
        raise ValueError("this gym has no demonstrations to clone: start from uniform")
    return imitate.cloned(problem.gym, policy, problem.expert, problem.taught.task, problem.horizon)


def _concluded(problem: Problem, method: Method, learner: Learner, history: learn.Metrics) -> Run:
    held_out = evaluate(
        problem.gym, method.policy, learner.params, problem.held_out.task, problem.horizon
    )
    return Run(learner.params, history, held_out)
