"""Pictures, drawn without a display."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from jaxagent.report import files, series
from jaxagent.report.diagrams import Arrow, Diagram, Point

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

# Okabe and Ito's colours: told apart whatever one's colour vision.
BLUE, RED, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
GREY, INK = "#777777", "#222222"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "svg.hashsalt": "jaxagent",  # the same picture has the same bytes
}

METADATA: dict[str, dict[str, Any]] = {".png": {"Software": None}, ".svg": {"Date": None}}


def save(stem: Path, draw: Callable[[Figure], None], size: Point = (7, 4)) -> None:
    """The picture that `draw` puts on an empty figure, as stem.png and stem.svg."""
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        for suffix in METADATA:
            _write(stem.with_name(stem.name + suffix), figure)


def _write(file: Path, figure: Figure) -> None:
    kind, metadata = file.suffix, METADATA[file.suffix]
    put = lambda stream: figure.savefig(stream, format=kind[1:], dpi=150, metadata=metadata)
    files.write(file, put)


# Curves


def contract(file: Path, curves: dict[str, np.ndarray], title: str) -> None:
    """Rates [seeds rounds] against the round: mean, and bands that hold 50% and 90% of seeds."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for (name, rate), colour in zip(curves.items(), cycle((BLUE, RED, GREEN)), strict=False):
            _band(axes, rate, colour, name)
        axes.set(xlabel="round", ylabel="share of rollouts", ylim=(-0.03, 1.03), title=title)
        axes.legend(loc="center right")
        _write(file, figure)


def _band(axes: Axes, rate: np.ndarray, colour: str, name: str) -> None:
    rounds = np.arange(1, rate.shape[1] + 1)
    least, low, _, high, most = np.quantile(rate, QUANTILES, axis=0)
    marker = "o" if len(rounds) == 1 else None
    axes.plot(rounds, rate.mean(axis=0), color=colour, label=name, marker=marker)
    if len(rate) > 1:
        axes.fill_between(rounds, least, most, color=colour, alpha=0.12, linewidth=0)
        axes.fill_between(rounds, low, high, color=colour, alpha=0.22, linewidth=0)


def pulls(run: series.Pulls, figure: Figure) -> None:
    """The best arm's probability and the expected pay, each under its ceiling."""
    axes = figure.subplots()
    updates = np.arange(1, len(run.probability) + 1)
    curves = (
        (run.probability, 1.0, BLUE, f"p({run.best_arm})"),
        (run.expected, run.best_pay, RED, "expected pay"),
    )
    for curve, best, colour, name in curves:
        axes.plot(updates, curve, color=colour, label=f"{name}, {curve[-1]:.3f} at the end")
        axes.axhline(best, color=colour, linestyle="--", linewidth=1.2, label=f"the best, {best:g}")
    axes.set(xlabel="update", ylabel="probability, pay", ylim=(0, 1.04), xlim=(0, len(updates)))
    axes.set_title("REINFORCE, one sample a step, on the published run's draws")
    axes.legend(loc="lower right")


def surrogate(curves: series.Surrogate, figure: Figure) -> None:
    """min(rho A, clip(rho) A) against rho; dotted where it would go without the fence."""
    axes = figure.subplots()
    for (advantage, value), colour in zip(curves.value.items(), (BLUE, RED), strict=True):
        free = curves.ratio * advantage
        axes.plot(curves.ratio, value, color=colour, label=f"A = {advantage:+g}")
        axes.plot(curves.ratio, free, color=colour, linestyle=":", label="without the fence")
        axes.plot(1, advantage, "o", color=colour, markersize=5)
    for fence in (1 - curves.clip, 1 + curves.clip):
        axes.axvline(fence, color=GREY, linestyle="--", linewidth=1.2)
        axes.annotate(f"{fence:g}", (fence, 0), (4, 4), textcoords="offset points", color=GREY)
    axes.set(xlabel="ratio of the new probability to the recorded one", ylabel="clipped surrogate")
    axes.set(xlim=(curves.ratio[0], curves.ratio[-1]), ylim=(-2.05, 2.05))
    axes.set_title("Past its fence the surrogate is flat: no gradient pushes further")
    axes.legend(loc="upper left")


def training(runs: dict[str, series.Training], figure: Figure) -> None:
    """A panel for each rate; bands hold 50% and 90% of seeds, dots are the published run."""
    panels = list(next(iter(runs.values())).rate)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for (scorer, run), colour in zip(runs.items(), (RED, BLUE), strict=True):
            rate, one = run.rate[panel], run.published[panel]
            _band(axes, rate, colour, f"{scorer}, mean of {len(rate):,} seeds")
            dots = {"color": colour, "marker": "o", "markersize": 3, "linewidth": 0.6}
            axes.plot(np.arange(1, len(one) + 1), one, label=f"{scorer}, published run", **dots)
        axes.set(xlabel="round", ylabel="share of rollouts", title=panel)
        axes.legend(fontsize=9)
    figure.suptitle("Sampled rollouts; bands hold 50% and 90% of seeds", fontsize=11)


