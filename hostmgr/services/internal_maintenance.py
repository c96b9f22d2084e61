"""The methods of InternalHostService by which resmgr follows draining hosts."""

from __future__ import annotations

from typing import Any

from hostmgr.drivers.maintenance import Maintenance
from peloton.errors import InvalidArgument
from peloton.model.states import HostState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.private.hostmgr.hostsvc import hostsvc_pb2_grpc

MAX_WAIT_MILLISECONDS = 60_000


class MaintenanceMethods(hostsvc_pb2_grpc.InternalHostServiceServicer):
    """Serve draining hosts."""

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance

    async def GetDrainingHosts(
        self, request: pb.GetDrainingHostsRequest, context: Any
    ) -> pb.GetDrainingHostsResponse:
        """Return hosts that are DRAINING, those that began first coming first; `limit` at most (0: all).

        Where there are none, wait until there are, for `timeout` milliseconds at most. Raises InvalidArgument
        for a timeout that is too long.
        """
        if request.timeout > MAX_WAIT_MILLISECONDS:
            raise InvalidArgument("timeout", request.timeout, f"at most {MAX_WAIT_MILLISECONDS} milliseconds")
        hosts = await self._maintenance.wait_for(HostState.DRAINING, request.limit, request.timeout / 1000)
        return pb.GetDrainingHostsResponse(hostnames=hosts)

    async def MarkHostDrained(
        self, request: pb.MarkHostDrainedRequest, context: Any
    ) -> pb.MarkHostDrainedResponse:
        """Note that no task is left on a draining host, as far as the resource manager knows.

        Raises NotFound for a host that is in no maintenance, and Refused where something is left on it.
        """
        await self._maintenance.mark_drained(request.hostname)
        return pb.MarkHostDrainedResponse(hostname=request.hostname)
