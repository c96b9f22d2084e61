"""Measures of many subjects over time, as the store keeps them: blocks of samples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryBlock:
    """Samples of some subjects in a span of time.

    `scope` says of what, `step` are the seconds between two samples, `start` is its begin in seconds
    since 1970, and `part` tells the blocks of one begin apart. Who writes a scope knows what is in `body`.
    """

    scope: str
    step: int
    start: int
    part: int
    body: bytes
