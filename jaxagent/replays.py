"""The published training runs, draw for draw: Python's generator, the chapter's order, float64."""

import random
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Float

from jaxagent import choices, estimators, learn, policies, precision, runs
from jaxagent.gyms import refund
from jaxagent.types import Learner, Trajectory

STD_EPS = 1e-6


class Setting(NamedTuple):
    """A run of the refund desk from the cloned policy, with the chapter's numbers."""

    seed: int = 7  # of the Mersenne Twister
    scorer: str = "guarded"  # a name in `choices.scorers_of`
    rounds: int = 30
    group_size: int = 8
    lr: float = 0.04
    clip: float = 0.2
    passes: int = 2


def replayed(setting: Setting) -> dict[str, Any]:
    """The run as an entry of the published data: the same keys, names and units."""
    problem = refund.problem()
    count = setting.rounds * runs.per_round(problem, setting.group_size)
    run, probabilities = _in_float64(setting, uniforms(setting.seed, count))

    rollouts = len(problem.train.names) * setting.group_size
    clipped = run.history.update.counts.zeroed.sum(axis=0)
    updates = int(run.history.eligible.sum()) * setting.passes - int(clipped.sum())
    names, actions = problem.gym.spec.observations, problem.gym.spec.actions
    return {
        "mt19937_seed": setting.seed,
        "scorer": setting.scorer,
        "settings": {
            "rounds": setting.rounds,
            "group_size": setting.group_size,
            "lr": setting.lr,
            "clip": setting.clip,
            "epochs": setting.passes,
            "max_steps": problem.horizon,
            "std_eps": STD_EPS,
        },
        "success": (run.history.success.sum(axis=1) / rollouts).tolist(),
        "violation": (run.history.violation[:, :, 0].sum(axis=1) / rollouts).tolist(),
        "clipped": clipped.tolist(),
        "totals": {
            "transitions": int(run.history.transitions.sum()),
            "updates": updates,
            "vetoed_rollouts": int(run.history.vetoed.sum()),
            "vetoed_updates": int(run.history.update.vetoed.sum()),
        },
        "final_logits": dict(zip(names[:-1], run.learner.params.tolist(), strict=False)),
        "known_high_probabilities": probabilities[refund.KNOWN_HIGH].tolist(),
        "eval": evaluations(problem.held_out.names, actions, run.held_out),
    }


def uniforms(seed: int, count: int) -> Float[np.ndarray, "{count}"]:
    """What Python's `random.Random(seed)` hands out: one number for each of its choices."""
    generator = random.Random(seed)
    return np.fromiter((generator.random() for _ in range(count)), float, count)


def method(scorer: str, lr: Any, clip: Any, passes: int) -> runs.Method:
    """The chapter's way to learn (section 23.6): anchor groups, one clipped step per decision."""
    spec = refund.gym().spec
    policy = policies.tabular(spec)
    return runs.Method(
        policy,
        choices.scorers_of(refund.problem())[scorer],
        estimators.anchor(spec, eps=STD_EPS),
        runs.clipped_update(policy, optax.sgd(lr), clip, passes=passes, batch_size=1),
    )


def start(lr: Any) -> Learner:
    """The cloned policy, about to take its first plain gradient step."""
    problem = refund.problem()
    return learn.start(runs.cloned(problem, policies.tabular(problem.gym.spec)), optax.sgd(lr))


def evaluations(
    names: tuple[str, ...], actions: tuple[str, ...], played: Trajectory
) -> list[dict[str, Any]]:
    """What a greedy policy did on each task, [K T]: its actions, success and violation."""
    return [
        {
            "task": name,
            "actions": [actions[a] for a in played.action[k][played.live[k]]],
            "success": bool(played.verdict.success[k, -1]),
            "violation": bool(played.verdict.violations[k, -1, 0]),
        }
        for k, name in enumerate(names)
    ]


@precision.exact
def _in_float64(setting: Setting, stream: Float[np.ndarray, "N"]):
    """The `Run` as NumPy arrays, and the final policy's probabilities [S A].

    Runs that differ in numbers alone share one compiled program.
    """
    run = _compiled(
        stream,
        setting.lr,
        setting.clip,
        scorer=setting.scorer,
        group_size=setting.group_size,
        rounds=setting.rounds,
        passes=setting.passes,
    )
    return run, jax.vmap(policies.probabilities)(run.learner.params)


@partial(jax.jit, static_argnames=("scorer", "group_size", "rounds", "passes"))
def _compiled(stream, lr, clip, *, scorer, group_size, rounds, passes) -> runs.Run:
    how, shape = method(scorer, lr, clip, passes), {"group_size": group_size, "rounds": rounds}
    return runs.replay(refund.problem(), how, start(lr), stream, **shape)
