"""What happened to hosts in this term: their states in maintenance and their host pools, for operators."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import Enum

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


class HostChanges:
    """The last changes of hosts, in memory. Times are nanoseconds since 1970."""

    def __init__(self, begin: int) -> None:
        """Start in a term that has begun at this time."""
        self._changes: OrderedDict[str, deque[Change]] = OrderedDict()
        self.begin = begin

    def of(self, hostname: str) -> list[Change]:
        """Return the changes of a host, the newest last."""
        return list(self._changes.get(hostname, ()))

    def note_record(self, before: HostInfo, after: HostInfo, at: int) -> None:
        """Note what is different in the record of a host."""
        if before.state is not after.state:
            self._note(after.hostname, Change(at, Kind.STATE, before.state.name, after.state.name))
        elif before.goal is not after.goal:
            self._note(after.hostname, Change(at, Kind.GOAL, before.goal.name, after.goal.name))

    def note_pool(self, hostname: str, before: str, after: str, at: int) -> None:
        """Note that a host is in another host pool."""
        self._note(hostname, Change(at, Kind.POOL, before, after))

    def _note(self, hostname: str, change: Change) -> None:
        self._changes.setdefault(hostname, deque(maxlen=MOST_CHANGES)).append(change)
        self._changes.move_to_end(hostname)
        while len(self._changes) > MOST_HOSTS:
            self._changes.popitem(last=False)
