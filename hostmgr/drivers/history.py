"""What happens to hosts, noted with its time, and stored for weeks."""

from __future__ import annotations

import logging
from typing import NoReturn

from hostmgr.core.hosts.history import Change, HostChange, HostChanges, Kind
from peloton.clock import NANOSECONDS, Clock
from peloton.errors import PelotonError
from peloton.model.host import HostInfo
from peloton.model.known_host import KnownHost
from storage.histories.events import KEEP, LATEST, Event, EventLog, text_of, time_of
from storage.interface import History

KINDS = frozenset(each.value for each in Kind)
RESTORED = 10_000
"""Changes that a new leader has in memory."""
log = logging.getLogger(__name__)


class HostHistory:
    """The history of hosts: of what is stored."""

    def __init__(self, clock: Clock, blocks: History | None = None, framework: str = "") -> None:
        """Store changes under the name of the framework; without `blocks`, those of this term are known."""
        self._clock = clock
        self.changes = HostChanges(clock.wall())
        self.stored = None if blocks is None else EventLog(blocks, f"changes of hosts {framework}", clock)

    async def run(self) -> NoReturn:
        """Take over what earlier leaders have stored last, and store for ever what is noted."""
        assert self.stored is not None, "there is no store"
        await self._restore(self.stored)
        await self.stored.run()

    def note_record(self, before: HostInfo, after: HostInfo) -> None:
        """Note what is different in the record of a host."""
        self._store(self.changes.note_record(before, after, self._clock.wall()))

    def note_pool(self, hostname: str, before: str, after: str) -> None:
        """Note that a host is in another host pool."""
        self._store(self.changes.note_pool(hostname, before, after, self._clock.wall()))

    def note_presence(self, host: KnownHost) -> None:
        """Note that a host is lost, or back."""
        self._store(self.changes.note_presence(host, self._clock.wall()))

    async def last(self, limit: int, before: float = 0.0) -> list[HostChange]:
        """Return the last changes of all hosts, the newest first. Raises PelotonError.

        With `before`, a time in seconds since 1970, those before it.
        """
        if self.stored is None:
            return []
        return list(map(_of_event, await self.stored.read(before or LATEST, limit, _known)))

    def _store(self, change: HostChange | None) -> None:
        if self.stored is not None and change is not None:
            self.stored.add(_event(change))

    async def _restore(self, stored: EventLog) -> None:
        try:
            events = await stored.read(self.changes.begin / NANOSECONDS, RESTORED, _known)
        except PelotonError as error:
            log.warning("what happened to hosts before this term is not known: %s", error)
            return
        begin = self._clock.wall() - KEEP * NANOSECONDS
        if len(events) == RESTORED:
            begin = round(time_of(events[-1]) * NANOSECONDS)
        self.changes.restore(map(_of_event, events), begin)


def _known(event: Event) -> bool:
    """Return whether a change is of a kind that this version knows."""
    return text_of(event, "kind") in KINDS


def _event(found: HostChange) -> Event:
    change = found.change
    return {
        "at": change.at / NANOSECONDS,
        "host": found.hostname,
        "kind": change.kind.value,
        "before": change.before,
        "after": change.after,
        "reason": change.reason,
    }


def _of_event(event: Event) -> HostChange:
    before, after, reason = (text_of(event, name) for name in ("before", "after", "reason"))
    at, kind = round(time_of(event) * NANOSECONDS), text_of(event, "kind")
    return HostChange(text_of(event, "host"), Change(at, Kind(kind), before, after, reason))
