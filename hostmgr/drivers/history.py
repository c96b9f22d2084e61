"""What happens to hosts, noted with its time."""

from __future__ import annotations

from hostmgr.core.hosts.history import HostChanges
from peloton.clock import Clock
from peloton.model.host import HostInfo


class HostHistory:
    """The history of hosts in this term, of what is stored."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.changes = HostChanges(clock.wall())

    def note_record(self, before: HostInfo, after: HostInfo) -> None:
        """Note what is different in the record of a host."""
        self.changes.note_record(before, after, self._clock.wall())

    def note_pool(self, hostname: str, before: str, after: str) -> None:
        """Note that a host is in another host pool."""
        self.changes.note_pool(hostname, before, after, self._clock.wall())
