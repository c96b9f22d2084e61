"""What happened to hosts: their states in maintenance, their host pools and their losses, for operators."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from peloton.model.host import HostInfo
from peloton.model.known_host import KnownHost

MOST_CHANGES = 50
"""Changes of one host that are kept."""
MOST_HOSTS = 10_000
"""Hosts with changes that are kept: those with the latest."""


class Kind(Enum):
    """What changed."""

    STATE = "state"
    GOAL = "goal"
    POOL = "pool"
    PRESENCE = "presence"


LOST = "LOST"
REGISTERED = "REGISTERED"
"""The other one of the two values of PRESENCE."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a host."""

    at: int
    """Nanoseconds since 1970."""
    kind: Kind
    before: str
    after: str
    reason: str = ""
    """Why it is lost."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """A change, and of which host."""

    hostname: str
    change: Change


class HostChanges:
    """The last changes of hosts, in memory. Times are nanoseconds since 1970."""

    def __init__(self, begin: int) -> None:
        """Start without changes from before this time."""
        self._changes: OrderedDict[str, deque[Change]] = OrderedDict()
        self.begin = begin
        """Since when changes are known."""

    def of(self, hostname: str) -> list[Change]:
        """Return the changes of a host, the newest last."""
        return list(self._changes.get(hostname, ()))

    def restore(self, earlier: Iterable[HostChange], begin: int) -> None:
        """Take over changes from before those that were noted, the newest first; `begin`: since when."""
        for each in earlier:
            if each.hostname not in self._changes:
                if len(self._changes) >= MOST_HOSTS:
                    continue
                self._changes[each.hostname] = deque(maxlen=MOST_CHANGES)
                self._changes.move_to_end(each.hostname, last=False)
            of_host = self._changes[each.hostname]
            if len(of_host) < MOST_CHANGES:
                of_host.appendleft(each.change)
        self.begin = begin

    def note_record(self, before: HostInfo, after: HostInfo, at: int) -> HostChange | None:
        """Note what is different in the record of a host, and return it."""
        if before.state is not after.state:
            return self._note(after.hostname, Change(at, Kind.STATE, before.state.name, after.state.name))
        if before.goal is not after.goal:
            return self._note(after.hostname, Change(at, Kind.GOAL, before.goal.name, after.goal.name))
        return None

    def note_pool(self, hostname: str, before: str, after: str, at: int) -> HostChange:
        """Note that a host is in another host pool."""
        return self._note(hostname, Change(at, Kind.POOL, before, after))

    def note_presence(self, host: KnownHost, at: int) -> HostChange:
        """Note that a host is lost, or back."""
        if host.lost:
            lost = Change(host.lost_since, Kind.PRESENCE, REGISTERED, LOST, host.reason.text)
            return self._note(host.hostname, lost)
        return self._note(host.hostname, Change(at, Kind.PRESENCE, LOST, REGISTERED))

    def _note(self, hostname: str, change: Change) -> HostChange:
        self._changes.setdefault(hostname, deque(maxlen=MOST_CHANGES)).append(change)
        self._changes.move_to_end(hostname)
        while len(self._changes) > MOST_HOSTS:
            self._changes.popitem(last=False)
        return HostChange(hostname, change)
