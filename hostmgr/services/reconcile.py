"""ReconcileService: requests for the states of runs whose launch or kill has an unknown outcome."""

from __future__ import annotations

from typing import Any

from hostmgr.drivers.manager import HostManager
from peloton.errors import InvalidArgument
from peloton.model.plural import plural
from peloton.private.hostmgr.reconcile import reconcile_pb2 as pb
from peloton.private.hostmgr.reconcile import reconcile_pb2_grpc

MAX_RUNS = 10_000


class ReconcileTasks(reconcile_pb2_grpc.ReconcileServiceServicer):
    """Serve reconciliation to jobmgr."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager

    async def ReconcileTasks(
        self, request: pb.ReconcileTasksRequest, context: Any
    ) -> pb.ReconcileTasksResponse:
        """Request the states of runs. Raises InvalidArgument, Unavailable."""
        if len(request.runs) > MAX_RUNS:
            raise InvalidArgument("runs", plural(len(request.runs), "run"), f"at most {MAX_RUNS} runs")
        if request.runs:
            self._manager.reconcile([(run.mesos_task_id, run.agent_id) for run in request.runs])
            await self._manager.room()
        return pb.ReconcileTasksResponse()
