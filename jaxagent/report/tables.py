"""Numbers as text: tables for a person at a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from jaxagent.report.intervals import Estimate, Rate

WIDTH = 10_000  # a table takes what it needs: no cell is ever cut


def render(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A title and a plain table; the first column names the row."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=WIDTH, no_color=True, highlight=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    lines = [title, *(line.rstrip() for line in captured.get().splitlines())]
    return "\n".join(lines) + "\n"


def curve(success: Sequence[float], violation: Sequence[float]) -> str:
    """Success and violation of the sampled rollouts, round by round."""
    rows = [
        (str(number), f"{won:.3f}", f"{broke:.3f}")
        for number, (won, broke) in enumerate(zip(success, violation, strict=True), start=1)
    ]
    return render("Sampled rollouts", ("round", "success", "violation"), rows)


def held_out(evaluations: Sequence[dict[str, Any]]) -> str:
    """What the frozen policy does, greedily, on each held-out task."""
    yes = {True: "yes", False: "no"}
    rows = [
        (row["task"], yes[row["success"]], yes[row["violation"]], " > ".join(row["actions"]))
        for row in evaluations
    ]
    return render("Held-out tasks, greedy", ("task", "success", "violation", "actions"), rows)


def totals(clipped: Sequence[int], counts: dict[str, int]) -> str:
    """The counters of a whole run."""
    rows = [(name.replace("_", " "), f"{count:,}") for name, count in counts.items()]
    by_pass = [(f"clipped, pass {n}", f"{count:,}") for n, count in enumerate(clipped, start=1)]
    return render("Totals", ("counter", "count"), [*rows, *by_pass])


def estimate(value: Estimate) -> tuple[str, str, str]:
    """Mean, standard deviation over seeds, interval; none where no spread was seen."""
    number = lambda x: f"{x:,.1f}" if abs(value.mean) >= 10 else f"{round(x, 3) + 0.0:.3f}"
    if value.std is None or value.low is None or value.high is None:
        return number(value.mean), "-", "-"
    if value.std == 0:
        return number(value.mean), number(0), "-"
    interval = f"[{number(value.low)}, {number(value.high)}]"
    return number(value.mean), number(value.std), interval


def share(value: Rate) -> tuple[str, str, str]:
    """Count of how many, the rate, its exact interval."""
    rate = value.hits / value.of
    return f"{value.hits} of {value.of}", f"{rate:.3f}", f"[{value.low:.3f}, {value.high:.3f}]"
