"""Requests to jobmgr and resmgr that explain the states of tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from peloton.cli import why
from peloton.cli.failures import CallFailed
from peloton.cli.plain import as_json
from peloton.cli.session import Session

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.private.resmgr.explain.explain_pb2 import Explanation

MAX_TASKS = 1000
"""Tasks of one state that are read for a job; the others are only counted."""


def explain_task(session: Session, job_id: str, instance: int) -> tuple[dict[str, Any], str]:
    """Explain the state of a task, as plain data and as text. Raises CallFailed and Refused."""
    info = _task(session, job_id, instance)
    state = why.state_name(info.runtime.state)
    found, failure = None, ""
    if state not in why.ENDED:
        found, failure = _explanation(session, job_id, instance)
        if found is not None and why.state_name(found.state) in why.ON_HOST and state in why.ON_HOST:
            found = found if why.state_name(found.state) == "PREEMPTING" else None
    job = _job(session, job_id) if state == "INITIALIZED" and found is None else None
    lines = why.task_lines(info, found, job, time.time())
    if failure and state not in why.ON_HOST:
        lines.append(failure)
    run = info.runtime.mesosTaskId.value.rpartition("-")[2]
    head = f"Task {job_id}-{instance}" + (f", run {run}" if run else "")
    plain = {
        "jobId": job_id,
        "instanceId": instance,
        "state": lines[0].partition(":")[0],
        "cause": lines[0].partition(": ")[2],
        "lines": lines[1:],
        "runtime": as_json(info.runtime),
        "resmgr": as_json(found) if found is not None else None,
    }
    return plain, "\n".join([f"{head}: {lines[0]}", *(f"  {line}" for line in lines[1:])])


def explain_job(session: Session, job_id: str) -> tuple[dict[str, Any], str]:
    """Explain the states of a job's tasks, as plain data and as text. Raises CallFailed and Refused."""
    job = _job(session, job_id)
    stats = job.runtime.taskStats
    waiting, failure = _waiting(session, job_id)
    groups = list(waiting)
    unknown = stats.get("PENDING", 0) - sum(group.count for group in waiting if group.state != "PREEMPTING")
    if unknown > 0:
        cause = failure or why.UNKNOWN_TO_RESMGR
        groups.append(why.Group("PENDING", cause, unknown))
    for state in ("INITIALIZED", *why.ON_HOST, *why.ENDED):
        if stats.get(state, 0):
            groups += _jobmgr_groups(session, job, state, stats[state])
    head = why.job_head(job)
    plain = {"jobId": job_id, "summary": head, "groups": [group.plain() for group in groups]}
    return plain, "\n".join([head, *(group.text() for group in groups)])


def _jobmgr_groups(session: Session, job: JobInfo, state: str, count: int) -> list[why.Group]:
    from peloton.api.v0.query import query_pb2
    from peloton.api.v0.task import task_pb2

    spec = task_pb2.QuerySpec(
        taskStates=[task_pb2.TaskState.Value(state)], pagination=query_pb2.PaginationSpec(limit=MAX_TASKS)
    )
    request = task_pb2.QueryRequest(jobId=job.id, spec=spec)
    groups = why.jobmgr_groups(session.call("task_svc", "Query", request).records, job)
    unread = count - sum(group.count for group in groups)
    if unread > 0 and len(groups) == 1:
        groups[0].count += unread
    elif unread > 0:
        groups.append(why.Group(state, f"not looked at: only the first {MAX_TASKS} were", unread))
    return groups


def _waiting(session: Session, job_id: str) -> tuple[list[why.Group], str]:
    from peloton.api.v0 import peloton_pb2
    from peloton.private.resmgr.explain import explain_pb2

    request = explain_pb2.ExplainJobRequest(job_id=peloton_pb2.JobID(value=job_id))
    try:
        return why.waiting_groups(session.call("explain_svc", "ExplainJob", request).groups), ""
    except CallFailed as failure:
        return [], f"the resource manager could not be asked: {failure}"


def _explanation(session: Session, job_id: str, instance: int) -> tuple[Explanation | None, str]:
    """Return what the resource manager knows of a task, or None and why its answer is missing."""
    from peloton.api.v0 import peloton_pb2
    from peloton.private.resmgr.explain import explain_pb2

    request = explain_pb2.ExplainTaskRequest(job_id=peloton_pb2.JobID(value=job_id), instance=instance)
    try:
        return session.call("explain_svc", "ExplainTask", request).explanation, ""
    except CallFailed as failure:
        if failure.code == "NOT_FOUND":
            return None, ""
        return None, f"the resource manager could not be asked: {failure}"


def _task(session: Session, job_id: str, instance: int) -> TaskInfo:
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.task import task_pb2

    request = task_pb2.GetRequest(jobId=peloton_pb2.JobID(value=job_id), instanceId=instance)
    info: TaskInfo = session.call("task_svc", "Get", request).result
    return info


def _job(session: Session, job_id: str) -> JobInfo:
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.job import job_pb2

    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
    info: JobInfo = session.call("job_svc", "Get", request).jobInfo
    return info
