"""The only module that reads clocks. Shells pass `now` to the cores."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    """A source of time."""

    def wall(self) -> int:
        """Return nanoseconds since 1970 in UTC, for what is stored and shown."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump, for deadlines and leases."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def wall(self) -> int:
        """Return nanoseconds since 1970 in UTC."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()


@dataclass
class ManualClock:
    """A clock that a test advances."""

    now: float = 0.0
    epoch: int = field(default=1_600_000_000 * NANOSECONDS)

    def wall(self) -> int:
        """Return nanoseconds since 1970 in UTC."""
        return self.epoch + round(self.now * NANOSECONDS)

    def monotonic(self) -> float:
        """Return seconds since the clock was made."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock by a number of seconds."""
        self.now += seconds


def rfc3339(nanoseconds: int) -> str:
    """Format a time as RFC 3339 in UTC with nanoseconds; empty for 0, which stands for "not yet"."""
    if nanoseconds == 0:
        return ""
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def parse_rfc3339(text: str) -> int:
    """Return nanoseconds since 1970, 0 for an empty text. Raises ValueError for an invalid time."""
    if not text:
        return 0
    head, dot, rest = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
    return seconds * NANOSECONDS + (int(rest.ljust(9, "0")[:9]) if dot else 0)
