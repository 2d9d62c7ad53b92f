"""The numbers of a training run, as options, with the chapter's values."""

import math
from dataclasses import dataclass

from jaxagent import noise


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
        in_range("--rounds", self.rounds, noise.MAX_ROUNDS)
        in_range("--group-size", self.group_size, noise.MAX_ROLLOUTS)
        in_range("--passes", self.passes, 1_000)
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"--lr must be a finite number above 0, got {self.lr}")
        if not self.clip >= 0:
            raise ValueError(f"--clip must be 0 or more, got {self.clip}")


def in_range(option: str, given: int, most: int, least: int = 1) -> None:
    """ValueError unless least <= given <= most."""
    if not least <= given <= most:
        raise ValueError(f"{option} must be in {least}..{most}, got {given}")
