"""Requests to jobmgr and resmgr that explain the states of tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from peloton.cli.failures import CallFailed
from peloton.cli.session import Session
from peloton.cli.used import read_used
from peloton.client.rpcs import RPCS
from peloton.present import why
from peloton.present.unused import lacking, unused

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.model.estimate import StartEstimate
    from peloton.private.resmgr.explain.explain_pb2 import Explanation, Group


MOST_ENDS = 5
"""Groups of failed instances of which one is asked how its run ended."""


@dataclass(frozen=True, slots=True)
class TaskWhy:
    """Why a task is in its state; `found` is what the resource manager knows of it."""

    why: why.Why
    info: TaskInfo
    found: Explanation | None


@dataclass(frozen=True, slots=True)
class JobWhy:
    """Why the tasks of a job are in their states, those with one cause together."""

    job: JobInfo
    groups: list[why.Group]
    hints: list[str]
    """Who holds cores or memory that are not used, where the pool has too little of them."""
    start: StartEstimate | str | None = None
    """When those that wait will start, or why that is not known; None where nobody was asked."""

    @property
    def waits(self) -> bool:
        """Whether tasks wait for resources that some host could have."""
        return any(
            group.state not in (*why.ENDED, *why.ON_HOST)
            and not (group.first is not None and group.first.HasField("shortage"))
            for group in self.groups
        )


def explain_task(session: Session, job_id: str, instance: int) -> TaskWhy:
    """Explain the state of a task. Raises CallFailed and Refused."""
    info = _task(session, job_id, instance)
    state = why.state_name(info.runtime.state)
    found, failure = None, ""
    if state not in why.ENDED:
        found, failure = _explanation(session, job_id, instance)
    job = _job(session, job_id) if state == "INITIALIZED" and found is None else None
    told = why.explain_task(info, found, job, time.time(), failure)
    if end := _end_of_run(session, job_id, info):
        told.lines.append(end)
    return TaskWhy(told, info, found)


def explain_job(session: Session, job_id: str) -> JobWhy:
    """Explain the states of a job's tasks. Raises CallFailed and Refused."""
    job = _job(session, job_id)
    waiting, failure = _waiting(session, job_id)
    read = {
        state: session.call(RPCS.task_svc.Query, why.task_query(job_id, state)).records
        for state in why.states_to_read(job)
    }
    groups = why.job_groups(job, waiting, failure, read)
    _add_ends(session, job_id, groups, read.values())
    kinds = sorted({lacking(group.first) for group in groups} - {""})
    return JobWhy(job, groups, _hints(session, job, kinds) if kinds else [])


def _add_ends(
    session: Session, job_id: str, groups: Iterable[why.Group], read: Iterable[Iterable[TaskInfo]]
) -> None:
    """Add how the run of one instance ended to groups of instances that wait for their next run."""
    tasks = {task.instanceId: task for tasks in read for task in tasks}
    failed = (group for group in groups if group.state in why.ENDED and group.instances)
    for group in islice(failed, MOST_ENDS):
        instance = group.instances[0]
        if instance in tasks and (end := _end_of_run(session, job_id, tasks[instance])):
            group.lines.append(f"instance {instance}: {end}")


def _end_of_run(session: Session, job_id: str, info: TaskInfo) -> str:
    """Return how a run ended whose instance waits for the next one; empty where its message tells it."""
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.task import task_pb2

    if not why.waits_for_next_run(info.runtime):
        return ""
    request = task_pb2.GetPodEventsRequest(
        jobId=peloton_pb2.JobID(value=job_id),
        instanceId=info.instanceId,
        runId=info.runtime.mesosTaskId.value,
        limit=1,
    )
    try:
        return why.end_of_run(info.runtime, session.call(RPCS.task_svc.GetPodEvents, request).result)
    except CallFailed as failure:
        return f"how the run ended is not known: {failure}"


def _hints(session: Session, job: JobInfo, kinds: Iterable[str]) -> list[str]:
    """Return what is known of unused cores or memory; nothing where the job manager does not tell."""
    used = read_used(session)
    pool = job.config.respoolID.value
    return [] if used is None else [text for kind in kinds for text in unused(kind, pool, used.values())]


def explain_waiting(session: Session, job: JobInfo) -> list[why.Group]:
    """Explain why tasks of a job are on no host yet, those with one cause together. Raises CallFailed."""
    waiting, failure = _waiting(session, job.id.value)
    initialized: Iterable[TaskInfo] = ()
    if job.runtime.taskStats.get("INITIALIZED", 0):
        initialized = session.call(RPCS.task_svc.Query, why.task_query(job.id.value, "INITIALIZED")).records
    groups = why.waiting_of_job(job, waiting, failure, initialized)
    return [group for group in groups if group.state not in why.ON_HOST]


def _waiting(session: Session, job_id: str) -> tuple[Iterable[Group], str]:
    """Return what the resource manager knows of a job's tasks, or nothing and why."""
    from peloton.api.v0 import peloton_pb2
    from peloton.private.resmgr.explain import explain_pb2

    request = explain_pb2.ExplainJobRequest(job_id=peloton_pb2.JobID(value=job_id))
    try:
        return session.call(RPCS.explain_svc.ExplainJob, request).groups, ""
    except CallFailed as failure:
        return [], f"the resource manager could not be asked: {failure}"


def _explanation(session: Session, job_id: str, instance: int) -> tuple[Explanation | None, str]:
    """Return what the resource manager knows of a task, or None and why its answer is missing."""
    from peloton.api.v0 import peloton_pb2
    from peloton.private.resmgr.explain import explain_pb2

    request = explain_pb2.ExplainTaskRequest(job_id=peloton_pb2.JobID(value=job_id), instance=instance)
    try:
        return session.call(RPCS.explain_svc.ExplainTask, request).explanation, ""
    except CallFailed as failure:
        if failure.code == "NOT_FOUND":
            return None, ""
        return None, f"the resource manager could not be asked: {failure}"


def _task(session: Session, job_id: str, instance: int) -> TaskInfo:
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.task import task_pb2

    request = task_pb2.GetRequest(jobId=peloton_pb2.JobID(value=job_id), instanceId=instance)
    return session.call(RPCS.task_svc.Get, request).result


def _job(session: Session, job_id: str) -> JobInfo:
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.job import job_pb2

    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
    return session.call(RPCS.job_svc.Get, request).jobInfo
