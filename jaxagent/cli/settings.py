"""The numbers of a training run, as options, with the chapter's values."""

import math
from dataclasses import dataclass

from jaxagent.noise import MAX_ROLLOUTS, MAX_ROUNDS, within


@dataclass(frozen=True)
class Settings:
    rounds: int = 30
    """Rounds of collecting and updating."""
    group_size: int = 8
    """Rollouts per task and round."""
    lr: float = 0.04
    """Learning rate, > 0."""
    clip: float = 0.2
    """Half-width of the ratio's band, >= 0; inf does not clip."""
    passes: int = 2
    """Passes over each round's batch."""

    def checked(self) -> None:
        """ValueError for the first number out of its range."""
        within("--rounds", self.rounds, MAX_ROUNDS)
        within("--group-size", self.group_size, MAX_ROLLOUTS)
        within("--passes", self.passes, 1_000)
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"--lr must be a finite number above 0, got {self.lr}")
        if not self.clip >= 0:
            raise ValueError(f"--clip must be 0 or more, got {self.clip}")
