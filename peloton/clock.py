"""The only module that reads clocks. Shells pass `now` to the cores."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

NANOSECONDS = 1_000_000_000
SMALL_NANOSECONDS = NANOSECONDS // 2
"""Differences of the system's clock that are followed at once, in nanoseconds."""
CATCH_UP = 20
log = logging.getLogger(__name__)


class Clock(Protocol):
    """A source of time."""

    def wall(self) -> int:
        """Return nanoseconds since 1970 in UTC, for what is stored and shown."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump, for deadlines and leases."""
        ...


class SteadyWall:
    """The time of day, without its jumps: what one process stamps at two moments tells the time between them.

    It follows the system's clock where that is slewed. A jump (an operator sets the clock, a virtual machine
    is suspended) is followed at a rate of one second in `CATCH_UP`, so that durations stay right within
    that; a daemon that is started after the jump begins with the system's time.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Begin with the system's time; both clocks are in nanoseconds."""
        self._wall, self._monotonic = wall, monotonic
        self._at = monotonic()
        self._offset = wall() - self._at
        self.behind = 0
        """Nanoseconds by which the system's clock is ahead, negative where it is behind."""

    def now(self) -> int:
        """Return nanoseconds since 1970 in UTC."""
        at = self._monotonic()
        behind = self._wall() - at - self._offset
        step = behind
        if abs(behind) > SMALL_NANOSECONDS:
            if not self.behind:
                seconds = behind / NANOSECONDS
                log.warning("the system's clock has jumped by %.1f s, and is followed slowly", seconds)
            most = (at - self._at) // CATCH_UP
            step = max(-most, min(behind, most))
        self._at, self._offset, self.behind = at, self._offset + step, behind - step
        return at + self._offset


_steady = SteadyWall()


class SystemClock:
    """The clocks of the operating system; all in a process tell the same time of day."""

    def wall(self) -> int:
        """Return nanoseconds since 1970 in UTC, without the jumps of the system's clock (`SteadyWall`)."""
        return _steady.now()

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
    return f"{_to_seconds(seconds)}.{rest:09d}Z"


@lru_cache(maxsize=1024)
def _to_seconds(seconds: int) -> str:
    """Format a time without its fraction. Of a large job many are the same."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def parse_rfc3339(text: str) -> int:
    """Return nanoseconds since 1970, 0 for an empty text. Raises ValueError for an invalid time."""
    if not text:
        return 0
    head, dot, rest = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
    return seconds * NANOSECONDS + (int(rest.ljust(9, "0")[:9]) if dot else 0)
