"""Lists of things: as a table, as a wide table, as comma-separated values, or by name."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peloton.cli.colours import BOLD, state_style, styled
from peloton.cli.text import GAP, columns
from peloton.present.texts import clean

_OF_STATES = ("State", "Goal State", "Healthy", "Status", "Availability")
NARROW = 80
"""Columns of a terminal; one with fewer shows the rows of a wider table as blocks."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under their heads. The last `wide` columns are for the wide form only."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    wide: int = 0
    name: int = 0
    """The column that names a row."""

    def names(self) -> str:
        """Return the names, one a line."""
        return "\n".join(clean(row[self.name]) for row in self.rows)

    def csv(self) -> str:
        """Return the rows with all columns as comma-separated values (RFC 4180), without the last newline."""
        text = io.StringIO()
        rows = ([clean(cell) for cell in row] for row in self.rows)
        csv.writer(text, lineterminator="\n").writerows([self.heads, *rows])
        return text.getvalue().removesuffix("\n")

    def render(self, *, wide: bool = False, colours: bool = False, terminal: int = 0) -> str:
        """Return the table: columns aligned, one line a row.

        On a narrow terminal, of `terminal` columns, that it does not fit in, each row is a block of lines,
        one for each cell that is not empty.
        """
        count = len(self.heads) - (0 if wide else self.wide)
        lines = [list(self.heads[:count])] + [[clean(cell) for cell in row[:count]] for row in self.rows]
        widths = [max(columns(line[column]) for line in lines) for column in range(count)]
        if 0 < terminal < NARROW and sum(widths) + len(GAP) * (count - 1) > terminal:
            return self._blocks(lines, colours)
        styles = [""] * count
        shown = []
        for number, line in enumerate(lines):
            if colours:
                styles = [BOLD if number == 0 else self._style(at, cell) for at, cell in enumerate(line)]
            shown.append(_line(line, widths, styles))
        return "\n".join(shown)

    def _blocks(self, lines: Sequence[Sequence[str]], colours: bool) -> str:
        heads = lines[0]
        width = max(map(columns, heads))
        blocks = []
        for line in lines[1:]:
            cells = ((at, *both) for at, both in enumerate(zip(heads, line, strict=True)) if both[1])
            blocks.append(
                "\n".join(
                    f"{head}{' ' * (width - columns(head))}{GAP}"
                    f"{styled(cell, self._style(at, cell) if colours else '')}"
                    for at, head, cell in cells
                )
            )
        return "\n\n".join(blocks)

    def _style(self, column: int, cell: str) -> str:
        return state_style(cell) if self.heads[column] in _OF_STATES else ""

    def __str__(self) -> str:
        return self.render()


def listing(
    heads: Sequence[str], rows: Iterable[Sequence[object]], *, wide: int = 0, name: int = 0
) -> Listing:
    """Return a list of things; see Listing."""
    return Listing(heads, list(rows), wide, name)


def _line(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> str:
    last = len(cells) - 1
    parts = []
    for at, (cell, width, style) in enumerate(zip(cells, widths, styles, strict=True)):
        padding = "" if at == last else " " * (width - columns(cell))
        parts.append(styled(cell, style if cell else "") + padding)
    return GAP.join(parts).rstrip()
