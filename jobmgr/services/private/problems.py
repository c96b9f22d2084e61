"""What the job manager sees that is wrong with workflows, as texts."""

from __future__ import annotations

from jobmgr.engine.lanes import Lanes
from peloton.clock import NANOSECONDS, Clock
from peloton.model.amounts import elapsed
from peloton.model.ids import JobId
from peloton.model.plural import plural
from peloton.model.problems import NAMED, Problem


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
