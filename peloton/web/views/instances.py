"""The pages of an instance of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client.why import ENDED, explain_task
from peloton.errors import NotFound, PelotonError
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.permissions import refusals
from peloton.web.sandbox import known_instance
from peloton.web.views.instances_page import events_of, instance_of, lanes_of
from peloton.web.views.jobs import pools_of, with_links
from peloton.web.views.jobs_why import Waiting, task_waiting
from peloton.web.views.timeline import timeline

FILES = ("jobmgr", "peloton.api.v0.task.TaskManager/BrowseSandbox")
"""The method by which output and files are found."""


async def load_instance(subject: Subject) -> Mapping[str, Any]:
    """Return an instance with its runs and its events."""
    calls, job_id, number = subject.calls, subject.path["job_id"], subject.path["instance"]
    job, number = peloton_pb2.JobID(value=job_id), known_instance(number)
    got, told, about, pools = await asyncio.gather(
        calls.read("task_svc", "Get", task_pb2.GetRequest(jobId=job, instanceId=number)),
        calls.read("task_svc", "GetPodEvents", task_pb2.GetPodEventsRequest(jobId=job, instanceId=number)),
        calls.read("job_svc", "Get", job_pb2.GetRequest(id=job)),
        pools_of(calls),
    )
    held = about.jobInfo.config.respoolID.value
    pool = next((each.path.value for each in pools if each.id.value == held), "")
    denied = await refusals(calls, {"files": FILES}, pool)
    instance, events = instance_of(job_id, got), events_of(told.result)
    return {
        "job_name": about.jobInfo.config.name or "(no name)",
        "instances": about.jobInfo.config.instanceCount,
        "task": instance,
        "events": events,
        "denied": denied,
        "timeline": timeline(lanes_of(events), subject.now),
        "waiting": await _waiting(calls, about.jobInfo, got.result, subject.now),
    }


async def _waiting(calls: Calls, job: job_pb2.JobInfo, info: task_pb2.TaskInfo, now: float) -> Waiting | None:
    """Return why an instance waits; None where it runs or has ended."""
    state = task_pb2.TaskState.Name(info.runtime.state)
    if state in (*ENDED, "RUNNING"):
        return None
    found, failure = None, ""
    request = explain_pb2.ExplainTaskRequest(job_id=job.id, instance=info.instanceId)
    try:
        found = (await calls.read("explain_svc", "ExplainTask", request)).explanation
    except NotFound:
        pass  # the resource manager does not have it: jobmgr's state is explained alone
    except PelotonError as error:
        failure = f"the resource manager could not be asked: {error}"
    why = explain_task(info, found, job, now)
    waits = task_waiting(found, why.state, failure or why.cause)
    return None if waits is None else (await with_links(calls, [waits]))[0]


PAGES = (
    Page(
        "/jobs/{job_id}/instances/{instance:int}",
        "instance.html",
        load_instance,
        live=("state", "waiting", "runs", "timeline", "events"),
        nav="Jobs",
    ),
)
