"""Which call begins next: fair queueing by principal.

The rules, without clock and effects; `peloton.rpc.fairness` drives them. A principal is a key here.

Each principal has a place of its own, in which a call begins at once: who calls once in a while does not wait
for those that flood. All share further places, of which each may have so many. Calls that find no place wait
in their principal's line. When a call ends, deficit round robin chooses the next one for a shared place: the
principals that wait take turns, and one whose calls cost more than others (large requests and answers) is
passed over until the others have had as much.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
QUANTUM = 1.0
"""What a turn is worth: a call of little data costs 1."""
LONGEST_DEBT_TURNS = 256.0
"""Turns for which a principal is passed over at most, however much its calls have cost."""
FIRST_SECONDS, LAST_SECONDS = 0.1, 60.0
"""Within these is the time after which a refused call may be tried again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits, by the names of their settings."""

    running: int
    principal_running: int
    waiting: int
    principal_waiting: int
    principal_bytes: int


@dataclass(frozen=True, slots=True)
class Overload:
    """A call that exceeds a limit."""

    limit: str
    """The setting's name."""
    value: int
    seconds: float
    """After which another try may succeed, as far as can be told."""


class Arrival(Enum):
    """Of a call that is not refused."""

    BEGIN = "begin"
    WAIT = "wait"


@dataclass(slots=True)
class _Line(Generic[T]):
    """The calls of a principal."""

    since: float
    running: int = 0
    own: bool = False
    """Whether its own place is taken: one of its running calls is there, the others are in shared places."""
    ended: int = 0
    bytes: int = 0
    credit: float = QUANTUM
    waiting: OrderedDict[T, int] = field(default_factory=OrderedDict)


class FairQueue(Generic[T]):
    """The calls that run and wait. A ticket stands for a call that waits."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.waiting = 0
        self._own = 0
        self._shared = 0
        self._lines: dict[str, _Line[T]] = {}
        self._ring: OrderedDict[str, None] = OrderedDict()

    def arrive(self, key: str, size: int, now: float) -> Arrival | Overload:
        """Decide about a call whose request has `size` bytes.

        BEGIN counts it as running. WAIT changes nothing: `wait` follows.
        """
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(now)
        if line.bytes and line.bytes + size > self.bounds.principal_bytes:
            return self._refusal("principal_bytes", line, now)
        if not line.waiting and self._may_begin(line):
            line.bytes += size
            self._take(line)
            return Arrival.BEGIN
        if len(line.waiting) >= self.bounds.principal_waiting:
            return self._refusal("principal_waiting", line, now)
        if self.waiting >= self.bounds.waiting:
            refusal = self._refusal("waiting", line, now)
            self._forget(key, line)
            return refusal
        return Arrival.WAIT

    def wait(self, key: str, ticket: T, size: int) -> None:
        """Let a call wait behind those of its principal."""
        line = self._lines[key]
        assert ticket not in line.waiting, f"a call of {key} waits twice"
        line.waiting[ticket] = size
        line.bytes += size
        self.waiting += 1
        self._ring.setdefault(key)

    def withdraw(self, key: str, ticket: T) -> None:
        """Forget a call that waits: its caller has gone."""
        line = self._lines[key]
        line.bytes -= line.waiting.pop(ticket)
        self.waiting -= 1
        self._forget(key, line)

    def end(self, key: str, size: int, cost: float = QUANTUM) -> list[T]:
        """Note the end of a call that ran, with what it has cost. Return the calls that begin now."""
        line = self._lines[key]
        line.bytes -= size
        assert line.bytes >= 0, f"{key}: more bytes have ended than came, by {-line.bytes}"
        line.ended += 1
        line.credit = max(line.credit - (cost - QUANTUM), -LONGEST_DEBT_TURNS)
        self._leave(line)
        begun = self._begin() if self._ring else []
        self._forget(key, line)
        return begun

    @property
    def running(self) -> int:
        """Return how many calls run."""
        return self._own + self._shared

    def principals(self) -> int:
        """Return of how many principals something runs or waits."""
        return len(self._lines)

    def _begin(self) -> list[T]:
        begun = []
        while self._ring and (key := self._choose()) is not None:
            line = self._lines[key]
            ticket, _ = line.waiting.popitem(last=False)
            if not self._take(line):
                line.credit -= QUANTUM
            self.waiting -= 1
            if line.waiting:
                self._ring.move_to_end(key)
            else:
                del self._ring[key]
            begun.append(ticket)
        return begun

    def _choose(self) -> str | None:
        """Return whose turn it is. Where all that may begin are in debt, so many turns pass as it takes."""
        least = math.inf
        for key in self._ring:
            line = self._lines[key]
            if self._has_own(line) or (self._may_share(line) and line.credit > 0):
                return key
            if self._may_share(line):
                least = min(least, -line.credit)
        if least is math.inf:
            return None
        turns = QUANTUM * (math.floor(least / QUANTUM) + 1)
        for key in self._ring:
            line = self._lines[key]
            if self._may_share(line):
                line.credit += turns
        return self._choose()

    def _may_begin(self, line: _Line[T]) -> bool:
        return self._has_own(line) or self._may_share(line)

    def _has_own(self, line: _Line[T]) -> bool:
        """Return whether its own place is free; not more have one than there are shared ones."""
        bounds = self.bounds
        return not line.own and self._own < bounds.running and line.running < bounds.principal_running

    def _may_share(self, line: _Line[T]) -> bool:
        return self._shared < self.bounds.running and line.running < self.bounds.principal_running

    def _take(self, line: _Line[T]) -> bool:
        """Take a place; return whether it is the principal's own."""
        own = self._has_own(line)
        line.running += 1
        if own:
            line.own = True
            self._own += 1
        else:
            self._shared += 1
        return own

    def _leave(self, line: _Line[T]) -> None:
        """Give a place back: the principal's own is the last one."""
        line.running -= 1
        if line.own and not line.running:
            line.own = False
            self._own -= 1
        else:
            self._shared -= 1

    def _refusal(self, limit: str, line: _Line[T], now: float) -> Overload:
        """Return a refusal, with the time in which the calls that wait are done if it goes on like this."""
        behind = max(len(line.waiting), 1)
        seconds = behind * (now - line.since) / line.ended if line.ended else 1.0
        return Overload(limit, getattr(self.bounds, limit), min(max(seconds, FIRST_SECONDS), LAST_SECONDS))

    def _forget(self, key: str, line: _Line[T]) -> None:
        """Forget a principal of which nothing runs or waits: its debts, too."""
        if not line.waiting:
            self._ring.pop(key, None)
            if not line.running:
                del self._lines[key]


