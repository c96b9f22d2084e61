"""Services that crash-loop: instances failed, and wait throttled before their next run."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.state.limits import Limits
from jobmgr.core.state.throttling import next_try
from jobmgr.core.task.gang import members_of, restart_of
from jobmgr.engine.elsewhere import Looping
from jobmgr.engine.engine import Engine
from peloton.clock import NANOSECONDS
from peloton.errors import Unavailable
from peloton.model.dependency import told_waits
from peloton.model.job import CrashLoop, JobQuery, JobRuntime, instance_count
from peloton.model.shard import SHARDS
from peloton.wire.schedule import told, told_schedule

MOST_ASKED = 1000
"""Throttled instances of a job of which the next try is looked up."""


def explained(job: CachedJob, limits: Limits) -> JobRuntime:
    """Return the runtime of an active job with what holds it up, and with the size of an elastic gang."""
    if job.runtime.suspended and job.runtime.goal not in ENDING_JOB_GOALS:
        return replace(job.runtime, waits=f"suspended since {told(job.runtime.suspended // NANOSECONDS)}")
    if job.runtime.unmet and job.runtime.goal not in ENDING_JOB_GOALS:
        return replace(job.runtime, waits=told_waits(job.spec.depends_on, job.runtime.unmet))
    if job.spec.schedule is not None and job.runtime.goal not in ENDING_JOB_GOALS:
        waits = told_schedule(job.spec.schedule, job.runtime.schedule_state)
        return replace(job.runtime, waits=waits, follows=(job.job_id, job.spec.schedule))
    if job.spec.workload.in_place:
        return replace(job.runtime, gang_members=members_of(job))
    if job.spec.bound_members:
        return replace(job.runtime, gang_restart=restart_of(job), gang_members=members_of(job))
    found = crash_loop(job, limits)
    return job.runtime if found is None else replace(job.runtime, crash_loop=found)


def crash_loop(job: CachedJob, limits: Limits) -> CrashLoop | None:
    """Return how many instances of an active job are throttled, and when the first one runs again."""
    if not job.throttled:
        return None
    tries = (
        next_try(job.tasks[instance], limits.throttle_first, limits.throttle_most)
        for instance in islice(job.throttled, MOST_ASKED)
    )
    return CrashLoop(len(job.throttled), instance_count(job.spec, job.runtime), min(tries))


async def crash_looping(query: JobQuery, engine: Engine) -> JobQuery:
    """Return a query for services with throttled instances only. Raises as `looping_here`."""
    return replace(query, ids=await engine.elsewhere.crash_looping(lambda: looping_here(engine)))


def looping_here(engine: Engine) -> Looping:
    """Return the services of this instance with throttled instances, and the shards that they are of.

    Raises Unavailable while not all active jobs are in memory: who crash-loops is known there only.
    """
    if unread := len(engine.lanes.unread):
        raise Unavailable(
            f"{unread:,} of the active jobs are not read yet, after a change of leaders: try again"
        )
    shards = (shard for shard in range(SHARDS) if engine.shards.phase(shard) is not None)
    jobs = (job.job_id for job in engine.lanes.in_memory() if job.throttled)
    return Looping(frozenset(shards), frozenset(jobs))
