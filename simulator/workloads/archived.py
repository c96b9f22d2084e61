"""Jobs of our own archive (`peloton-archiver`), so that an operator replays what ran."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median

from archiver.reading import Archive
from archiver.records import ArchivedJob
from peloton.errors import InvalidArgument, PelotonError
from peloton.model.ids import JobId
from peloton.model.resources import Resources
from peloton.model.workload import GROWTH_INTERVAL_SECONDS
from peloton.wire.workload import job_workload
from simulator.jobs import SimJob


def archived_jobs(path: Path) -> Iterator[SimJob]:
    """Read the batch jobs of an archive. An instance runs for the median time that those of its job took.

    The archive has the ids of pools, which are their names here. Jobs of which no instance ever ran are
    left out, as nobody knows for how long they would have.
    """
    return iter(jobs_by_id(path).values())


def jobs_by_id(path: Path) -> dict[JobId, SimJob]:
    """Return the same by their ids. Raises InvalidArgument, OSError."""
    try:
        made = ((job.job_id, _job_of(job)) for job in Archive(path).jobs())
        return {job_id: found for job_id, found in made if found is not None}
    except (PelotonError, KeyError, ValueError) as error:
        raise InvalidArgument(str(path), str(error), "an archive that peloton-archiver wrote") from None


def _job_of(job: ArchivedJob) -> SimJob | None:
    config = job.config
    runs = [
        _seconds(task.completionTime) - _seconds(task.startTime)
        for task in job.tasks.values()
        if task.startTime and task.completionTime
    ]
    if not runs:
        return None
    needs, sla = config.defaultConfig.resource, config.sla
    workload = job_workload(config)
    return SimJob(
        name=config.name or job.job_id,
        submit=_seconds(job.runtime.creationTime),
        pool=f"/{config.respoolID.value}",
        resources=Resources.of(needs.cpuLimit, needs.memLimitMb, needs.diskLimitMb, needs.gpuLimit),
        seconds=max(0.0, median(runs)),
        instances=config.instanceCount,
        gang=sla.minimumRunningInstances > 1 or workload.elastic,
        needed=max(sla.minimumRunningInstances, 1) if workload.elastic else 0,
        growth_interval=workload.growth_interval or GROWTH_INTERVAL_SECONDS,
        in_place=workload.in_place,
        priority=sla.priority,
        preemptible=sla.preemptible,
        longest=sla.maxRunningTime,
        kind=config.owner or config.owningTeam,
    )


def _seconds(text: str) -> float:
    """Return seconds since 1970 of a time as messages have it."""
    return datetime.fromisoformat(text).timestamp()
