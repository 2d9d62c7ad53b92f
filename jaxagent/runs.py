"""A whole training run, composed of the library's parts: the chapter's procedure, section 23.6."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from jaxagent import diagnostics, imitate, learn, losses, noise
from jaxagent.precision import real
from jaxagent.rollout import collect_in_order, collector, evaluate, num_tasks, silence
from jaxagent.types import (
    Collect,
    Data,
    Estimator,
    Learner,
    Noise,
    Params,
    Policy,
    Problem,
    Real,
    Scorer,
    Step,
    Trajectory,
    Update,
)


class Method(NamedTuple):
    """How a run learns: four functions, whose numbers may be traced."""

    policy: Policy
    scorer: Scorer
    estimator: Estimator
    update: Update


class Run(NamedTuple):
    """What a run leaves behind."""

    learner: Learner
    history: learn.Metrics  # leaves [rounds ...]
    held_out: Trajectory  # greedy play of the held-out tasks, [K T]


def clipped_update(
    policy: Policy,
    optimizer: optax.GradientTransformation,
    clip: Real = 0.2,
    *,
    passes: int = 2,
    batch_size: int | None = None,
) -> Update:
    """The chapter's update: the clipped surrogate (eq. 23.5), with its clipping audited."""
    return learn.descend(
        learn.objective(policy, losses.clipped_surrogate(clip)),
        optimizer,
        passes=passes,
        batch_size=batch_size,
        audit=diagnostics.clipping(policy, clip),
    )


def train(
    problem: Problem, method: Method, learner: Learner, stream: noise.Stream, group_size: int
) -> Run:
    """A run from `learner` on counter-based noise, a round for each entry of `stream`.

    It is a pure function of its arguments: `vmap` it over streams for seeds,
    over numbers of `method` for a grid; give it a run's learner to go on.
    """
    shape = {"group_size": group_size, "horizon": problem.horizon}
    collect = collector(problem.gym, method.policy, problem.train.task, **shape)
    learner, history = jax.lax.scan(training_step(problem, method, collect), learner, stream)
    return _judged(problem, method, learner, history, _held_out_noise(problem, stream))


def replay(
    problem: Problem,
    method: Method,
    learner: Learner,
    uniforms: Float[Data, "U"],
    *,
    group_size: int,
    rounds: int,
) -> Run:
    """The same run on one stream of uniforms read in order, as a program with one generator.

    Run it in float64 (`precision.exact`): the stream of Python's
    `random.Random(seed)` then reproduces the published runs. ValueError unless
    `rounds * per_round(problem, group_size)` uniforms are given, or more.
    """
    window = per_round(problem, group_size)
    if len(uniforms) < rounds * window:
        raise ValueError(
            f"{rounds} rounds may consume {rounds * window:,} uniforms, got {len(uniforms):,}"
        )
    shape = {"group_size": group_size, "horizon": problem.horizon}
    collect = collect_in_order(problem.gym, method.policy, problem.train.task, **shape)
    uniforms = real(uniforms)
    read_on = in_order(training_step(problem, method, collect), uniforms, window)
    (learner, _), history = jax.lax.scan(read_on, (learner, jnp.int32(0)), length=rounds)
    quiet = silence(problem.gym, problem.held_out.task, problem.horizon)
    return _judged(problem, method, learner, history, quiet)


def training_step(problem: Problem, method: Method, collect: Collect) -> Step:
    """Train on what `collect` brings, the tasks in proportion to their weights."""
    weight = real(problem.train.weight)
    return learn.on_policy(collect, method.scorer, method.estimator, method.update, weight)


def in_order(step: Step, uniforms: Float[Array, "U"], window: int) -> Callable:
    """`step` on windows of one stream, each opened where the last round stopped reading.

    The learner is carried with its cursor, `(learner, cursor)`;
    `collect_in_order` consumes one uniform per live decision.
    """

    def read_on(carry: tuple[Learner, Int[Array, ""]], _: None):
        learner, cursor = carry
        learner, metrics = step(learner, jax.lax.dynamic_slice_in_dim(uniforms, cursor, window))
        return (learner, cursor + metrics.transitions), metrics

    return read_on


def per_round(problem: Problem, group_size: int) -> int:
    """The most decisions, and so uniforms, in one round."""
    return num_tasks(problem.train.task) * group_size * problem.horizon


def cloned(problem: Problem, policy: Policy) -> Params:
    """A fresh policy fitted to a demonstration of each taught task: the chapter's start.

    ValueError if the problem has no demonstrations.
    """
    if problem.expert is None or problem.taught is None:
        raise ValueError("this gym has no demonstrations to clone: start from uniform")
    shown = imitate.demonstrations(
        problem.gym, problem.expert, problem.taught.task, problem.horizon
    )
    return imitate.clone(policy, policy.init(), imitate.examples(shown))


def _held_out_noise(problem: Problem, stream: noise.Stream) -> Noise:
    """Chance for the held-out tasks, [K T], from the run's own key."""
    first = jax.tree.map(lambda leaf: leaf[0], stream)
    number = jnp.arange(num_tasks(problem.held_out.task))
    return jax.vmap(lambda task: noise.judged(first, task, problem.horizon))(number)


def _judged(problem: Problem, method: Method, learner: Learner, history: Any, noise: Noise) -> Run:
    tasks = problem.held_out.task
    return Run(learner, history, evaluate(problem.gym, method.policy, learner.params, tasks, noise))
