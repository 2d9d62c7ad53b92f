"""The chapter's run over many seeds, held against its published means (seeds 1000-1399).

    python -m experiments.published_means --num-seeds 1024

The published figures come from the chapter's own program, 400 seeds a scorer.
Ours are other seeds on another generator, so each mean is compared by its
z-score and the share of violating seeds by Fisher's exact test. The sequential
update is the published procedure; the others stand beside it.
"""

from typing import NamedTuple

import numpy as np
import optax
import tyro
from scipy import stats

from jaxagent import choices, estimators, learn, noise, policies, runs, seeds
from jaxagent.gyms import refund
from jaxagent.report import summary, tables

NUM_PUBLISHED = 400
# mean and standard deviation over seeds; then seeds of 400 that violate on the held-out tasks
PUBLISHED = {
    "outcome": {
        "transitions": (3391.7, 51.2),
        "updates": (6665.9, 125.1),
        "vetoed rollouts": (0.0, 0.0),
        "clipped, pass 1": (15.1, 6.6),
        "clipped, pass 2": (102.5, 24.7),
    },
    "guarded": {
        "transitions": (3450.5, 26.2),
        "updates": (6527.7, 64.5),
        "vetoed rollouts": (28.2, 6.3),
        "clipped, pass 1": (9.2, 3.6),
        "clipped, pass 2": (72.8, 11.8),
    },
}
PUBLISHED_VIOLATING = {"outcome": 117, "guarded": 0}
UPDATES = {
    "sgd, one decision a step": (optax.sgd, 1),
    "sgd, whole batch": (optax.sgd, None),
    "adam, one decision a step": (optax.adam, 1),
    "adam, whole batch": (optax.adam, None),
}
PUBLISHED_UPDATE = "sgd, one decision a step"
LR, CLIP, PASSES, ROUNDS, GROUP_SIZE = 0.04, 0.2, 2, 30, 8


class Row(NamedTuple):
    """One figure of one setting beside the published one."""

    what: str
    mean: float
    std: float
    published: float
    z: float  # in combined standard errors; 0 where both are without spread and equal


class Held(NamedTuple):
    """Held-out results of one setting."""

    succeeding: int  # seeds with 4 of 4
    violating: int
    p: float  # Fisher's exact test of `violating` against the published count


def run(scorer: str, update: str, num_seeds: int, seed: int = 0) -> seeds.Outcome:
    """The chapter's procedure with one scorer and one kind of update, over seeds."""
    problem = refund.problem()
    policy = policies.tabular(problem.gym.spec)
    make, batch_size = UPDATES[update]
    optimizer = make(LR)
    method = runs.Method(
        policy,
        choices.scorers_of(problem)[scorer],
        estimators.anchor(problem.gym.spec),
        runs.clipped_update(policy, optimizer, CLIP, passes=PASSES, batch_size=batch_size),
    )
    learner = learn.start(runs.cloned(problem, policy), optimizer)

    def one(run) -> seeds.Outcome:
        stream = noise.rounds(seed, run, ROUNDS)
        return seeds.kept(runs.train(problem, method, learner, stream, GROUP_SIZE))

    return seeds.collected(seeds.compiled(one), seeds.blocks(num_seeds), num_seeds)


def compared(scorer: str, results: seeds.Outcome) -> tuple[list[Row], Held]:
    """Every published mean with its z-score, and the held-out counts."""
    history = results.history
    ours = {
        "transitions": history["transitions"].sum(axis=1),
        "updates": summary.updates(PASSES, results),
        "vetoed rollouts": history["vetoed"].sum(axis=1),
        "clipped, pass 1": history["zeroed"][:, :, 0].sum(axis=1),
        "clipped, pass 2": history["zeroed"][:, :, 1].sum(axis=1),
    }
    rows = [_row(what, ours[what], *PUBLISHED[scorer][what]) for what in ours]
    violates = results.held_out_violation[:, :, 0].any(axis=1)
    theirs = PUBLISHED_VIOLATING[scorer]
    table = [
        [violates.sum(), (~violates).sum()],
        [theirs, NUM_PUBLISHED - theirs],
    ]
    succeeds = results.held_out_success.all(axis=1)
    return rows, Held(int(succeeds.sum()), int(violates.sum()), stats.fisher_exact(table).pvalue)


def _row(what: str, values: np.ndarray, published: float, published_std: float) -> Row:
    mean, std = float(values.mean()), float(values.std(ddof=1))
    error = np.sqrt(std**2 / len(values) + published_std**2 / NUM_PUBLISHED)
    gap = mean - published
    return Row(what, mean, std, published, float(gap / error) if error > 0 else float(gap != 0))


def tell(scorer: str, update: str, results: seeds.Outcome) -> str:
    """The comparison as a table. Only the sequential update is the published procedure."""
    rows, held = compared(scorer, results)
    aside = "" if update == PUBLISHED_UPDATE else " (another procedure: z says how far it leads)"
    num_seeds = len(results.diverged)
    text = tables.render(
        f"{scorer}, {update}, {num_seeds:,} seeds{aside}",
        ("per seed", "mean", "std", "published", "z"),
        [
            (r.what, f"{r.mean:,.1f}", f"{r.std:,.1f}", f"{r.published:,.1f}", f"{r.z:+.2f}")
            for r in rows
        ],
    )
    theirs = PUBLISHED_VIOLATING[scorer]
    return (
        f"{text}held-out: 4 of 4 in {held.succeeding:,} of {num_seeds:,} seeds; violating "
        f"{held.violating:,} ({held.violating / num_seeds:.1%}; published {theirs} of "
        f"{NUM_PUBLISHED}), p = {held.p:.3g}\n"
    )


def main(num_seeds: int = 1024) -> None:
    """Print every setting."""
    for update in UPDATES:
        for scorer in PUBLISHED:
            print(tell(scorer, update, run(scorer, update, num_seeds)))


if __name__ == "__main__":
    tyro.cli(main)
