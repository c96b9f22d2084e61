"""Where the runs of an instance were launched."""

from __future__ import annotations

from typing import NamedTuple

from jobmgr.services.common.runs import place_of, run_number
from jobmgr.services.common.view import JobView
from peloton.errors import NotFound


class LaunchedRun(NamedTuple):
    """A run, and the agent that has its files."""

    run: int
    host: str
    agent_id: str


async def launched_run(job: JobView, instance: int, wanted: str) -> LaunchedRun:
    """Return the run that is wanted, or the current one where `wanted` is empty.

    Raises NotFound where it never was on a host, InvalidArgument for what is no run of the instance.
    """
    runtime = await job.task(instance)
    last = await job.removed_run(instance) if runtime is None else runtime.run
    if not last:
        raise NotFound(f"instance {instance} has not been created yet")
    run = run_number(job.job_id, instance, wanted) if wanted else last
    if runtime is not None and run == runtime.run and runtime.agent_id:
        return LaunchedRun(run, runtime.host, runtime.agent_id)
    events = await job.store.pod_events.list(job.job_id, instance, run)
    host, agent_id = place_of(events, run)
    if not agent_id:
        raise NotFound(f"run {run} of instance {instance} has not been launched")
    return LaunchedRun(run, host, agent_id)
