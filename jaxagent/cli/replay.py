"""`jaxagent replay`: the published procedure, draw for draw, in float64."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from jaxagent import replays, runs
from jaxagent.cli.settings import Settings
from jaxagent.gyms import refund
from jaxagent.noise import within
from jaxagent.report import files, tables

MAX_SEED = 2**63 - 1
MAX_DRAWS = 2**28


@dataclass(frozen=True)
class Replay(Settings):
    """Replay the chapter's training run (sections 23.6 and 23.7) from the cloned policy.

    The uniforms are those of Python's random.Random(SEED), consumed in the
    chapter's order: the published counts, curves and logits come out.
    """

    seed: int = 7
    """Seed of the Mersenne Twister."""
    scorer: Literal["outcome", "guarded"] = "guarded"
    """What a trajectory earns, and whether it may teach."""
    json: Path | None = None
    """Also write the run as JSON, in the form of the published data."""

    def run(self) -> int:
        """Check, replay, print; the exit status."""
        self.checked()
        within("--seed", self.seed, MAX_SEED, least=0)
        if self.json is not None:
            files.require_writable(self.json)
        draws = self.rounds * runs.per_round(refund.problem(), self.group_size)
        within("--rounds x --group-size x 28", draws, MAX_DRAWS)
        entry = replayed(self)
        if self.json is not None:  # before any print: a reader may go away
            files.write_json(self.json, entry)
        print(tables.curve(entry["success"], entry["violation"]))
        print(tables.held_out(entry["eval"]))
        print(tables.totals(entry["clipped"], entry["totals"]))
        if self.json is not None:
            print(f"wrote {self.json}")
        return 0


def replayed(options: Replay) -> dict[str, Any]:
    """The run as an entry of the published data."""
    numbers = asdict(options)
    del numbers["json"]
    return replays.replayed(replays.Setting(**numbers))
