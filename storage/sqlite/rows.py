"""Many rows in few statements.

sqlite3 releases the interpreter's lock at each step of a statement and has to acquire it again, which takes
up to 5 ms while the event loop is busy. So 250 rows are inserted by one statement, and read joined into one
text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

_ROWS = 250


def insert(db: sqlite3.Connection, head: str, width: int, values: Sequence[object]) -> None:
    """Run `head VALUES (…), (…)`; `values` are the rows of `width` values one after the other."""
    assert len(values) % width == 0, f"{len(values)} values are no rows of {width}"
    step = _ROWS * width
    for start in range(0, len(values), step):
        part = values[start : start + step]
        db.execute(f"{head} VALUES {_places(len(part) // width, width)}", part)


def _places(rows: int, width: int) -> str:
    row = f"({','.join('?' * width)})"
    return ",".join([row] * rows)
