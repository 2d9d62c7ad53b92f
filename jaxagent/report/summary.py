"""What many seeds say together: the content of summary.json and the tables that tell it."""

from functools import partial
from typing import Any

import jax
import numpy as np

import jaxagent
from jaxagent.report import intervals, tables
from jaxagent.seeds import Outcome
from jaxagent.types import Problem

TOTALS = {
    "transitions": "transitions",
    "vetoed_rollouts": "vetoed",
    "failed_rollouts": "failed",
    "degenerate_groups": "degenerate",
}


def curves(problem: Problem, group_size: int, results: Outcome) -> dict[str, np.ndarray]:
    """Success and each kind of violation as rates of the sampled rollouts, [seeds rounds]."""
    history, weight = results.history, np.asarray(problem.train.weight)
    counted = group_size - history["failed"]  # [seeds rounds K]; no rate where all have failed
    rate = lambda hits: (hits / np.where(counted > 0, counted, np.nan)) @ weight
    kinds = enumerate(problem.gym.spec.violations)
    violations = {name: rate(history["violation"][..., kind]) for kind, name in kinds}
    return {"success": rate(history["success"]), **violations}


def updates(passes: int, results: Outcome) -> np.ndarray:
    """Eligible transitions times passes, less the clipped ones, [seeds]."""
    history = results.history
    return history["eligible"].sum(axis=1) * passes - history["zeroed"].sum(axis=(1, 2))


def summarised(setting: dict[str, Any], problem: Problem, results: Outcome) -> dict[str, Any]:
    """The content of summary.json: everything in force, then means and rates with intervals."""
    history = results.history
    by_round = curves(problem, setting["group_size"], results)
    totals: dict[str, Any] = {
        name: count(per_seed(history[field])) for name, field in TOTALS.items()
    }
    return {
        "jaxagent": jaxagent.__version__,
        "jax": jax.__version__,
        "settings": setting,
        "diverged": int(results.diverged.sum()),
        "last_round": {
            **{name: share(rate[:, -1]) for name, rate in by_round.items()},
            "reward": intervals.mean(history["reward"][:, -1] @ np.asarray(problem.train.weight)),
        },
        "totals": {
            **totals,
            "updates": count(updates(setting["passes"], results)),
            "vetoed_updates": int(history["vetoed_updates"].sum()),
            "clipped": [count(each) for each in history["zeroed"].sum(axis=1).T],
        },
        "held_out_success": share(results.held_out_success.mean(axis=1)),
        "held_out": held_out(problem, results),
    }


share = partial(intervals.mean, bounds=(0.0, 1.0))
count = partial(intervals.mean, bounds=(0.0, np.inf))


def per_seed(counts: np.ndarray) -> np.ndarray:
    """The sum of each seed's counts, whatever their further axes."""
    return counts.reshape(len(counts), -1).sum(axis=1)


def held_out(problem: Problem, results: Outcome) -> dict[str, intervals.Rate]:
    """Shares of seeds whose frozen policy succeeds on every task, and commits each violation."""
    committed = results.held_out_violation.any(axis=1)  # [seeds V]
    kinds = dict(zip(problem.gym.spec.violations, committed.T, strict=True))
    flags = {"success": results.held_out_success.all(axis=1), **kinds}
    return {name: intervals.rate(flag) for name, flag in flags.items()}


def told(summary: dict[str, Any]) -> str:
    """The summary as text."""
    title = "{gym}, {scorer}, {estimator}, {optimizer}, from {from}: {num_seeds:,} seeds"
    over_seeds = tables.render(
        title.format(**summary["settings"]),
        ("per seed", "mean", "std", "95% interval"),
        [(name.replace("_", " "), *tables.estimate(value)) for name, value in _means(summary)],
    )
    shares = tables.render(
        "Seeds whose trained policy, greedy, on the held-out tasks ...",
        ("", "seeds", "share", "exact 95% interval"),
        [(_label(name), *tables.share(value)) for name, value in summary["held_out"].items()],
    )
    vetoed = summary["totals"]["vetoed_updates"]
    diverged, num_seeds = summary["diverged"], summary["settings"]["num_seeds"]
    counts = f"vetoed updates {vetoed}, diverged runs {diverged} of {num_seeds:,}\n"
    if diverged:
        counts += (
            "A policy that is not finite plays the first action: the means include such runs, "
            "and none of them counts as succeeding.\n"
        )
    return "\n".join((over_seeds, shares, counts))


def _means(summary: dict[str, Any]) -> list[tuple[str, intervals.Estimate]]:
    totals = dict(summary["totals"])
    clipped = enumerate(totals.pop("clipped"), start=1)
    del totals["vetoed_updates"]
    return [
        *((f"{name}, last round", value) for name, value in summary["last_round"].items()),
        *((f"{name}, total", value) for name, value in totals.items()),
        *((f"clipped, pass {number}", value) for number, value in clipped),
        ("held-out tasks solved, greedy", summary["held_out_success"]),
    ]


def _label(name: str) -> str:
    return "succeeds on all" if name == "success" else f"commits {name.replace('_', ' ')}"


def arrays(results: Outcome) -> dict[str, np.ndarray]:
    """The arrays of history.npz; the first axis is the seed."""
    return {
        **results.history,
        "final_logits": results.params,
        "held_out_success": results.held_out_success,
        "held_out_violation": results.held_out_violation,
        "diverged": results.diverged,
    }