class Counts:
    """How much each principal has of something: open streams."""

    def __init__(self, limit: str, most: int) -> None:
        """Use the name of the setting and its value."""
        self._limit, self._most = limit, most
        self._held: dict[str, int] = {}

    def take(self, key: str) -> Overload | None:
        """Count one more, or return why not."""
        held = self._held.get(key, 0)
        if held >= self._most:
            return Overload(self._limit, self._most, FIRST_SECONDS)
        self._held[key] = held + 1
        return None

    def give_back(self, key: str) -> None:
        """Count one less."""
        if self._held[key] == 1:
            del self._held[key]
        else:
            self._held[key] -= 1

    def __len__(self) -> int:
        """Return how many principals have some."""
        return len(self._held)


class Pacer:
    """Spreads refusals over time: whoever calls again as soon as it is refused is slowed down.

    The first `burst` of a principal go out at once, then `rate` a second, each no later than `longest`.
    """

    def __init__(self, rate: float, burst: int, longest: float, most: int) -> None:
        """Hold `most` refusals at a time at most; further ones go out at once."""
        self._interval, self._slack = 1 / rate, burst / rate
        self._longest = longest
        self._most = most
        self._free: OrderedDict[str, float] = OrderedDict()
        self.held = 0

    def delay(self, key: str, now: float) -> float:
        """Return after how many seconds a refusal is to go out."""
        while self._free and next(iter(self._free.values())) <= now:
            self._free.popitem(last=False)
        free = max(self._free.get(key, now), now) + self._interval
        delay = free - now - self._slack
        if delay > self._longest:
            return self._longest if self.held < self._most else 0.0
        self._free[key] = free
        self._free.move_to_end(key)
        return delay if delay > 0 and self.held < self._most else 0.0
