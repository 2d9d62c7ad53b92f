"""A row: what is printed, what the library computes, and whether the two agree."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxagent.report import files

MATCH, DIFFERS = "match", "differs"
ROUNDING = 1e-9  # of arithmetic: a float that ends in half a unit may be a little beyond it

Figure = Callable[[], Any]
"""Computes a printed value. Comparing the two is all the judgement it needs."""


class Entry(NamedTuple):
    """What a document says."""

    id: str
    source: str
    what: str
    printed: Any = None  # numbers, strings, booleans, and lists and dicts of them; None: prose
    decimals: int | None = None  # of the printed numbers; None: they are exact


class Finding(NamedTuple):
    """What is true of a sentence."""

    computed: Any  # the evidence
    holds: bool  # the sentence, as stated, beside the printed value if it has one
    reason: str  # one line


Claim = Callable[[], Finding]
"""Judges a sentence that a comparison alone cannot."""


class Row(NamedTuple):
    """The result for one entry."""

    id: str
    source: str
    what: str
    published: Any
    computed: Any
    tolerance: float | None  # half a unit of the last printed decimal; None: exact
    verdict: str
    expected: str
    reason: str


def judged(entry: Entry, finding: Finding, expected: str) -> Row:
    """The row of an entry: it matches if what is printed is computed and what is said holds."""
    computed, tolerance = files.plain(finding.computed), half_a_unit(entry.decimals)
    printed = entry.printed is None or agrees(entry.printed, computed, tolerance)
    verdict = MATCH if printed and finding.holds else DIFFERS
    said = (entry.id, entry.source, entry.what, entry.printed)
    return Row(*said, computed, tolerance, verdict, expected, finding.reason)


def half_a_unit(decimals: int | None) -> float | None:
    """Half a unit of the last printed decimal."""
    return None if decimals is None else 0.5 * 10.0**-decimals


def agrees(printed: Any, computed: Any, tolerance: float | None) -> bool:
    """Whether every printed leaf is the computed one, to `tolerance` where it is a number.

    Lists and dicts agree in shape and keys. Without a tolerance numbers are
    exact, up to the rounding of arithmetic where one of the two is a float. A
    boolean is never a number, and a number that is not finite agrees with none.
    """
    if isinstance(printed, dict) and isinstance(computed, dict):
        return printed.keys() == computed.keys() and all(
            agrees(value, computed[key], tolerance) for key, value in printed.items()
        )
    if isinstance(printed, list) and isinstance(computed, list):
        return len(printed) == len(computed) and all(
            agrees(one, other, tolerance) for one, other in zip(printed, computed, strict=True)
        )
    if _is_number(printed) and _is_number(computed):
        whole = isinstance(printed, int) and isinstance(computed, int)
        return abs(printed - computed) <= (tolerance or 0) + (0 if whole else ROUNDING)
    return type(printed) is type(computed) and printed == computed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
