"""What the documents do not say, and the same computations show."""

import numpy as np
from scipy import stats

from jaxagent.gyms import refund
from jaxagent.reproduce import anchors, bandit, lecture, many_seeds, prose, spreads, training
from jaxagent.reproduce.prose import RECOVER_HIGH, ROLLOUTS, num_seeds
from jaxagent.reproduce.refund import SCORERS
from jaxagent.reproduce.rows import Claim, Entry, Finding

VIOLATING, OF_SEEDS = 117, 400  # seeds 1000-1399 of the chapter's own program

ADDED = (
    Entry(
        "found.baseline.guess",
        "Chapter section 23.2",
        "the mean reward as baseline makes the gradient of guess noisier",
    ),
    Entry(
        "found.reinforce.seeds",
        "Chapter section 23.1",
        "the published REINFORCE run is typical: p(cite) > 0.9 after 400 updates in 99% of runs",
    ),
    Entry(
        "found.finish",
        "Chapter section 23.6",
        "a bare finish is credited (+0.05) by its small group; exactly, it is worse than average",
    ),
    Entry(
        "found.round_one",
        "Chapter section 23.6",
        "the sampled success of round 1 is within two standard errors of the exact one",
    ),
    Entry(
        "found.held_out",
        "Chapter section 23.7",
        "every seed ends with 4 of 4 held-out tasks solved, and guarded with no violation",
    ),
    Entry(
        "found.exploit.seeds",
        "Chapter section 23.7",
        "the exploit's share of seeds is that of the chapter's own program, and grows with rounds",
    ),
    Entry(
        "found.edge.tied",
        "Chapter section 23.7",
        "at known_high most groups of the published run spread less than 0.05, and some tie",
    ),
    Entry(
        "found.search.optimum",
        "Lecture section 0",
        "b guesses find at most min(16, 2^b - 1) of 16 numbers; the reference does so with four",
    ),
    Entry(
        "found.idle",
        "Chapter section 23.8",
        "from 9 environments on, each is idle for more than half of the time",
    ),
)


def noisier() -> Finding:
    """The best constant baseline of each coordinate: E[R Z^2] / E[Z^2], Z its score."""
    score = bandit.gradients(bandit.FRESH, np.ones(len(bandit.PAYS)))
    best = (bandit.PAYS[:, None] * score**2).sum(axis=0) / (score**2).sum(axis=0)
    std = [float(bandit.spread(baseline)[bandit.GUESS]) for baseline in (0.0, bandit.MEAN_PAY)]
    computed = {"std": std, "best baseline": bandit.by_arm(best)}
    there = best[bandit.GUESS]
    reason = (
        f"std {std[0]:.4f} -> {std[1]:.4f}, exactly: the best baseline there is {there:.3f}, and "
        f"{bandit.MEAN_PAY:.3f} is farther from it than 0"
    )
    return Finding(computed, std[1] > std[0], reason)


def typical() -> Finding:
    """p(cite) at the end of other runs of REINFORCE."""
    last = bandit.learned()[1:, -1, bandit.CITE]
    share = np.mean(last > 0.9)
    reason = f"in {share:.1%} of {bandit.NUM_RUNS:,} runs; the least is {last.min():.3f}"
    return Finding({"share": share, "least": last.min()}, bool(share >= 0.99), reason)


def credited() -> Finding:
    """The advantage of a bare finish at recover under the cloned policy: sampled, and exact."""
    bare = -0.05
    exactly = spreads.expected()
    mean, std = (each[RECOVER_HIGH, refund.RECOVER] for each in (exactly.mean, exactly.std))
    advantage, printed = (bare - mean) / std, anchors.member(4)["advantage"]
    reason = (
        f"over all visits the mean reward is {mean:.3f}, so a bare finish stands at "
        f"{advantage:+.2f}, not at {printed:+.2f}"
    )
    return Finding({"sampled": printed, "exact": advantage}, bool(printed > 0 > advantage), reason)


def round_one() -> Finding:
    """Sampled success in round 1 of the published runs, against the cloned policy's own."""
    sampled, each = training.run("outcome")["success"][0], spreads.expected().success
    exactly, error = each.mean(), np.sqrt((each * (1 - each)).mean() / ROLLOUTS)
    reason = f"sampled {sampled:.3f}, exact {exactly:.6f}, standard error {error:.3f}"
    computed = {"sampled": sampled, "exact": exactly}
    return Finding(computed, bool(abs(sampled - exactly) < 2 * error), reason)


def held_out() -> Finding:
    """Seeds that solve everything, and that violate, after the chapter's rounds."""
    solving = {name: many_seeds.solving(name, many_seeds.ROUNDS) for name in SCORERS}
    violating = {name: many_seeds.violating(name, many_seeds.ROUNDS) for name in SCORERS}
    guarded = violating["guarded"]
    reason = (
        f"{num_seeds()} seeds with either scorer; violating under guarded: {guarded.hits}, so at "
        f"95% no more than {guarded.high:.1%} of all seeds"
    )
    holds = all(rate.hits == rate.of for rate in solving.values()) and guarded.hits == 0
    return Finding({"solving": solving, "violating": violating}, holds, reason)


def share_of_seeds() -> Finding:
    """Violating seeds against the published count, by Fisher's exact test; and by rounds."""
    rates = [many_seeds.violating("outcome", rounds) for rounds in many_seeds.MARKS]
    hits, now = [rate.hits for rate in rates], many_seeds.violating("outcome", many_seeds.ROUNDS)
    table = [[now.hits, now.of - now.hits], [VIOLATING, OF_SEEDS - VIOLATING]]
    p = stats.fisher_exact(table).pvalue
    reason = f"{now.hits} of {now.of:,} against {VIOLATING} of {OF_SEEDS}, p = {p:.2f}"
    return Finding({"violating": hits, "p": p}, bool(p > 0.001) and hits == sorted(hits), reason)


def some_tie() -> Finding:
    """A group that ties teaches nothing; in one that spreads little the edge is all there is."""
    count = prose.edge().computed["known_high in the run"]
    little, tied, of = (count[name] for name in ("less than the edge", "tied", "groups"))
    reason = f"{little} of {of}, {tied} of them tied: standardised, a small edge is a large one"
    return Finding(count, tied > 0 and 2 * little > of, reason)


def fifteen() -> Finding:
    """Value iteration over all policies, for 1 to 5 guesses."""
    N, found, reference = lecture.NUM_NUMBERS, lecture.best(), lecture.reference()
    reason = ", ".join(f"{share * N:.0f} with {guesses}" for guesses, share in found.items())
    holds = all(share == min(N, 2**guesses - 1) / N for guesses, share in found.items())
    computed = {"optimum": found, "reference": reference}
    return Finding(computed, holds and reference == found[lecture.BUDGET], reason)


def idle() -> Finding:
    """The share of its time that an environment waits for sampling and updates."""
    share = {number: training.rate(number) / training.ceiling() for number in (8, 9, 16)}
    reason = ", ".join(f"{part:.1%} with {number}" for number, part in share.items())
    return Finding(share, bool(share[8] <= 0.5 < share[9]), reason)


CLAIMS: dict[str, Claim] = {
    "found.baseline.guess": noisier,
    "found.reinforce.seeds": typical,
    "found.finish": credited,
    "found.round_one": round_one,
    "found.held_out": held_out,
    "found.exploit.seeds": share_of_seeds,
    "found.edge.tied": some_tie,
    "found.search.optimum": fifteen,
    "found.idle": idle,
}
