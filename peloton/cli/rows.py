"""Tables that several commands print."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.cli.told import HEADS, Told, told_cells
from peloton.model.amounts import plain
from peloton.present.times import run_time, short_time

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary
    from peloton.api.v0.task.task_pb2 import PodEvent, TaskInfo
    from peloton.wire.hosts import Resource

TASK_HEADS = ("Instance", "Name", "State", "Healthy", "Start Time", "Run Time", "Host", "Message", "Reason")
TASK_WIDE = ("Goal State", "Run", "Failures", "Config")
EVENT_HEADS = ("Run", "Time", "State", "Goal State", "Healthy", "Config", "Host", "Message", "Reason")
JOB_HEADS = (
    *("ID", "Name", "Type", "Owner", "State", "Created", "Completed", "Instances"),
    *("Running", "Succeeded", "Failed", "Killed"),
)
NOTHING_TOLD: Told = {}
JOB_WIDE = ("Goal State", "Pool", "Labels")


def task_table(tasks: Iterable[TaskInfo], now: float | None = None, told: Told = NOTHING_TOLD) -> Listing:
    """Return a table of tasks; `now` is in seconds since 1970.

    `told`: what agents told last of instances; without it, there are no columns for that.
    """
    at = time.time() if now is None else now
    heads = (*TASK_HEADS, *(HEADS if told else ()), *TASK_WIDE)
    return listing(heads, [_task_row(task, at, told) for task in tasks], wide=len(TASK_WIDE))


def _task_row(task: TaskInfo, now: float, told: Told) -> tuple[object, ...]:
    from peloton.api.v0.task import task_pb2

    runtime = task.runtime
    healthy = task_pb2.HealthState.Name(runtime.healthy) if runtime.healthy else ""
    return (
        task.instanceId,
        task.config.name,
        task_pb2.TaskState.Name(runtime.state),
        healthy,
        short_time(runtime.startTime),
        run_time(runtime.startTime, runtime.completionTime, now),
        runtime.host,
        runtime.message,
        runtime.reason,
        *(told_cells(told.get(task.instanceId)) if told else ()),
        task_pb2.TaskState.Name(runtime.goalState),
        runtime.mesosTaskId.value.rpartition("-")[2],
        runtime.failureCount,
        runtime.configVersion,
    )


def event_table(events: Iterable[PodEvent]) -> Listing:
    """Return a table of pod events in the order given."""
    rows = [
        (
            event.taskId.value.rpartition("-")[2],
            short_time(event.timestamp),
            event.actualState,
            event.goalState,
            event.healthy,
            event.configVersion,
            event.hostname,
            event.message,
            event.reason,
        )
        for event in events
    ]
    return listing(EVENT_HEADS, rows)


def job_table(jobs: Iterable[JobSummary]) -> Listing:
    """Return a table of jobs in the order given."""
    from peloton.api.v0.job import job_pb2

    rows = []
    for job in jobs:
        runtime, counts = job.runtime, job.runtime.taskStats
        rows.append(
            (
                job.id.value,
                job.name,
                job_pb2.JobType.Name(job.type),
                job.owner or job.owningTeam,
                job_pb2.JobState.Name(runtime.state),
                short_time(runtime.creationTime),
                short_time(runtime.completionTime),
                job.instanceCount,
                *(counts.get(name, 0) for name in ("RUNNING", "SUCCEEDED", "FAILED", "KILLED")),
                job_pb2.JobState.Name(runtime.goalState),
                job.respoolID.value,
                ",".join(f"{label.key}={label.value}" for label in job.labels),
            )
        )
    return listing((*JOB_HEADS, *JOB_WIDE), rows, wide=len(JOB_WIDE))


def resources_text(resources: Iterable[Resource]) -> str:
    """Return resources in Mesos' notation, `cpus:4;mem:2048`, with `{REV}` behind revocable ones."""
    return ";".join(_resource_text(resource) for resource in resources)


def _resource_text(resource: Resource) -> str:
    revocable = "{REV}" if resource.HasField("revocable") else ""
    if resource.HasField("ranges"):
        spans = ",".join(f"{span.begin}-{span.end}" for span in resource.ranges.range)
        value = f"[{spans}]"
    elif resource.HasField("set"):
        value = "{" + ",".join(resource.set.item) + "}"
    else:
        value = f"{plain(resource.scalar.value)}"
    return f"{resource.name}{revocable}:{value}"
