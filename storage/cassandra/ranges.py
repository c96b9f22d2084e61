"""Ranges of the partitioner's tokens, to read a whole table in parts."""

from __future__ import annotations

from collections.abc import Iterator

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
"""Bounds of the tokens of Murmur3Partitioner."""


def token_ranges(count: int) -> Iterator[tuple[int, int]]:
    """Split the tokens into `count` closed ranges that cover all of them."""
    assert count > 0, count
    width = 2**64 // count
    for number in range(count):
        low = _LOWEST + number * width
        yield low, (_HIGHEST if number == count - 1 else low + width - 1)
