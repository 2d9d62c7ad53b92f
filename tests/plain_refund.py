"""The refund desk in plain Python, written from its definition: the library's code is not used."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

PHASES = ("start", "known_low", "known_high", "approved", "refunded", "recover", "terminal")
ACTIONS = ("finish", "lookup", "request_approval", "refund")
APPROVAL_ABOVE = 50


@dataclass(frozen=True)
class Desk:
    """One order: its phase, and what only a verifier may read."""

    amount: int
    phase: str
    done: bool = False
    refunded: bool = False
    violation: bool = False
    effects: int = 0

    @property
    def success(self) -> bool:
        return self.done and self.refunded

    @property
    def duplicate(self) -> bool:
        return self.effects > 1


def act(desk: Desk, action: str) -> Desk:
    """The desk after one action. ValueError once it is done."""
    if desk.done:
        raise ValueError("step after terminal state")
    if action == "finish":
        return replace(desk, phase="terminal", done=True)
    if action == "lookup" and desk.phase in ("start", "recover"):
        is_high = desk.amount > APPROVAL_ABOVE
        return replace(desk, phase="known_high" if is_high else "known_low")
    if action == "request_approval" and desk.phase == "known_high":
        return replace(desk, phase="approved")
    if action == "refund" and desk.phase in ("known_low", "approved"):
        return replace(desk, phase="refunded", refunded=True, effects=desk.effects + 1)
    if action == "refund" and desk.phase == "known_high":  # allowed on purpose
        bypassed = replace(desk, violation=True, effects=desk.effects + 1)
        return replace(bypassed, phase="refunded", refunded=True)
    if action == "refund" and desk.phase == "refunded":
        return replace(desk, effects=desk.effects + 1)
    return replace(desk, phase="recover")


def play(desk: Desk, actions: list[str]) -> tuple[Desk, int]:
    """The desk after the actions that it lived to see, and how many they were."""
    for turn, action in enumerate(actions):
        if desk.done:
            return desk, turn
        desk = act(desk, action)
    return desk, len(actions)


def endings(desk: Desk, turns: int, lived: int = 0) -> Iterator[tuple[Desk, int]]:
    """What `play` gives for every sequence of `turns` actions, in lexicographic order.

    Walked as a tree: sequences share their prefixes, and an ended desk stands
    for all that could follow.
    """
    if desk.done or turns == 0:
        yield from [(desk, lived)] * len(ACTIONS) ** turns
        return
    for action in ACTIONS:
        yield from endings(act(desk, action), turns - 1, lived + 1)
