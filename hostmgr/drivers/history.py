"""What happened to hosts in this term: their states in maintenance and their host pools, for operators."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from cachetools import LRUCache

from peloton.clock import Clock
from peloton.model.host import HostInfo

MOST_CHANGES = 50
"""Changes of one host that are kept."""
MOST_HOSTS = 10_000
"""Hosts with changes that are kept: those with the latest."""


class Kind(Enum):
    """What changed."""

    STATE = "state"
    GOAL = "goal"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a host."""

    at: int
    """Nanoseconds since 1970."""
    kind: Kind
    before: str
    after: str


class HostHistory:
    """The last changes of hosts, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes: LRUCache[str, deque[Change]] = LRUCache(MOST_HOSTS)
        self.begin = clock.wall()
        """When the term began, in nanoseconds since 1970."""

    def of(self, hostname: str) -> list[Change]:
        """Return the changes of a host, the newest last."""
        return list(self._changes.get(hostname, ()))

    def note_record(self, before: HostInfo, after: HostInfo) -> None:
        """Note what is different in the record of a host."""
        if before.state is not after.state:
            self._note(after.hostname, Kind.STATE, before.state.name, after.state.name)
        elif before.goal is not after.goal:
            self._note(after.hostname, Kind.GOAL, before.goal.name, after.goal.name)

    def note_pool(self, hostname: str, before: str, after: str) -> None:
        """Note that a host is in another host pool."""
        self._note(hostname, Kind.POOL, before, after)

    def _note(self, hostname: str, kind: Kind, before: str, after: str) -> None:
        kept = self._changes.get(hostname)
        if kept is None:
            kept = self._changes[hostname] = deque(maxlen=MOST_CHANGES)
        kept.append(Change(self._clock.wall(), kind, before, after))
