"""HostHistoryService: what happened to hosts."""

from __future__ import annotations

from typing import Any

from hostmgr.core.agents.maintenance_records import Records
from hostmgr.core.hosts.history import Change, Kind
from hostmgr.drivers.history import HostHistory
from peloton.clock import rfc3339
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.history import history_pb2 as pb
from peloton.private.hostmgr.history import history_pb2_grpc

_KINDS = {
    Kind.STATE: pb.Change.KIND_STATE,
    Kind.GOAL: pb.Change.KIND_GOAL,
    Kind.POOL: pb.Change.KIND_POOL,
    Kind.PRESENCE: pb.Change.KIND_PRESENCE,
}
CHANGES, MOST_CHANGES = 100, 1000
"""Changes in an answer: by default, and at most."""


class HistoryService(history_pb2_grpc.HostHistoryServiceServicer):
    """Serve the changes of hosts."""

    def __init__(self, history: HostHistory, records: Records) -> None:
        self._history = history
        self._records = records

    async def GetHistory(self, request: pb.GetHistoryRequest, context: Any) -> pb.GetHistoryResponse:
        """Return the changes of a host, none for one that is unknown. Raises InvalidArgument."""
        if not request.hostname:
            raise InvalidArgument("hostname", "", "the name of a host")
        record = self._records.get(request.hostname)
        return pb.GetHistoryResponse(
            changes=map(_change, self._history.changes.of(request.hostname)),
            begin=rfc3339(self._history.changes.begin),
            in_state_since=rfc3339(record.since) if record is not None and record.in_maintenance else "",
            begun_by="" if record is None else record.begun_by,
        )

    async def ListChanges(self, request: pb.ListChangesRequest, context: Any) -> pb.ListChangesResponse:
        """Return the last changes of all hosts. Raises InvalidArgument, Unavailable."""
        limit = request.limit or CHANGES
        if limit > MOST_CHANGES:
            raise InvalidArgument("limit", limit, f"at most {MOST_CHANGES}")
        found = await self._history.last(limit, request.before)
        return pb.ListChangesResponse(
            changes=[pb.HostChange(hostname=each.hostname, change=_change(each.change)) for each in found]
        )

    async def GetMaintenances(
        self, request: pb.GetMaintenancesRequest, context: Any
    ) -> pb.GetMaintenancesResponse:
        """Return the hosts in maintenance, and who began it."""
        return pb.GetMaintenancesResponse(
            maintenances=[
                pb.Maintenance(
                    hostname=record.hostname, begun_by=record.begun_by, since=rfc3339(record.since)
                )
                for record in self._records.in_maintenance()
            ]
        )


def _change(change: Change) -> pb.Change:
    return pb.Change(
        time=rfc3339(change.at),
        kind=_KINDS[change.kind],
        before=change.before,
        after=change.after,
        reason=change.reason,
    )
