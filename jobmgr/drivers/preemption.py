"""Pulls the tasks that resmgr preempts, with the reasons."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from jobmgr.core.state.events import Event, Preempted
from jobmgr.drivers.retry import CALL_SECONDS, for_ever
from jobmgr.engine.lockdown import Gate
from peloton.errors import PelotonError
from peloton.model.ids import parse_mesos_task_id
from peloton.private.resmgr.preemption import preemption_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.rpc.client import Caller

POLL_SECONDS = 10.0
TASKS_PER_CALL = 1000
UNKNOWN_REASON = "its resources are needed elsewhere"
log = logging.getLogger(__name__)


class PreemptionStream:
    """Hands preempted runs to the lanes. resmgr preempts again where one is not ended."""

    def __init__(self, resmgr: Caller, preemption: Caller, post: Callable[[Event], None], gate: Gate) -> None:
        """Pull from `resmgr` while `gate` is open; its private PreemptionService has the reasons."""
        self._gate = gate
        self._resmgr = resmgr
        self._preemption = preemption
        self._post = post

    async def run(self) -> None:
        """Pull preempted tasks for ever."""
        await for_ever("preemption", self._step)

    async def _step(self) -> None:
        await self._gate.opened()
        request = resmgrsvc_pb2.GetPreemptibleTasksRequest(
            limit=TASKS_PER_CALL, timeout=int(POLL_SECONDS * 1000)
        )
        answer = await self._resmgr.call("GetPreemptibleTasks", request, timeout=POLL_SECONDS + CALL_SECONDS)
        if answer.HasField("error"):
            raise PelotonError(f"GetPreemptibleTasks: {' '.join(str(answer.error).split())}")
        runs = [candidate.task_id.value for candidate in answer.preemptionCandidates]
        if runs:
            reasons = await self._reasons(runs)
            log.info("%d tasks are preempted", len(runs))
            self._post(
                Preempted([(parse_mesos_task_id(run), reasons.get(run, UNKNOWN_REASON)) for run in runs])
            )

    async def _reasons(self, runs: Sequence[str]) -> dict[str, str]:
        """Return the reasons by run; none where the service cannot answer."""
        try:
            answer = await self._preemption.call(
                "GetReasons", preemption_pb2.GetReasonsRequest(mesos_task_ids=runs), timeout=CALL_SECONDS
            )
        except PelotonError as error:
            log.warning("reasons for preemption: %s", error)
            return {}
        return {each.mesos_task_id: each.reason for each in answer.reasons}
