"""Report the runs of a removed framework as killed.

An operator tore the framework down, or it was away for longer than its failover time-out. Mesos kills its
runs without a status, and the framework that is subscribed next does not know them. They are reported here as
Mesos records them, before that framework has an id: otherwise reconciliation would call them lost.
"""

from __future__ import annotations

import asyncio
import logging

from hostmgr.backend.interface import Backend
from hostmgr.core.runs.stored import started
from hostmgr.drivers.framework import FrameworkRecord
from hostmgr.drivers.status_updates import StatusUpdates
from peloton.clock import Clock
from peloton.errors import Unavailable
from peloton.model.ids import MesosTaskId
from peloton.model.plural import plural

LONGEST_SECONDS = 60.0
"""Longest time until all is reported and jobmgr has stored it. Then the next subscription waits no longer."""
POLL_SECONDS = 0.1
RETRY_SECONDS = 1.0
log = logging.getLogger(__name__)


async def report_removal(
    framework: FrameworkRecord,
    backend: Backend,
    status_updates: StatusUpdates,
    clock: Clock,
    framework_id: str,
) -> None:
    """Report the runs of this framework as killed, and wait until jobmgr has stored it."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            count = await _report(framework, backend, status_updates, clock, framework_id)
            while status_updates.ring.pending:  # noqa: ASYNC110 - the ring has no event for it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        log.error("not all runs of framework %s are reported as killed: some count as lost", framework_id)
    else:
        log.warning("%s killed with framework %s", plural(count, "run was", "runs were"), framework_id)


async def _report(
    framework: FrameworkRecord,
    backend: Backend,
    status_updates: StatusUpdates,
    clock: Clock,
    framework_id: str,
) -> int:
    """Return how many runs were reported. What cannot be read now is read again."""
    reported: set[MesosTaskId] = set()
    store = framework.store
    while True:
        try:
            for job_id in await store.jobs.active():
                async for page in store.tasks.list(job_id):
                    await status_updates.uncrowded()
                    begun = started(job_id, page, framework.cluster)
                    new = [run for run in begun if run[0] not in reported]
                    status_updates.take(backend.killed_with_framework(new, framework_id, clock.wall()))
                    reported.update(run for run, _ in new)
            return len(reported)
        except Unavailable as error:
            log.warning("the runs of framework %s cannot be read, trying again: %s", framework_id, error)
            await asyncio.sleep(RETRY_SECONDS)
