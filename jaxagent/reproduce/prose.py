"""What the chapter's sentences say without a figure, judged by what the library computes."""

from typing import Any

import numpy as np

from jaxagent import choices, tables
from jaxagent.exact import optimum
from jaxagent.gyms import refund
from jaxagent.reproduce import bandit, many_seeds, spreads, training
from jaxagent.reproduce.refund import GYM, HORIZON, PROBLEM, SAFE, SCORERS, SHORTCUT, reward
from jaxagent.reproduce.rows import Claim, Finding

ROLLOUTS = 32  # in a round of the published runs
TRAIN_HIGH, RECOVER_HIGH = HIGH = [1, 3]  # the training tasks that need approval


def variance_half() -> Finding:
    """The baseline's effect on the spread of one-sample gradients, exactly, at the uniform policy.

    The coordinates that matter are taken to be the two noisiest.
    """
    without, with_it = bandit.spread(0.0), bandit.spread(bandit.MEAN_PAY)
    left = with_it / without
    noisiest = np.argsort(without)[-2:]
    named = {"without": without, "with it": with_it, "ratio": left}
    computed = {name: bandit.by_arm(values) for name, values in named.items()}
    ratios = ", ".join(f"{ratio:.2f} ({arm})" for arm, ratio in computed["ratio"].items())
    roughly_half = (left[noisiest] > 1 / 3) & (left[noisiest] < 2 / 3)
    reason = f"exact std with it over without: {ratios}"
    return Finding(computed, bool(roughly_half.all()), reason)


def clip_ratio() -> Finding:
    """Clipped transitions in pass 2 over those in pass 1."""
    first, second = training.run("outcome")["clipped"]
    over_seeds = many_seeds.clipped("outcome").mean(axis=0)
    ratio, typical = second / first, over_seeds[1] / over_seeds[0]
    computed = {"seed 7": ratio, "means over seeds": typical}
    reason = f"{second} / {first} = {ratio:.2f}; over {num_seeds()} seeds {typical:.1f}"
    return Finding(computed, round(ratio) == 5, reason)


def trainer_share() -> Finding:
    """Updates, of all the modelled serial seconds."""
    seconds = training.phases()
    share = seconds.update / sum(seconds)
    reason = f"{seconds.update:.1f} of {sum(seconds):,.1f} s = {share:.2%}"
    return Finding(share, round(100 * share) == 1, reason)


def bend() -> Finding:
    """What an environment adds, on average: up to 16, and from 32 to 64; and how long it waits."""
    rate = {number: training.rate(number) for number in (1, 16, 32, 64)}
    early, late = (rate[16] - rate[1]) / 15, (rate[64] - rate[32]) / 32
    share = {number: found / training.ceiling() for number, found in rate.items()}
    computed = {"added each, 1 to 16": early, "added each, 32 to 64": late, "of ceiling": share}
    reason = (
        f"each adds {early:.2f} per second up to 16 and {late:.2f} from 32 to 64, where it is idle "
        f"{share[32]:.0%} of the time or more; but the curve has no bend, and 16 reach "
        f"{share[16]:.0%} of the ceiling"
    )
    return Finding(computed, bool(early > 10 * late and share[32] > 0.5), reason)


def edge() -> Finding:
    """0.05 against the spread of the rewards in the groups where the choice is made."""
    gain = reward(SHORTCUT) - reward(SAFE)
    exactly = spreads.expected().std[HIGH, refund.KNOWN_HIGH]
    found = spreads.sampled()
    there = found[:, HIGH, refund.KNOWN_HIGH]
    computed = {
        "known_high before training, exactly": exactly,
        "known_high in the run": narrow(there, gain),
        "all anchor groups of the run": narrow(found, gain),
    }
    count = computed["known_high in the run"]
    reason = (
        f"true before training (exact spread {exactly[0]:.2f} and {exactly[1]:.2f}); of the run's "
        f"{count['groups']} groups at known_high {count['no more than six edges']} have too little "
        f"spread for it, {count['less than the edge']} less than 0.05 and {count['tied']} none"
    )
    return Finding(computed, count["no more than six edges"] == 0, reason)


