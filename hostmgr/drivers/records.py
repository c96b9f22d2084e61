"""The stored records of hosts in maintenance. Other hosts have none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hostmgr.drivers.history import HostHistory
from peloton.model.cluster import cluster_of
from peloton.model.host import HostInfo
from peloton.model.states import HostState
from storage.interface import Hosts


class HostRecords:
    """All records in memory, as they are stored. Changes are stored first, one at a time."""

    def __init__(self, store: Hosts, cluster: str = "", history: HostHistory | None = None) -> None:
        """Keep the records of hosts of one Mesos cluster, and note their changes."""
        self._store = store
        self._cluster = cluster
        self._history = history
        self._records: dict[str, HostInfo] = {}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read all records."""
        self._records = {
            record.hostname: record
            for record in await self._store.all()
            if cluster_of(record.hostname) == self._cluster
        }

    def get(self, hostname: str) -> HostInfo | None:
        """Return the record of a host; None where it has none."""
        return self._records.get(hostname)

    def all(self) -> list[HostInfo]:
        """Return all records, by hostname."""
        return sorted(self._records.values(), key=lambda record: record.hostname)

    def in_maintenance(self) -> list[HostInfo]:
        """Return the records of hosts in maintenance, by hostname."""
        return [record for record in self.all() if record.in_maintenance]

    async def change(self, hostname: str, changed: Callable[[HostInfo], HostInfo]) -> HostInfo:
        """Store what `changed` makes of a host's record, and return it; a host without one is UP.

        The record of a host that is UP is deleted. Raises what `changed` raises, without a
        change.
        """
        async with self._lock:
            before = self._records.get(hostname) or HostInfo(hostname, "", HostState.UP, HostState.UP)
            after = changed(before)
            if after == before:
                return after
            if _is_default(after):
                await self._store.delete(hostname)
                self._records.pop(hostname, None)
            else:
                await self._store.write(after)
                self._records[hostname] = after
            if self._history is not None:
                self._history.note_record(before, after)
            return after


def _is_default(record: HostInfo) -> bool:
    plain = replace(record, hostname="", ip="", labels=(), since=0)
    return plain == HostInfo("", "", HostState.UP, HostState.UP)
