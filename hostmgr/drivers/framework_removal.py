"""Report the runs of a removed framework as killed.

An operator tore the framework down, or it was away for longer than its failover time-out. Mesos kills its
runs without a status, and the framework that is subscribed next does not know them. They are reported here as
Mesos records them, before that framework has an id: otherwise reconciliation would call them lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

from hostmgr.backend.interface import Backend
from hostmgr.drivers.status_updates import StatusUpdates
from peloton.clock import Clock
from peloton.errors import Unavailable
from peloton.model.cluster import UNNAMED, cluster_of
from peloton.model.ids import JobId, MesosTaskId, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from storage.interface import Store

LONGEST_SECONDS = 60.0
"""Longest time until all is reported and jobmgr has stored it. Then the next subscription waits no longer."""
POLL_SECONDS = 0.1
RETRY_SECONDS = 1.0
STARTED = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.KILLING})
"""A run that is LAUNCHED has not begun, or its begin is not known: reconciliation finds that it did not."""
log = logging.getLogger(__name__)


async def report_removal(
    store: Store,
    backend: Backend,
    status_updates: StatusUpdates,
    clock: Clock,
    framework_id: str,
    cluster: str = UNNAMED,
) -> None:
    """Report the runs of this framework as killed, and wait until jobmgr has stored it."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            count = await _report(store, backend, status_updates, clock, framework_id, cluster)
            while status_updates.ring.pending:  # noqa: ASYNC110 - the ring has no event for it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        log.error("not all runs of framework %s are reported as killed: some count as lost", framework_id)
    else:
        log.warning("%d runs were killed with framework %s", count, framework_id)


async def _report(
    store: Store,
    backend: Backend,
    status_updates: StatusUpdates,
    clock: Clock,
    framework_id: str,
    cluster: str,
) -> int:
    """Return how many runs were reported. What cannot be read now is read again."""
    reported: set[MesosTaskId] = set()
    while True:
        try:
            for job_id in await store.jobs.active():
                async for page in store.tasks.list(job_id):
                    await status_updates.uncrowded()
                    new = [run for run in _started(job_id, page, cluster) if run[0] not in reported]
                    status_updates.take(backend.killed_with_framework(new, framework_id, clock.wall()))
                    reported.update(run for run, _ in new)
            return len(reported)
        except Unavailable as error:
            log.warning("the runs of framework %s cannot be read, trying again: %s", framework_id, error)
            await asyncio.sleep(RETRY_SECONDS)


def _started(
    job_id: JobId, page: Mapping[int, TaskRuntime], cluster: str
) -> Iterator[tuple[MesosTaskId, str]]:
    """Iterate over the runs that have begun in a cluster, each with its agent id."""
    for instance, runtime in page.items():
        if runtime.state in STARTED and cluster_of(runtime.host) == cluster:
            yield mesos_task_id(job_id, instance, runtime.run), runtime.agent_id
