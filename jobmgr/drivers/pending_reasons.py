"""Pulls from resmgr why tasks wait. The reasons are kept in memory only."""

from __future__ import annotations

import logging

from jobmgr.core.state.events import PendingReasons, ResmgrChanged
from jobmgr.drivers.retry import CALL_SECONDS, for_ever
from jobmgr.engine.lanes import Lanes
from peloton.model.ids import parse_mesos_task_id
from peloton.model.states import TaskState
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.rpc.client import Caller

POLL_SECONDS = 10.0
log = logging.getLogger(__name__)


class PendingReasonStream:
    """Hands the reasons to the lanes, and reports a new resmgr."""

    def __init__(self, resmgr: Caller, lanes: Lanes) -> None:
        self._resmgr = resmgr
        self._lanes = lanes
        self._stream = ""
        self._leader = ""
        self._last = 0

    async def run(self) -> None:
        """Pull reasons for ever."""
        await for_ever("pending reasons", self._step)

    async def _step(self) -> None:
        request = waiting_pb2.WaitForDeltasRequest(
            stream_id=self._stream, after=self._last, timeout_ms=int(POLL_SECONDS * 1000)
        )
        answer = await self._resmgr.call("WaitForDeltas", request, timeout=POLL_SECONDS + CALL_SECONDS)
        if answer.leader_id != self._leader:
            if self._leader:
                log.info("another resource manager leads: pending runs are compared with what it holds")
                self._lanes.post(ResmgrChanged())
            self._leader = answer.leader_id
        self._stream = answer.stream_id
        self._last = answer.last
        if answer.deltas:
            self._lanes.post(
                PendingReasons(
                    [
                        (parse_mesos_task_id(delta.mesos_task_id), TaskState(delta.state), delta.reason)
                        for delta in answer.deltas
                    ]
                )
            )
