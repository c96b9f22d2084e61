"""Finds the jobs that a new job names in `dependsOn`."""

from __future__ import annotations

from collections.abc import Mapping

from jobmgr.engine.engine import Engine
from jobmgr.services.common.reach import Reach, limited, reach
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, NotFound
from peloton.model.dependency import DependencyEnd, Verdict, verdict
from peloton.model.ids import JobId, PoolId, is_uuid
from peloton.model.job import JobQuery, JobSummary
from peloton.model.pool import pool_paths
from peloton.model.states import JobType

MOST_FOLLOWED = 1000
"""Jobs that a new job waits for, by way of others, among which it is looked for itself."""
_NEWEST = (("creation_time", True),)


async def find_dependencies(engine: Engine, job_id: JobId, config: job_pb2.JobConfig) -> None:
    """Fill in the ids of the jobs that a config names, which is checked otherwise.

    Raises InvalidArgument for a job that does not exist, or that the caller may not read, for one that can
    never end as wanted, and where jobs would wait for each other.
    """
    if not config.dependsOn:
        return
    paths = pool_paths(await engine.store.pools.all())
    found: dict[JobId, int] = {}
    for number, each in enumerate(config.dependsOn):
        path = f"dependsOn[{number}]"
        pool = _pool(each, path, paths) if each.pool else config.respoolID.value
        job = await _find(engine, each, f"{path}.job", pool, paths, reach())
        _check(job, each, f"{path}.job", job_id)
        first = found.setdefault(job.job_id, number)
        if first != number:
            raise InvalidArgument(f"{path}.job", each.job, f"another job than dependsOn[{first}] names")
        each.job_id = job.job_id
    await _check_circle(engine, job_id, config)


def _pool(given: scheduling_pb2.Dependency, path: str, paths: Mapping[PoolId, str]) -> PoolId:
    for pool_id, known in paths.items():
        if known == given.pool:
            return pool_id
    raise InvalidArgument(f"{path}.pool", given.pool, "the path of a pool that exists, such as /teams/data")


async def _find(
    engine: Engine,
    given: scheduling_pb2.Dependency,
    path: str,
    pool: PoolId,
    paths: Mapping[PoolId, str],
    mine: Reach,
) -> JobSummary:
    """Return the job that is named: by its id, else the newest of that name in the pool."""
    if is_uuid(given.job):
        try:
            job = await engine.summary(given.job)
        except NotFound:
            job = None
        if job is None or not mine.has(job.job_id, job.spec, paths):
            raise InvalidArgument(path, given.job, "the id of a job that exists") from None
        return job
    query = JobQuery(exact_name=given.job, pool_id=pool, order=_NEWEST, limit=1)
    jobs = (await engine.find_jobs(await limited(query, engine))).jobs
    if not jobs:
        where = paths.get(pool, pool)
        raise InvalidArgument(path, given.job, f"the name of a job in the pool {where}, or the id of a job")
    return jobs[0]


def _check(job: JobSummary, given: scheduling_pb2.Dependency, path: str, own: JobId) -> None:
    if job.job_id == own:
        raise InvalidArgument(path, given.job, "another job: a job cannot wait for itself")
    if job.spec.type is not JobType.BATCH:
        kind = job.spec.type.name.lower()
        raise InvalidArgument(
            path, given.job, f"a batch job: this one is a {kind} job, which runs until stopped"
        )
    if job.spec.schedule is not None:
        wanted = "a job that ends: this one has a schedule, and each of its runs is a job of its own"
        raise InvalidArgument(path, given.job, wanted)
    if verdict(DependencyEnd(given.end), job.runtime.state) is Verdict.NEVER:
        wanted = f"a job that can still succeed: {job.job_id} is {job.runtime.state.name}"
        raise InvalidArgument(path, given.job, wanted)


async def _check_circle(engine: Engine, job_id: JobId, config: job_pb2.JobConfig) -> None:
    """Refuse a job for which one waits that it is to wait for: its id was that of a job that is deleted."""
    came_from = {each.job_id: f"dependsOn[{number}].job" for number, each in enumerate(config.dependsOn)}
    waiting = list(came_from)
    for at in waiting:
        if len(waiting) > MOST_FOLLOWED:
            return
        try:
            job = await engine.summary(at)
        except NotFound:
            continue
        for each in job.spec.depends_on:
            if each.job_id == job_id:
                wanted = f"a job that does not wait for this one: job {at} waits for {job_id}"
                raise InvalidArgument(came_from[at], job_id, wanted)
            if each.job_id not in came_from:
                came_from[each.job_id] = came_from[at]
                waiting.append(each.job_id)
