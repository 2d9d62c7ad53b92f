"""`jaxagent figures`: the chapter's figures, computed and drawn."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxagent import imitate, losses, noise, replays, runs, seeds, tables
from jaxagent.gyms import bandit, refund
from jaxagent.noise import within
from jaxagent.precision import exact
from jaxagent.report import diagrams, files, series, summary
from jaxagent.reproduce import bandit as reinforce
from jaxagent.reproduce import training as published
from jaxagent.types import Decision

SCORERS = ("outcome", "guarded")
VIOLATION = "approval bypassed"


@dataclass(frozen=True)
class Figures:
    """Draw the chapter's six figures, each as PNG and as SVG, from what is computed now."""

    out: Path
    """A new or empty folder for the twelve files."""
    num_seeds: int = 256
    """Runs of each scorer behind the bands of the training figure."""

    def run(self) -> int:
        """Check, compute everything, draw; the exit status."""
        within("--num-seeds", self.num_seeds, 2**24)
        files.require_empty(self.out)
        trained = {name: training(name, self.num_seeds) for name in SCORERS}
        pulled, fenced, rated = pulls(), surrogate(), rates()
        desk = diagrams.state_machine(machine(), diagrams.REFUND)

        from jaxagent.report import figures  # matplotlib is slow to import: only where it draws

        pictures = {
            "1-bandit": (partial(figures.pulls, pulled), (7, 4)),
            "2-surrogate": (partial(figures.surrogate, fenced), (7, 4)),
            "3-state-machine": (partial(figures.diagram, desk), (11, 4.6)),
            "4-training": (partial(figures.training, trained), (11, 4.5)),
            "5-throughput": (partial(figures.rates, rated), (7, 4)),
            "6-flywheel": (partial(figures.diagram, diagrams.flywheel()), (11, 4.2)),
        }

        def fill(folder: Path) -> None:
            for name, (draw, size) in pictures.items():
                figures.save(folder / name, draw, size)

        files.write_folder(self.out, fill)
        for name in pictures:
            print(f"wrote {self.out / name}.png and .svg")
        return 0


def pulls() -> series.Pulls:
    """The published run of REINFORCE on the bandit (Chapter section 23.1), draw for draw."""
    arms, pays = list(bandit.PAYS), np.array(list(bandit.PAYS.values()))
    probability, best = reinforce.learned()[0], pays.argmax()
    return series.Pulls(arms[best], probability[:, best], probability @ pays, float(pays[best]))


def surrogate(clip: float = 0.2, most: float = 2.0, points: int = 401) -> series.Surrogate:
    """What `losses.clipped_surrogate` says for ratios in [0, most] and advantages +1 and -1."""
    ratio = np.linspace(0, most, points)
    value = {advantage: _surrogate(ratio, advantage, clip) for advantage in (1.0, -1.0)}
    return series.Surrogate(ratio, value, clip)


@exact
@jax.jit
def _surrogate(ratio, advantage, clip):
    """The loss turned round, of an action that has probability 1/2 and had 1/2 / ratio."""
    logits, one = jnp.zeros(2), jnp.ones(())

    def at(rho: Float[Array, ""]):
        recorded = -jnp.log(2) - jnp.log(rho)
        row = Decision(jnp.int32(0), jnp.int32(0), recorded, one * advantage, one, jnp.bool_(True))
        return -losses.clipped_surrogate(clip)(logits, row)

    return jax.vmap(at)(ratio)


def machine() -> diagrams.Machine:
    """The refund desk's, with the demonstrations of its expert."""
    desk, horizon = refund.gym(), refund.HORIZON
    table = tables.tabulate(desk, refund.TRAIN, horizon)
    shown = imitate.demonstrations(desk, refund.expert, refund.TAUGHT.task, horizon)
    return diagrams.machine(table, shown)


def training(scorer: str, num_seeds: int) -> series.Training:
    """The chapter's run (sections 23.6, 23.7) over seeds, and the published one of seed 7."""
    problem, setting = refund.problem(), replays.Setting(scorer=scorer)
    method = replays.method(scorer, setting.lr, setting.clip, setting.passes)
    learner, lanes = replays.start(setting.lr), min(seeds.LANES, num_seeds)

    def one(run) -> seeds.Outcome:
        stream = noise.rounds(0, run, setting.rounds)
        return seeds.kept(runs.train(problem, method, learner, stream, setting.group_size))

    program, blocks = seeds.compiled(one, lanes), seeds.blocks(num_seeds, lanes)
    rates = summary.curves(problem, setting.group_size, seeds.collected(program, blocks, num_seeds))
    run = published.run(scorer)
    return series.Training(
        rate={"success": rates["success"], VIOLATION: rates["approval_bypassed"]},
        published={"success": np.array(run["success"]), VIOLATION: np.array(run["violation"])},
    )


def rates(most: int = 128) -> series.Rates:
    """The declared model of the published guarded run (Chapter section 23.8), for 1..most."""
    environments = np.arange(1, most + 1)
    rate = published.rate(environments)
    return series.Rates(environments, rate, published.ceiling())
