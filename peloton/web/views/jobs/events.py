"""What happened to a job, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.web.views.jobs.job import JobHead
from peloton.web.views.jobs.workflow import workflow

SHOWN = 100


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job; the time is in seconds since 1970."""

    at: float
    what: str
    state: str = ""


def job_events(head: JobHead, workflows: Iterable[stateless_pb2.WorkflowInfo]) -> list[JobEvent]:
    """Return what is known to have happened to a job, newest first."""
    by = f" by {head.updated_by}" if head.updated_by and head.version == 1 else ""
    found = [JobEvent(head.created, f"created{by}")] if head.created else []
    if head.started:
        found.append(JobEvent(head.started, "the first instance ran", "RUNNING"))
    if head.completed:
        found.append(JobEvent(head.completed, "ended", head.state))
    if head.version > 1 and head.updated:
        by = f" by {head.updated_by}" if head.updated_by else ""
        found.append(JobEvent(head.updated, f"version {head.version} of the spec was stored{by}"))
    for info in workflows:
        each = workflow(info)
        if each is not None:
            name = each.kind if each.creates else f"{each.kind} from {each.before} to {each.after}"
            found += [JobEvent(step.at, name, step.state) for step in each.steps]
            if not each.steps and each.created:
                found.append(JobEvent(each.created, f"{name} began", each.state))
    return sorted(found, key=lambda event: -event.at)[:SHOWN]
