"""Numbers with their nouns, for every text that people read."""

from __future__ import annotations


def plural(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 host`, `2,000 hosts`; `many` where the plural is not `one` and s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
