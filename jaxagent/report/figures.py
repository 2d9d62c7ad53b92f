"""Pictures, drawn without a display."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxagent.report import files

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def contract(file: Path, curves: dict[str, np.ndarray], title: str) -> None:
    """Rates [seeds rounds] against the round: mean, and bands that hold 50% and 90% of seeds."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for number, (name, rate) in enumerate(curves.items()):
        _band(axes, rate, f"C{number}", name)
    axes.set(xlabel="round", ylabel="share of rollouts", ylim=(-0.03, 1.03), title=title)
    axes.legend(loc="center right", frameon=False)
    axes.grid(alpha=0.25)
    files.write(file, lambda stream: figure.savefig(stream, format="png", dpi=150))


def _band(axes: Axes, rate: np.ndarray, colour: str, name: str) -> None:
    rounds = np.arange(1, rate.shape[1] + 1)
    least, low, _, high, most = np.quantile(rate, QUANTILES, axis=0)
    marker = "o" if len(rounds) == 1 else None
    axes.plot(rounds, rate.mean(axis=0), color=colour, label=name, marker=marker)
    if len(rate) > 1:
        axes.fill_between(rounds, least, most, color=colour, alpha=0.12, linewidth=0)
        axes.fill_between(rounds, low, high, color=colour, alpha=0.22, linewidth=0)