def narrow(std: np.ndarray, gain: float) -> dict[str, int]:
    """How many groups spread too little for the sentence."""
    std, gain = std[np.isfinite(std)].round(9), round(gain, 9)  # some are 0.05 up to rounding
    return {
        "groups": std.size,
        "no more than six edges": int(np.sum(std <= 6 * gain)),
        "less than the edge": int(np.sum(std < gain)),
        "tied": int(np.sum(std == 0)),
    }


def indistinguishable() -> Finding:
    """The success curves: at seed 7 against what 32 rollouts can tell, and over seeds, paired."""
    gap, z = gap_at_seed_7()
    mean, error = gap_over_seeds()
    worst = np.abs(mean).argmax()
    computed = {
        "seed 7": {"gap": gap, "largest z": z.max()},
        "over seeds": {"mean gap": mean, "standard error": error},
    }
    reason = (
        f"at seed 7 never more than {gap.max() * ROLLOUTS:.0f} of {ROLLOUTS} rollouts apart; over "
        f"{num_seeds()} seeds outcome leads by up to {mean[worst]:.1%} +- {error[worst]:.1%}"
    )
    return Finding(computed, bool(z.max() < 1.96), reason)


def gap_at_seed_7() -> tuple[np.ndarray, np.ndarray]:
    """How far apart the two published curves are in each round; and in standard errors."""
    ours, theirs = (np.array(training.run(name)["success"]) for name in SCORERS)
    gap, pooled = np.abs(ours - theirs), (ours + theirs) / 2
    error = np.sqrt(2 * pooled * (1 - pooled) / ROLLOUTS)
    return gap, gap / np.where(error > 0, error, np.inf)


def gap_over_seeds() -> tuple[np.ndarray, np.ndarray]:
    """Outcome less guarded, round by round: the mean over seeds with equal draws, and its error."""
    ours, theirs = (many_seeds.success(name) for name in SCORERS)
    gap = ours - theirs
    return gap.mean(axis=0), gap.std(axis=0, ddof=1) / np.sqrt(len(gap))


def optimizer_finds() -> Finding:
    """The rate of the exploit over seeds, and how it grows with rounds."""
    rates = {rounds: many_seeds.violating("outcome", rounds) for rounds in many_seeds.MARKS}
    permitted = best_on_train_high()
    computed = {
        "violating seeds after rounds": rates,
        "best policy's reward on train-high": permitted,
        "compliant reward": reward(SAFE),
    }
    grows = ", ".join(f"{_share(rate):.1%} after {rounds}" for rounds, rate in rates.items())
    now = rates[many_seeds.ROUNDS]
    reason = (
        f"permitted: the best policy earns {permitted:.2f} by it; found within the published "
        f"{many_seeds.ROUNDS} rounds by {now.hits} of {now.of:,} seeds "
        f"[{now.low:.1%}, {now.high:.1%}]; by rounds: {grows}"
    )
    everywhere = permitted > reward(SAFE) and now.hits == now.of
    return Finding(computed, everywhere, reason)


def best_on_train_high() -> float:
    """The outcome score of the best of all policies, by value iteration."""
    table = tables.tabulate(GYM, refund.TRAIN, HORIZON)
    outcome = choices.scorers_of(PROBLEM)["outcome"]
    return float(optimum(table, outcome, HORIZON).reward[TRAIN_HIGH])


def num_seeds() -> str:
    """For sentences."""
    return f"{many_seeds.NUM_SEEDS:,}"


def _share(rate: Any) -> float:
    return rate.hits / rate.of


CLAIMS: dict[str, Claim] = {
    "prose.variance_half": variance_half,
    "prose.clip_ratio": clip_ratio,
    "prose.trainer_share": trainer_share,
    "prose.bend": bend,
    "prose.edge": edge,
    "prose.indistinguishable": indistinguishable,
    "prose.optimizer_finds": optimizer_finds,
}
