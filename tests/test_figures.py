"""The figures show what was computed, say it without overlaps, and are written whole."""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple
from xml.etree import ElementTree

import jax
import numpy as np
import plain_refund
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from jaxagent import imitate, noise, policies, runs, tables
from jaxagent.cli import figures as command
from jaxagent.cli import main
from jaxagent.gyms import refund
from jaxagent.report import diagrams, figures
from jaxagent.rollout import collector

NAMES = ("1-bandit", "2-surrogate", "3-state-machine", "4-training", "5-throughput", "6-flywheel")
NUM_SEEDS = 3
PHASES, ACTIONS, STARTS = plain_refund.PHASES, plain_refund.ACTIONS, ("start", "recover")


def call(line):
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    return stop.value.code or 0


class Drawn(NamedTuple):
    """A picture as the command drew it."""

    draw: Callable[[Figure], None]
    size: tuple[float, float]

    @property
    def data(self) -> Any:
        return self.draw.args[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder that the command filled, and what it handed to be drawn, by name."""
    folder, drawn, save = tmp_path_factory.mktemp("figures") / "new", {}, figures.save

    def recorded(stem, draw, size):
        drawn[stem.name] = Drawn(draw, size)
        save(stem, draw, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save", recorded)
        assert call(f"figures --num-seeds {NUM_SEEDS} --out {folder}") == 0
    return folder, drawn


# The files


def test_twelve_files_are_written_and_each_can_be_read(run):
    folder, _ = run
    files = {f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")}
    assert {file.name for file in folder.iterdir()} == files
    for name in NAMES:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        root = ElementTree.parse(folder / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(list(root.iter())) > 50


def test_the_same_picture_has_the_same_bytes(run, tmp_path):
    folder, drawn = run
    for name in ("5-throughput", "6-flywheel"):
        figures.save(tmp_path / name, *drawn[name])
        for suffix in (".png", ".svg"):
            again = (tmp_path / name).with_suffix(suffix)
            assert again.read_bytes() == (folder / again.name).read_bytes()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("figures --out {folder}", "must be a new or an empty folder"),
        ("figures --out {folder}/new --num-seeds 0", "--num-seeds must"),
        ("figures --out {folder}/mine.txt", "is not a folder"),
        ("figures", "--out"),
    ],
)
def test_bad_input_is_refused_before_any_work(capsys, tmp_path, line, told):
    (tmp_path / "mine.txt").write_text("mine")
    assert call(line.format(folder=tmp_path)) == 2
    said = capsys.readouterr()
    last = said.err.splitlines()[-1]
    assert last.startswith("jaxagent: error: ") and told in last and said.out == ""
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


# The pages


def page(drawn: Drawn) -> tuple[Figure, Any]:
    """The picture, laid out, and its renderer."""
    with rc_context(figures.STYLE):
        figure = Figure(figsize=drawn.size, layout="constrained")
        drawn.draw(figure)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    return figure, canvas.get_renderer()


def texts(figure: Figure, renderer: Any) -> dict[str, Any]:
    """The extent of every text on the page, numbered, since two may say the same."""
    beyond = {
        label
        for axes in figure.axes
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for label, place in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
        if not axes.axison or not low <= place <= high
    }
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    return {
        f"{number} {text.get_text()}": Text.get_window_extent(text, renderer)
        for number, text in enumerate(shown)
        if text not in beyond
    }


@pytest.mark.parametrize("name", NAMES)
def test_no_text_lies_over_another_or_beyond_the_page(run, name):
    figure, renderer = page(run[1][name])
    extents = texts(figure, renderer)
    assert len(extents) > 5
    for label, extent in extents.items():
        inside = (
            figure.bbox.contains(extent.x0, extent.y0),
            figure.bbox.contains(extent.x1, extent.y1),
        )
        assert all(inside), f"{label!r} leaves the page"
    for (label, one), (other, two) in combinations(extents.items(), 2):
        assert not one.overlaps(two), f"{label!r} lies over {other!r}"


@pytest.mark.parametrize("name", ["3-state-machine", "6-flywheel"])
def test_a_text_is_in_a_box_or_out_of_it(run, name):
    figure, renderer = page(run[1][name])
    boxes = [box.get_window_extent(renderer)
             for axes in figure.axes for box in axes.findobj(FancyBboxPatch)
             if box.axes is not None and box in axes.patches]  # fmt: skip
    assert len(boxes) == len(run[1][name].data.boxes) + 1
    for label, text in texts(figure, renderer).items():
        for box in boxes:
            within = (
                box.x0 <= text.x0 and text.x1 <= box.x1 and box.y0 <= text.y0 and text.y1 <= box.y1
            )
            assert within or not box.overlaps(text), f"{label!r} crosses an edge"


# The curves


def test_the_first_curve_is_the_published_run(run, golden):
    curve, data = run[1]["1-bandit"].data, golden("bandit")
    published = data["reinforce_400_steps_lr_0.3_mt19937_seed_1"]
    assert curve.best_arm == "cite" and curve.best_pay == max(data["rewards"])
    np.testing.assert_allclose(curve.probability, published["p_cite_after_each_update"], atol=1e-9)
    assert curve.expected[-1] == pytest.approx(published["final_expected_return"], abs=1e-9)
    assert len(curve.expected) == 400 and (curve.expected < curve.best_pay).all()


def test_the_surrogate_is_the_lesser_of_the_free_and_the_fenced(run):
    curves = run[1]["2-surrogate"].data
    assert set(curves.value) == {1.0, -1.0} and curves.clip == 0.2
    assert (curves.ratio[0], curves.ratio[-1]) == (0, 2)
    for advantage, value in curves.value.items():
        free = curves.ratio * advantage
        fenced = np.clip(curves.ratio, 0.8, 1.2) * advantage
        np.testing.assert_allclose(value, np.minimum(free, fenced), atol=1e-12)


def test_the_published_training_run_is_on_top(run, golden):
    panels = {"success": "success", "approval bypassed": "violation"}
    for scorer in ("outcome", "guarded"):
        entry = next(e for e in golden("training")[scorer] if e["mt19937_seed"] == 7)
        curves = run[1]["4-training"].data[scorer]
        for panel, name in panels.items():
            assert curves.published[panel].tolist() == entry[name]


def test_the_bands_begin_with_what_the_cloned_policy_does(run):
    """Both scorers, since a run's draws do not depend on its scorer."""
    problem = refund.problem()
    policy = policies.tabular(problem.gym.spec)
    collect = collector(problem.gym, policy, refund.TRAIN.task, group_size=8, horizon=7)

    @jax.jit
    @jax.vmap
    def first_round(index):
        stream = jax.tree.map(lambda leaf: leaf[0], noise.rounds(0, index, 1))
        verdict = collect(stream, runs.cloned(problem, policy)).verdict
        return verdict.success[..., -1].mean(), verdict.violations[..., -1, 0].mean()

    expected = first_round(np.arange(NUM_SEEDS))
    for curves in run[1]["4-training"].data.values():
        assert list(curves.rate) == ["success", "approval bypassed"]
        for rate, first in zip(curves.rate.values(), expected, strict=True):
            assert rate.shape == (NUM_SEEDS, 30)
            np.testing.assert_allclose(rate[:, 0], first, atol=1e-6)


def test_the_rates_are_the_published_ones(run, golden):
    curve, data = run[1]["5-throughput"].data, golden("throughput")
    assert curve.environments.tolist() == list(range(1, 129))
    assert curve.ceiling == pytest.approx(data["ceiling"])
    for number, rate in data["transitions_per_second"].items():
        assert curve.rate[int(number) - 1] == pytest.approx(rate)


# The state machine


@pytest.fixture(scope="module")
def machine():
    return command.machine()


def desks(turns: int = 4) -> list[plain_refund.Desk]:
    """Desks that some turns of the plain program lead to from where a task may begin."""
    begun = [plain_refund.Desk(amount, start) for amount in (20, 80) for start in STARTS]
    found = set(begun)
    for _ in range(turns):
        steps = [(desk, action) for desk in found if not desk.done for action in ACTIONS]
        found |= {plain_refund.act(*step) for step in steps}
    return [desk for desk in found if not desk.done]


def test_the_edges_are_those_of_the_plain_desk(machine):
    expected = {
        (desk.phase, action, plain_refund.act(desk, action).phase)
        for desk in desks()
        for action in ACTIONS
    }
    edges = machine.edges
    assert {edge[:3] for edge in edges} == expected and len(edges) == len(expected)


def test_the_violating_edges_are_those_that_always_break_a_rule_on_the_plain_desk(machine):
    flags = {"approval_bypassed": lambda desk: desk.violation,
             "duplicate_effect": lambda desk: desk.duplicate}  # fmt: skip
    for edge in machine.edges:
        steps = [(desk, plain_refund.act(desk, edge.action))
                 for desk in desks() if desk.phase == edge.source]  # fmt: skip
        always = tuple(
            kind
            for kind, flag in flags.items()
            if (fresh := [after for desk, after in steps if not flag(desk)])
            and all(flag(after) for after in fresh)
        )
        assert edge.violations == always, edge
    violating = {edge[:3] for edge in machine.edges if edge.violations}
    assert ("known_high", "refund", "refunded") in violating and len(violating) == 2


def test_the_violating_edge_is_found_under_any_name():
    plain = refund.gym()
    spec = plain.spec
    renamed = plain._replace(spec=type(spec)(
        tuple(f"o{n}" for n in range(7)), tuple(f"a{n}" for n in range(4)), ("v0", "v1")
    ))  # fmt: skip
    table = tables.tabulate(renamed, refund.TRAIN, refund.HORIZON)
    shown = imitate.demonstrations(renamed, refund.expert, refund.TAUGHT.task, refund.HORIZON)
    machine = diagrams.machine(table, shown)
    bad = diagrams.Edge("o2", "a3", "o4", violations=("v0",))
    assert [edge for edge in machine.edges if "v0" in edge.violations] == [bad]
    assert machine.catch_all == "o5" and diagrams.leads_everywhere(machine) == {"a0": "o6"}


def test_demonstrations_go_everywhere_but_to_recover(machine):
    assert set(machine.visited) == set(PHASES) - {"recover"}
    paths = [
        ("start", "lookup", "known_low"),
        ("known_low", "refund", "refunded"),
        ("start", "lookup", "known_high"),
        ("known_high", "request_approval", "approved"),
        ("approved", "refund", "refunded"),
        ("refunded", "finish", "terminal"),
    ]
    assert {edge[:3] for edge in machine.edges if edge.demonstrated} == set(paths)


def test_every_edge_is_drawn_or_told(run, machine):
    drawn = run[1]["3-state-machine"].data
    shown = {(arrow.start, arrow.label.splitlines()[0], arrow.end) for arrow in drawn.arrows}
    caught = {edge[:3] for edge in machine.edges if edge.target == "recover"}
    finishing = {edge[:3] for edge in machine.edges if edge.action == "finish"}
    assert shown | caught | finishing == {edge[:3] for edge in machine.edges}
    assert not shown & caught and f"{len(caught)} pairs" in drawn.note
    assert "finish leads to terminal from everywhere" in drawn.note
    bold = {(arrow.start, arrow.end) for arrow in drawn.arrows if arrow.style == "violating"}
    assert bold == {("known_high", "refunded"), ("refunded", "refunded")}
    assert set(drawn.boxes) == set(PHASES)


def test_the_frame_holds_what_it_names_and_no_other_box(run):
    for name in ("3-state-machine", "6-flywheel"):
        drawn = run[1][name].data
        at = np.array([drawn.boxes[box].at for box in drawn.framed])
        low, high = at.min(axis=0), at.max(axis=0)
        inside = {name for name, box in drawn.boxes.items()
                  if (low <= box.at).all() and (box.at <= high).all()}  # fmt: skip
        assert inside == set(drawn.framed)


# The flywheel


def test_the_flywheel_turns_once_around_and_has_one_way_back():
    wheel = diagrams.flywheel()
    follows = {arrow.start: arrow.end for arrow in wheel.arrows if arrow.style != "back"}
    box, seen = "traces", []
    while box not in seen:
        seen.append(box)
        box = follows[box]
    assert box == "traces" and seen == list(wheel.boxes)
    (back,) = (arrow for arrow in wheel.arrows if arrow.style == "back")
    assert (back.start, back.end) == ("evaluation", "curation") and "fixture" in back.label
    gates = [name for name, box in wheel.boxes.items() if box.style == "gate"]
    assert gates == ["curation", "scoring", "evaluation"]


def test_a_band_of_one_seed_and_a_single_round_can_be_drawn(tmp_path):
    figures.contract(tmp_path / "a.png", {"success": np.ones((1, 1))}, "one")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
