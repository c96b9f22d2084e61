"""The pages of an instance of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha_pb2
from peloton.calls.web import (
    BROWSE_SANDBOX,
    EXPLAIN_TASK,
    GET_JOB,
    GET_POD_EVENTS,
    GET_TASK,
    GET_USAGE,
    START_SESSION,
)
from peloton.errors import NotFound, PelotonError
from peloton.present.usage import usage_text
from peloton.present.why import ENDED, explain_task
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.permissions import Method, refusals
from peloton.web.sandbox import known_instance
from peloton.web.views.instances.rows import Event, Instance, events_of, instance_of, lanes_of
from peloton.web.views.jobs.names import names_in
from peloton.web.views.jobs.pages import pool_of, with_links
from peloton.web.views.jobs.why import Waiting, task_waiting
from peloton.web.views.shared.timeline import timeline
from peloton.web.views.shared.usage_charts import instance_charts


async def load_instance(subject: Subject) -> Mapping[str, Any]:
    """Return an instance with its runs and its events."""
    calls, job_id, number = subject.calls, subject.path["job_id"], subject.path["instance"]
    job, number = peloton_pb2.JobID(value=job_id), known_instance(number)
    got, told, about = await asyncio.gather(
        calls.read(GET_TASK, task_pb2.GetRequest(jobId=job, instanceId=number)),
        calls.read(GET_POD_EVENTS, task_pb2.GetPodEventsRequest(jobId=job, instanceId=number)),
        calls.read(GET_JOB, job_pb2.GetRequest(id=job)),
    )
    methods: Mapping[str, Method] = {"files": BROWSE_SANDBOX, "terminal": START_SESSION}
    denied = await refusals(calls, methods, await pool_of(calls, about))
    instance, events = instance_of(job_id, got), events_of(told.result)
    usage = await _usage(calls, job_id, got.result)
    return {
        "job_name": about.jobInfo.config.name or "(no name)",
        "instances": about.jobInfo.config.instanceCount + about.jobInfo.runtime.releasedInstances,
        "task": instance,
        "events": events,
        "denied": denied,
        "timeline": timeline(lanes_of(events), subject.now),
        "usage": "" if usage is None else usage_text(usage),
        "usage_charts": () if usage is None else instance_charts(usage),
        "names": await names_in(calls, _texts(instance, events)),
        "waiting": await _waiting(calls, about.jobInfo, got.result, subject.now),
    }


def _texts(instance: Instance, events: Iterable[Event]) -> list[str]:
    """Return the texts of an instance that may name other jobs."""
    return [instance.text, *(run.reason for run in instance.runs), *(event.text for event in events)]


async def _usage(calls: Calls, job_id: str, info: task_pb2.TaskInfo) -> usage_pb2.InstanceUsage | None:
    """Return what an instance uses; None where it does not run, or its agent does not tell."""
    if info.runtime.state != task_pb2.RUNNING:
        return None
    job = v1alpha_pb2.JobID(value=job_id)
    request = usage_pb2.GetUsageRequest(job_id=job, instances=[info.instanceId], with_course=True)
    try:
        found = (await calls.read(GET_USAGE, request)).usages
    except PelotonError:  # a job manager of an earlier version, or a job that has just ended
        return None
    return found[0] if found else None


async def _waiting(calls: Calls, job: job_pb2.JobInfo, info: task_pb2.TaskInfo, now: float) -> Waiting | None:
    """Return why an instance waits; None where it runs or has ended."""
    state = task_pb2.TaskState.Name(info.runtime.state)
    if state in (*ENDED, "RUNNING"):
        return None
    found, failure = None, ""
    request = explain_pb2.ExplainTaskRequest(job_id=job.id, instance=info.instanceId)
    try:
        found = (await calls.read(EXPLAIN_TASK, request)).explanation
    except NotFound:
        pass  # the resource manager does not have it: jobmgr's state is explained alone
    except PelotonError as error:
        failure = f"the resource manager could not be asked: {error}"
    waits = task_waiting(explain_task(info, found, job, now, failure), found, job)
    return None if waits is None else (await with_links(calls, [waits]))[0]


PAGES = (
    Page(
        "/jobs/{job_id}/instances/{instance:int}",
        "instance.html",
        load_instance,
        live=("state", "terminal", "waiting", "usage", "runs", "timeline", "events"),
        nav="Jobs",
    ),
)
