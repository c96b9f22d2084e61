"""Pulls from resmgr why tasks wait. The reasons are kept in memory only."""

from __future__ import annotations

import logging

from jobmgr.core.state.events import PendingReasons, ResmgrChanged
from jobmgr.drivers.retry import for_ever
from jobmgr.engine.lanes import Lanes
from jobmgr.ports.resmgr import WaitingReasons

POLL_SECONDS = 10.0
log = logging.getLogger(__name__)


class PendingReasonStream:
    """Hands the reasons to the lanes, and reports a new resmgr."""

    def __init__(self, resmgr: WaitingReasons, lanes: Lanes) -> None:
        self._resmgr = resmgr
        self._lanes = lanes
        self._stream = ""
        self._leader = ""
        self._last = 0

    async def run(self, resmgr: WaitingReasons | None = None) -> None:
        """Pull all reasons, and what changes in them, for ever; from `resmgr`, or as before."""
        self._resmgr = resmgr or self._resmgr
        self._stream, self._last = "", 0
        await for_ever("pending reasons", self._step)

    async def _step(self) -> None:
        answer = await self._resmgr.reasons(self._stream, self._last, POLL_SECONDS)
        if answer.leader != self._leader:
            if self._leader:
                log.info("another resource manager leads: pending runs are compared with what it holds")
            # Also of the first one: until it answered, runs may have been enqueued at its predecessor.
            self._lanes.post(ResmgrChanged())
            self._leader = answer.leader
        self._stream = answer.stream
        self._last = answer.last
        if answer.deltas:
            self._lanes.post(PendingReasons(answer.deltas))
