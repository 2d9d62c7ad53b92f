"""`jaxagent reproduce`: every published figure, computed again and compared."""

from dataclasses import dataclass
from pathlib import Path

from jaxagent.report import files
from jaxagent.reproduce import catalogue, told

AS_EXPECTED, SURPRISED = 0, 1


@dataclass(frozen=True)
class Reproduce:
    """Compute every figure that the two documents print, and judge what they say.

    A row for each: published, computed, verdict. Some claims are known not to
    hold as stated; they are listed with what is true. The exit status is 1 if
    any verdict is not the expected one.
    """

    only: str | None = None
    """Only the entries whose id holds this text, or matches it as a shell pattern."""
    json: Path | None = None
    """Also write the rows as JSON, unabridged."""

    def run(self) -> int:
        """Check, compute and print row by row, write; the exit status."""
        entries = catalogue.selected(self.only)
        if self.json is not None:
            files.require_writable(self.json)
        print(told.HEADER)
        rows = []
        for entry in entries:
            rows.append(catalogue.row(entry))
            print(told.line(rows[-1]), flush=True)
        print(f"\n{told.closing(rows)}")
        ok = not told.unexpected(rows)
        if self.json is not None:
            files.write_json(self.json, {"rows": rows, "ok": ok})
        return AS_EXPECTED if ok else SURPRISED
