"""The records of hosts in maintenance. Other hosts have none.

A change is planned without effect; the driver stores it and then applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from peloton.model.cluster import cluster_of
from peloton.model.host import HostInfo
from peloton.model.states import HostState


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A change of a host's record, which is to be stored."""

    before: HostInfo
    after: HostInfo

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return self.before != self.after

    @property
    def deletes(self) -> bool:
        """Return whether the record is to be deleted: the host is UP, as all hosts without one."""
        plain = replace(self.after, hostname="", ip="", labels=(), since=0)
        return plain == HostInfo("", "", HostState.UP, HostState.UP)


class Records:
    """All records of hosts of one Mesos cluster, as they are stored."""

    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._records: dict[str, HostInfo] = {}

    def load(self, stored: Iterable[HostInfo]) -> None:
        """Take over what is stored, without the hosts of other clusters."""
        self._records = {
            record.hostname: record for record in stored if cluster_of(record.hostname) == self._cluster
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

    def plan(self, hostname: str, changed: Callable[[HostInfo], HostInfo]) -> RecordChange:
        """Plan what `changed` makes of a host's record; one without is UP. Raises as `changed` does."""
        before = self._records.get(hostname) or HostInfo(hostname, "", HostState.UP, HostState.UP)
        change = RecordChange(before, changed(before))
        assert change.after.hostname == hostname, change
        return change

    def apply(self, change: RecordChange) -> None:
        """Carry out a change that is stored."""
        hostname = change.after.hostname
        if change.deletes:
            self._records.pop(hostname, None)
        else:
            self._records[hostname] = change.after
