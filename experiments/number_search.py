"""Number search solved over all policies: what b guesses can find of N numbers.

    python -m experiments.number_search

Value iteration over beliefs for every N = 1..64; one backward pass answers all
budgets 1..7. The lecture claims that four guesses always find one of 16; four
guesses that must END on the number reach 2^4 - 1 = 15.
"""

import numpy as np
import tyro

from jaxagent import exact, scorers, tables
from jaxagent.gyms import number_search
from jaxagent.report import tables as text
from jaxagent.types import Tasks

MOST_NUMBERS, MOST_GUESSES = 64, 7


def run(num_numbers: int, budget: int = MOST_GUESSES) -> np.ndarray:
    """The best success rate with 1..budget guesses, by value iteration."""
    everything = number_search.Interval(np.zeros(1, np.int32), np.full(1, num_numbers, np.int32))
    tasks = Tasks(("all",), everything, np.ones(1))
    table = tables.tabulate(number_search.belief(num_numbers, budget), tasks, budget)
    best = exact.optimum(table, scorers.outcome(0.0), budget).values.v[:, table.start[0]]
    return best[budget - np.arange(1, budget + 1)]


def formula(num_numbers: int, budget: int = MOST_GUESSES) -> np.ndarray:
    """min(N, 2^b - 1) / N for b = 1..budget."""
    return np.minimum(num_numbers, 2 ** np.arange(1, budget + 1) - 1) / num_numbers


def tell(found: dict[int, np.ndarray]) -> str:
    """Numbers found of N, for a few N, and the largest gap over all."""
    rows = [
        (str(n), *(f"{rate * n:.0f}" for rate in found[n]))
        for n in (1, 2, 4, 8, 15, 16, 31, 32, 63, 64)
        if n in found
    ]
    gap = max(np.abs(rate - formula(n)).max() for n, rate in found.items())
    header = ("N", *(f"{b} guesses" for b in range(1, MOST_GUESSES + 1)))
    table = text.render("Numbers that the best policy finds", header, rows)
    return f"{table}largest gap to min(N, 2^b - 1) / N over {len(found)} N: {gap:.1e}"


def main(most: int = MOST_NUMBERS) -> None:
    """Print the table."""
    print(tell({n: run(n) for n in range(1, most + 1)}))


if __name__ == "__main__":
    tyro.cli(main)
