"""Intervals over seeds, at 95% unless said otherwise."""

from typing import NamedTuple

import numpy as np
from scipy import stats


class Estimate(NamedTuple):
    """A mean over seeds; `std`, `low` and `high` are None where one seed cannot say."""

    mean: float
    std: float | None  # over seeds, sample standard deviation
    low: float | None
    high: float | None


class Rate(NamedTuple):
    """A share of seeds, with the exact binomial (Clopper-Pearson) interval."""

    hits: int
    of: int
    low: float
    high: float


def mean(
    values: np.ndarray, level: float = 0.95, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Estimate:
    """The mean of one number per seed, with Student's interval cut to the bounds of the number."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return Estimate(float(values.mean()), None, None, None)
    std = values.std(ddof=1)
    reach = stats.t.ppf((1 + level) / 2, len(values) - 1) * std / np.sqrt(len(values))
    centre = values.mean()
    low, high = np.clip([centre - reach, centre + reach], *bounds)
    return Estimate(float(centre), float(std), float(low), float(high))


def rate(flags: np.ndarray, level: float = 0.95) -> Rate:
    """How many of the seeds, with the interval that holds whatever the true share is."""
    hits, of = int(np.sum(flags)), len(flags)
    interval = stats.binomtest(hits, of).proportion_ci(level, method="exact")
    return Rate(hits, of, float(interval.low), float(interval.high))
