"""What becomes of the runs of a framework that was removed.

An operator tore it down, or it was away for longer than its failover time-out. Mesos kills its runs and tells
nobody, and for the framework that is subscribed next they are unknown. They are told of here as Mesos notes
them for itself, before that framework has an id: otherwise reconciliation would call them lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

from hostmgr.statuses import Statuses
from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS, Clock
from peloton.errors import Unavailable
from peloton.model.ids import JobId, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from storage.interface import Store

LONGEST_SECONDS = 60.0
"""For telling, and for jobmgr to store it: then the next subscription waits no longer."""
LOOK_SECONDS = 0.1
RETRY_SECONDS = 1.0
STARTED = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.KILLING})
"""A run that is LAUNCHED has not begun, or not told of it: reconciliation finds that it did not."""
log = logging.getLogger(__name__)


async def tell_of_removal(store: Store, statuses: Statuses, clock: Clock, framework_id: str) -> None:
    """Tell that the runs of this framework were killed, and wait until jobmgr has stored it."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            told = await _tell(store, statuses, clock, framework_id)
            while statuses.ring.pending:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        log.error("not all runs of framework %s are told of as killed: some will count as lost", framework_id)
    else:
        log.warning("%d runs were killed with framework %s", told, framework_id)


async def _tell(store: Store, statuses: Statuses, clock: Clock, framework_id: str) -> int:
    """How many runs were told of. What the store cannot tell now is asked for again."""
    told: set[str] = set()
    while True:
        try:
            for job_id in await store.jobs.active():
                async for page in store.tasks.list(job_id):
                    await statuses.uncrowded()
                    killed = _killed(job_id, page, clock.wall(), framework_id)
                    new = [each for each in killed if each.task_id.value not in told]
                    statuses.take(new)
                    told.update(each.task_id.value for each in new)
            return len(told)
        except Unavailable as error:
            log.warning("the runs of framework %s cannot be read, will try again: %s", framework_id, error)
            await asyncio.sleep(RETRY_SECONDS)


def _killed(
    job_id: JobId, page: Mapping[int, TaskRuntime], wall: int, framework_id: str
) -> Iterator[mesos_pb2.TaskStatus]:
    for instance, runtime in page.items():
        if runtime.state in STARTED:
            yield mesos_pb2.TaskStatus(
                task_id=mesos_pb2.TaskID(value=mesos_task_id(job_id, instance, runtime.run)),
                agent_id=mesos_pb2.AgentID(value=runtime.agent_id),
                state=mesos_pb2.TASK_KILLED,
                source=mesos_pb2.TaskStatus.SOURCE_MASTER,
                reason=mesos_pb2.TaskStatus.REASON_FRAMEWORK_REMOVED,
                message=f"Framework {framework_id} removed",
                timestamp=wall / NANOSECONDS,
            )
