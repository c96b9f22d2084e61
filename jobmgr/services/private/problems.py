"""What the job manager sees that is wrong with jobs and their workflows, as texts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.lanes import Lanes
from peloton.clock import NANOSECONDS, Clock
from peloton.model.amounts import elapsed
from peloton.model.ids import JobId
from peloton.model.plural import plural
from peloton.model.problems import NAMED, Problem
from peloton.model.states import TaskState


async def refused_jobs(lanes: Lanes) -> list[Problem]:
    """Return the jobs with tasks that the resource manager does not queue: they are larger than a limit."""
    refused = list(islice(_refused(lanes.in_memory()), NAMED + 1))
    found = [_of_refused(job, reason) for job, reason in refused[:NAMED]]
    if len(refused) > NAMED:
        found.append(Problem("warn", "Further jobs have tasks that may not be queued"))
    return found


def _refused(jobs: Iterable[CachedJob]) -> Iterable[tuple[CachedJob, str]]:
    """Yield jobs with the reason of the first of their tasks that is refused."""
    for job in jobs:
        if job.counts.get(TaskState.INITIALIZED):
            reason = next(
                (task.reason for task in job.tasks if task.state is TaskState.INITIALIZED and task.reason), ""
            )
            if reason:
                yield job, reason


def _of_refused(job: CachedJob, reason: str) -> Problem:
    tasks = plural(job.counts[TaskState.INITIALIZED], "task")
    name = job.spec.name or job.job_id
    return Problem(
        "warn",
        f"Job {name} can never run as its pool is now: {tasks} may not be queued: {reason}",
        f"/jobs/{job.job_id}",
        "ask for less, or raise the limit of the pool",
    )


async def silent_workflows(lanes: Lanes, clock: Clock) -> list[Problem]:
    """Return the workflows that run, are not paused, and have made no progress for long."""
    silent = lanes.silent()
    found = [
        problem
        for job_id, reason in list(silent.items())[:NAMED]
        if (problem := _problem(lanes, clock, job_id, reason)) is not None
    ]
    if len(silent) > NAMED:
        found.append(Problem("warn", f"{plural(len(silent) - NAMED, 'further workflow')} without progress"))
    return found


def _problem(lanes: Lanes, clock: Clock, job_id: JobId, reason: str) -> Problem | None:
    job = lanes.job(job_id)
    if job is None or job.workflow is None:
        return None
    workflow = job.workflow
    seconds = (clock.wall() - max(workflow.updated_at, workflow.created_at)) / NANOSECONDS
    what, waits = workflow.type.name.lower(), f": {reason}" if reason else ""
    return Problem(
        "warn",
        f"The {what} of {job.spec.name or job_id} has made no progress for {elapsed(seconds)}{waits}",
        f"/jobs/{job_id}",
        f"`peloton job why {job_id}` tells why; abort it, or update the job again",
    )
