"""`jaxagent train`: one setting, many seeds at once, with intervals over the seeds."""

import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track

from jaxagent import choices, learn, noise, policies, runs, seeds
from jaxagent.cli.settings import Settings
from jaxagent.noise import within
from jaxagent.report import files, summary
from jaxagent.types import Problem


@dataclass(frozen=True)
class Train(Settings):
    """Train a tabular policy, all seeds vmapped; then print what the seeds say together."""

    gym: choices.GymName = "refund"
    """Where to act."""
    scorer: choices.ScorerName | None = None
    """What a trajectory earns. If not given: guarded for refund, payoff for bandit and search."""
    num_seeds: int = 64
    """Runs, each with its own draws."""
    seed: int = 0
    """The seed word that all runs share."""
    batch_size: Literal["all"] | int = 1
    """Decisions per optimiser step; 1 is the chapter's sequential update."""
    optimizer: choices.OptimizerName = "sgd"
    """The optimiser."""
    estimator: choices.EstimatorName = "anchor"
    """The advantage estimator."""
    start: Annotated[choices.StartName | None, tyro.conf.arg(name="from")] = None
    """The first policy. If not given: cloned where the gym has demonstrations, else uniform."""
    out: Path | None = None
    """A new or empty folder for summary.json, history.npz and history.png."""

    def run(self) -> int:
        """Check, train, print, write; the exit status."""
        problem = choices.GYMS[self.gym]()
        setting = in_force(self, problem)
        if self.out is not None:
            files.require_empty(self.out)
        program = compiled(setting, problem)

        began = time.perf_counter()
        todo = seeds.blocks(self.num_seeds, _lanes(setting))
        results = seeds.collected(program, _progress(todo), self.num_seeds)
        seconds = time.perf_counter() - began

        said = summary.summarised(setting, problem, results)
        if self.out is not None:  # before any print: a reader may go away
            files.write_folder(self.out, partial(fill, said, problem, results))
        print(summary.told(said))
        each = f"{seconds / self.num_seeds * 1e6:,.0f} microseconds each"
        print(f"{self.num_seeds:,} runs in {seconds:.2f} s, {each}, compilation excluded")
        if self.out is not None:
            print(f"wrote summary.json, history.npz and history.png to {self.out}")
        return 0


def in_force(options: Train, problem: Problem) -> dict[str, Any]:
    """Every setting with its default resolved. ValueError for the first bad one."""
    options.checked()
    tiny, largest = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    if not tiny <= options.lr <= largest:
        raise ValueError(f"--lr must be in {tiny:.3g}..{largest:.3g} in float32, got {options.lr}")
    within("--num-seeds", options.num_seeds, 2**24)
    within("--seed", options.seed, 2**32 - 1, least=0)
    if options.batch_size != "all":
        within("--batch-size", options.batch_size, 2**31 - 1)
    setting = {
        **asdict(options),
        "scorer": choices.scorer_name(problem, options.gym, options.scorer),
        "from": choices.start_name(problem, options.gym, options.start),
    }
    return {name: value for name, value in setting.items() if name not in ("start", "out")}


def compiled(setting: dict[str, Any], problem: Problem) -> seeds.Block:
    """The program for a setting: names become parts here."""
    policy = policies.tabular(problem.gym.spec)
    optimizer = choices.OPTIMIZERS[setting["optimizer"]](setting["lr"])
    batch_size = None if setting["batch_size"] == "all" else setting["batch_size"]
    method = runs.Method(
        policy,
        choices.scorers_of(problem)[setting["scorer"]],
        choices.ESTIMATORS[setting["estimator"]](problem.gym.spec),
        runs.clipped_update(
            policy, optimizer, setting["clip"], passes=setting["passes"], batch_size=batch_size
        ),
    )
    params = runs.cloned(problem, policy) if setting["from"] == "cloned" else policy.init()
    learner = learn.start(params, optimizer)

    def one(run) -> seeds.Outcome:
        stream = noise.rounds(setting["seed"], run, setting["rounds"])
        return seeds.kept(runs.train(problem, method, learner, stream, setting["group_size"]))

    return seeds.compiled(one, _lanes(setting))


def _lanes(setting: dict[str, Any]) -> int:
    return min(seeds.LANES, setting["num_seeds"])


def _progress(blocks: list[np.ndarray]) -> Iterable[np.ndarray]:
    quiet = sys.stderr is None or not sys.stderr.isatty()
    return track(blocks, "training", console=Console(stderr=True), disable=quiet)


def fill(said: dict[str, Any], problem: Problem, results: seeds.Outcome, folder: Path) -> None:
    """Write summary.json, history.npz and history.png into `folder`."""
    from jaxagent.report import figures  # matplotlib is slow to import: only where it draws

    setting = said["settings"]
    title = "{gym}, {scorer}: {num_seeds:,} seeds; mean, 50% and 90% bands".format(**setting)
    rates = summary.curves(problem, setting["group_size"], results)
    files.write_arrays(folder / "history.npz", summary.arrays(results))
    figures.contract(folder / "history.png", rates, title)
    files.write_json(folder / "summary.json", said)