def rates(curve: series.Rates, figure: Figure) -> None:
    """Rate against environments on a logarithmic axis, under its ceiling."""
    axes = figure.subplots()
    axes.plot(curve.environments, curve.rate, color=BLUE)
    ticks = 2 ** np.arange(np.log2(curve.environments[-1]) + 1).astype(int)
    marked = np.isin(curve.environments, ticks)
    axes.plot(curve.environments[marked], curve.rate[marked], "o", color=BLUE, markersize=5)
    for number, rate in zip(curve.environments[marked], curve.rate[marked], strict=True):
        axes.annotate(f"{rate:.1f}", (number, rate), (4, -12), textcoords="offset points")
    axes.axhline(curve.ceiling, color=RED, linestyle="--", linewidth=1.2)
    said = f"sampling and updates alone: {curve.ceiling:.1f}"
    axes.annotate(said, (1, curve.ceiling), (0, 4), textcoords="offset points", color=RED)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.set(xlabel="environments", ylabel="completed valid transitions per second")
    axes.set(xlim=(0.85, 1.4 * curve.environments[-1]), ylim=(0, 1.12 * curve.ceiling))
    axes.set_title("More environments, at the declared latencies")


# Diagrams

BOXES: dict[str, dict[str, Any]] = {
    "plain": {"facecolor": "white", "edgecolor": INK, "linewidth": 1.2},
    "gate": {"facecolor": "#FFF3D6", "edgecolor": ORANGE, "linewidth": 2.4},
}
ARROWS: dict[str, dict[str, Any]] = {
    "demonstrated": {"color": INK, "linewidth": 1.8},
    "plain": {"color": GREY, "linewidth": 1.2},
    "violating": {"color": RED, "linewidth": 3.2},
    "back": {"color": RED, "linewidth": 1.8, "linestyle": (0, (4, 2))},
}
MARGIN = 0.3  # between boxes and their frame
LOOP = 0.3, 1.5  # half the width of a box's arrow to itself, and its bend


def diagram(drawn: Diagram, figure: Figure) -> None:
    """Frame, boxes, arrows, note and legend of a diagram."""
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.02)
    _frame(axes, drawn)
    patches = {}
    for name, box in drawn.boxes.items():
        patches[name] = _rounded(axes, box.at, drawn.size, zorder=3, **BOXES[box.style])
        axes.text(box.at[0], box.at[1], box.text, ha="center", va="center", zorder=4)
    for arrow in drawn.arrows:
        _arrow(axes, drawn, arrow, patches)
    x, y = drawn.note_at
    axes.text(x, y, drawn.note, ha="left", va="center", color=GREY)
    boxes = [Patch(label=text, **BOXES[style]) for style, text in drawn.box_legend.items()]
    arrows = [
        Line2D([], [], label=text, **ARROWS[style]) for style, text in drawn.arrow_legend.items()
    ]
    axes.legend(handles=boxes + arrows, loc="lower right", borderpad=0, borderaxespad=0)
    axes.update_datalim([(x, y - MARGIN)])
    axes.autoscale_view()


def _frame(axes: Axes, drawn: Diagram) -> None:
    """A dashed frame around the framed boxes, with its words above it."""
    x, y = zip(*(drawn.boxes[name].at for name in drawn.framed), strict=True)
    left, top = min(x) - drawn.size[0] / 2 - MARGIN, max(y) + drawn.size[1] / 2 + MARGIN
    centre = (min(x) + max(x)) / 2, (min(y) + max(y)) / 2
    size = 2 * (centre[0] - left), 2 * (top - centre[1])
    look = {"facecolor": "none", "edgecolor": GREY, "linestyle": (0, (4, 3)), "zorder": 1}
    _rounded(axes, centre, size, **look)
    axes.text(left + 0.1, top + 0.07, drawn.frame, ha="left", va="bottom", color=GREY)


def _rounded(axes: Axes, centre: Point, size: Point, **look: Any) -> FancyBboxPatch:
    """A box with round corners, added to the axes."""
    (x, y), (width, height) = centre, size
    corner, style = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.12"
    shape = FancyBboxPatch(corner, width, height, boxstyle=style, **look)
    axes.add_patch(shape)
    return shape


def _arrow(axes: Axes, drawn: Diagram, arrow: Arrow, patches: dict[str, FancyBboxPatch]) -> None:
    """An arrow between the edges of its boxes, or over the top of its only one."""
    look = {"arrowstyle": "-|>", "mutation_scale": 13, "zorder": 2, **ARROWS[arrow.style]}
    (x, y), (to_x, to_y) = drawn.boxes[arrow.start].at, drawn.boxes[arrow.end].at
    if arrow.start == arrow.end:
        (reach, bend), top = LOOP, y + drawn.size[1] / 2
        tips = (x + reach, top), (x - reach, top)
        look["connectionstyle"] = f"arc3,rad={bend}"
        place, low = (x, top + 1.5 * reach * bend), "bottom"
    else:
        tips = (x, y), (to_x, to_y)
        look |= {"patchA": patches[arrow.start], "patchB": patches[arrow.end]}
        place, low = (x + arrow.where * (to_x - x), y + arrow.where * (to_y - y)), "center"
    axes.add_patch(FancyArrowPatch(*tips, **look))
    words = {"color": look["color"], "fontsize": 9, "ha": "center", "va": low, "zorder": 2.5}
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    axes.text(place[0], place[1], arrow.label, bbox=behind, **words)
