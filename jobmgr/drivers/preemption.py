"""Pulls the tasks that resmgr preempts, with the reasons."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from jobmgr.core.state.events import Event, Preempted
from jobmgr.drivers.retry import for_ever
from jobmgr.engine.lockdown import Gate
from jobmgr.engine.outbox import Queue
from jobmgr.ports.resmgr import PreemptedTasks
from peloton.errors import PelotonError
from peloton.model.ids import MesosTaskId, Run, parse_mesos_task_id

POLL_SECONDS = 10.0
TASKS_PER_CALL = 1000
UNKNOWN_REASON = "its resources are needed elsewhere"
log = logging.getLogger(__name__)


class PreemptionStream:
    """Hands preempted runs to the lanes. resmgr preempts again where one is not ended."""

    def __init__(self, resmgr: PreemptedTasks, post: Callable[[Event], None], gate: Gate) -> None:
        """Pull from `resmgr` while `gate` is open."""
        self._gate = gate
        self._resmgr = resmgr
        self._post = post

    async def run(self, resmgr: PreemptedTasks | None = None) -> None:
        """Pull preempted tasks for ever, from `resmgr`, or as before."""
        self._resmgr = resmgr or self._resmgr
        await for_ever("preemption", self._step)

    async def _step(self) -> None:
        await self._gate.opened()
        runs = await self._resmgr.preempted(TASKS_PER_CALL, POLL_SECONDS)
        if runs and (reasons := await self._reasons(runs)):
            log.info("%d tasks are preempted", len(reasons))
            self._post(Preempted([(parse_mesos_task_id(run), reason) for run, reason in reasons.items()]))

    async def _reasons(self, runs: Sequence[MesosTaskId]) -> Mapping[MesosTaskId, str]:
        """Return the reasons by run, without runs that have been spared since.

        All have the same one where the service cannot answer.
        """
        try:
            return await self._resmgr.preemption_reasons(runs)
        except PelotonError as error:
            log.warning("reasons for preemption: %s", error)
            return dict.fromkeys(runs, UNKNOWN_REASON)


async def keep(resmgr: PreemptedTasks, queue: Queue[Run]) -> NoReturn:
    """Report runs that stay because of their SLA, so that resmgr spares them; run for ever.

    One that is not reported is spared at its deadline.
    """
    while True:
        runs = await queue.take(TASKS_PER_CALL)
        try:
            await resmgr.keep(runs)
        except PelotonError as error:
            log.warning(
                "%d preempted tasks stay for their SLA, and resmgr does not know: %s", len(runs), error
            )
