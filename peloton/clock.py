"""The only place that reads clocks. Shells hand `now` to the cores."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    def wall(self) -> int:
        """Nanoseconds since 1970 in UTC: for what is stored and shown."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump: for deadlines and leases."""
        ...


class SystemClock:
    def wall(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class ManualClock:
    """A clock that a test moves by hand."""

    now: float = 0.0
    epoch: int = field(default=1_600_000_000 * NANOSECONDS)

    def wall(self) -> int:
        return self.epoch + round(self.now * NANOSECONDS)

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def rfc3339(nanoseconds: int) -> str:
    """RFC 3339 in UTC with nanoseconds; empty for 0, which stands for "not yet"."""
    if nanoseconds == 0:
        return ""
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def parse_rfc3339(text: str) -> int:
    """Nanoseconds since 1970; 0 for an empty text. Raises ValueError for what is no such time."""
    if not text:
        return 0
    head, dot, rest = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
    return seconds * NANOSECONDS + (int(rest.ljust(9, "0")[:9]) if dot else 0)
