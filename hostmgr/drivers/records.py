"""The stored records of hosts in maintenance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostmgr.core.agents.maintenance_records import RecordChange, Records
from hostmgr.drivers.history import HostHistory
from peloton.model.host import HostInfo
from storage.interface import Hosts


class HostRecords:
    """The records in memory, as they are stored. Changes are stored first, one at a time."""

    def __init__(self, store: Hosts, cluster: str = "", history: HostHistory | None = None) -> None:
        """Keep the records of hosts of one Mesos cluster, and note their changes."""
        self.records = Records(cluster)
        self._store = store
        self._history = history
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read all records."""
        self.records.load(await self._store.all())

    async def change(self, hostname: str, changed: Callable[[HostInfo], HostInfo]) -> RecordChange:
        """Store what `changed` makes of a host's record, and return the change.

        Raises what `changed` raises, without a change.
        """
        async with self._lock:
            change = self.records.plan(hostname, changed)
            if not change:
                return change
            if change.deletes:
                await self._store.delete(hostname)
            else:
                await self._store.write(change.after)
            self.records.apply(change)
            if self._history is not None:
                self._history.note_record(change.before, change.after)
            return change
