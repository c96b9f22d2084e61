"""Pulls the runs on draining hosts from hostmgr."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jobmgr.core.state.events import Draining, Event
from jobmgr.drivers.retry import CALL_SECONDS, for_ever
from jobmgr.engine.lockdown import Gate
from peloton.api.v0.host import host_pb2
from peloton.errors import InvalidArgument, PelotonError
from peloton.model.cluster import UNNAMED
from peloton.model.ids import Run, parse_mesos_task_id
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.rpc.client import Caller

WAIT_SECONDS = 10.0
"""How long a call waits in hostmgr for runs on draining hosts."""
PAUSE_SECONDS = 1.0
"""Time between two looks at the same runs."""
log = logging.getLogger(__name__)


class DrainingHosts:
    """Hand the runs on draining hosts to the lanes, again and again until they have ended."""

    def __init__(
        self,
        hostmgr: Caller,
        history: Caller,
        post: Callable[[Event], None],
        gate: Gate,
        cluster: str = UNNAMED,
    ) -> None:
        """Pull from the `hostmgr` of a Mesos cluster while `gate` is open.

        Its private HostHistoryService, `history`, has who began the maintenance of a host.
        """
        self._hostmgr = hostmgr
        self._history = history
        self._post = post
        self._gate = gate
        self._cluster = cluster

    async def run(self) -> None:
        """Pull for ever."""
        await for_ever("draining hosts", self._step)

    async def _step(self) -> None:
        await self._gate.opened()
        request = hostsvc_pb2.GetTasksByHostStateRequest(
            host_state=host_pb2.HOST_STATE_DRAINING, timeout=int(WAIT_SECONDS * 1000)
        )
        answer = await self._hostmgr.call("GetTasksByHostState", request, timeout=WAIT_SECONDS + CALL_SECONDS)
        runs = [run for each in answer.task_ids if (run := _run(each.value)) is not None]
        if runs:
            self._post(Draining(runs, self._cluster, await self._maintenances()))
        await asyncio.sleep(PAUSE_SECONDS)

    async def _maintenances(self) -> dict[str, str]:
        """Return who began the maintenance of each host, and when; nothing where that cannot be known now."""
        try:
            answer = await self._history.call(
                "GetMaintenances", history_pb2.GetMaintenancesRequest(), timeout=CALL_SECONDS
            )
        except PelotonError as error:
            log.warning("who began the maintenance of hosts: %s", error)
            return {}
        return {each.hostname: _begun(each) for each in answer.maintenances}


def _begun(maintenance: history_pb2.Maintenance) -> str:
    whose = f" by {maintenance.begun_by}" if maintenance.begun_by else ""
    return f"begun{whose} at {maintenance.since}"


def _run(task_id: str) -> Run | None:
    """Return a run by its Mesos task id; None for a task that is not of Peloton."""
    try:
        return parse_mesos_task_id(task_id)
    except InvalidArgument as error:
        log.warning("a task on a draining host is left alone: %s", error)
        return None
