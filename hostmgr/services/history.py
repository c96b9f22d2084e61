"""HostHistoryService: what happened to a host in this term."""

from __future__ import annotations

from typing import Any

from hostmgr.core.agents.maintenance_records import Records
from hostmgr.core.hosts.history import HostChanges, Kind
from peloton.clock import rfc3339
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.history import history_pb2 as pb
from peloton.private.hostmgr.history import history_pb2_grpc

_KINDS = {
    Kind.STATE: pb.Change.KIND_STATE,
    Kind.GOAL: pb.Change.KIND_GOAL,
    Kind.POOL: pb.Change.KIND_POOL,
}


class HistoryService(history_pb2_grpc.HostHistoryServiceServicer):
    """Serve the changes of hosts."""

    def __init__(self, history: HostChanges, records: Records) -> None:
        self._history = history
        self._records = records

    async def GetHistory(self, request: pb.GetHistoryRequest, context: Any) -> pb.GetHistoryResponse:
        """Return the changes of a host, none for one that is unknown. Raises InvalidArgument."""
        if not request.hostname:
            raise InvalidArgument("hostname", "", "the name of a host")
        record = self._records.get(request.hostname)
        return pb.GetHistoryResponse(
            changes=[
                pb.Change(time=rfc3339(each.at), kind=_KINDS[each.kind], before=each.before, after=each.after)
                for each in self._history.of(request.hostname)
            ],
            begin=rfc3339(self._history.begin),
            in_state_since=rfc3339(record.since) if record is not None and record.in_maintenance else "",
            begun_by="" if record is None else record.begun_by,
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
