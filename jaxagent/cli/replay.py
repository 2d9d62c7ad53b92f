"""`jaxagent replay`: the published procedure, draw for draw, in float64."""

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import optax

from jaxagent import choices, estimators, learn, policies, precision, runs
from jaxagent.cli.settings import Settings
from jaxagent.gyms import refund
from jaxagent.noise import within
from jaxagent.report import files, tables
from jaxagent.types import Trajectory

STD_EPS = 1e-6
MAX_SEED = 2**63 - 1
MAX_DRAWS = 2**28


@dataclass(frozen=True)
class Replay(Settings):
    """Replay the chapter's training run (sections 23.6 and 23.7) from the cloned policy.

    The uniforms are those of Python's random.Random(SEED), consumed in the
    chapter's order: the published counts, curves and logits come out.
    """

    seed: int = 7
    """Seed of the Mersenne Twister."""
    scorer: Literal["outcome", "guarded"] = "guarded"
    """What a trajectory earns, and whether it may teach."""
    json: Path | None = None
    """Also write the run as JSON, in the form of the published data."""

    def run(self) -> int:
        """Check, replay, print; the exit status."""
        self.checked()
        within("--seed", self.seed, MAX_SEED, least=0)
        if self.json is not None:
            files.require_writable(self.json)
        draws = self.rounds * runs.per_round(refund.problem(), self.group_size)
        within("--rounds x --group-size x 28", draws, MAX_DRAWS)
        entry = replayed(self)
        if self.json is not None:  # before any print: a reader may go away
            files.write_json(self.json, entry)
        print(tables.curve(entry["success"], entry["violation"]))
        print(tables.held_out(entry["eval"]))
        print(tables.totals(entry["clipped"], entry["totals"]))
        if self.json is not None:
            print(f"wrote {self.json}")
        return 0


def replayed(options: Replay) -> dict[str, Any]:
    """The run as an entry of the published data: the same keys, names and units."""
    problem = refund.problem()
    count = options.rounds * runs.per_round(problem, options.group_size)
    generator = random.Random(options.seed)
    uniforms = np.fromiter((generator.random() for _ in range(count)), float, count)
    run, probabilities = _in_float64(options, uniforms)

    rollouts = len(problem.train.names) * options.group_size
    clipped = run.history.update.counts.zeroed.sum(axis=0)
    updates = int(run.history.eligible.sum()) * options.passes - int(clipped.sum())
    names, actions = problem.gym.spec.observations, problem.gym.spec.actions
    return {
        "mt19937_seed": options.seed,
        "scorer": options.scorer,
        "settings": {
            "rounds": options.rounds,
            "group_size": options.group_size,
            "lr": options.lr,
            "clip": options.clip,
            "epochs": options.passes,
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


@precision.exact
def _in_float64(options: Replay, uniforms: np.ndarray):
    """The `Run` as NumPy arrays, and the final policy's probabilities [S A].

    Runs that differ in numbers alone share one compiled program.
    """
    run = _compiled(
        uniforms,
        options.lr,
        options.clip,
        scorer=options.scorer,
        group_size=options.group_size,
        rounds=options.rounds,
        passes=options.passes,
    )
    return run, jax.vmap(policies.probabilities)(run.learner.params)


@partial(jax.jit, static_argnames=("scorer", "group_size", "rounds", "passes"))
def _compiled(uniforms, lr, clip, *, scorer, group_size, rounds, passes) -> runs.Run:
    problem = refund.problem()
    policy = policies.tabular(problem.gym.spec)
    optimizer = optax.sgd(lr)
    method = runs.Method(
        policy,
        choices.scorers_of(problem)[scorer],
        estimators.anchor(problem.gym.spec, eps=STD_EPS),
        runs.clipped_update(policy, optimizer, clip, passes=passes, batch_size=1),
    )
    learner = learn.start(runs.cloned(problem, policy), optimizer)
    return runs.replay(problem, method, learner, uniforms, group_size=group_size, rounds=rounds)


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
