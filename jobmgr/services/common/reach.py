"""The jobs that a caller may read: what lists, queries and watches leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jobmgr.engine.engine import Engine
from peloton.identity.principal import EVERYTHING, Grant, Scope, current, granted
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobQuery, JobScope, JobSpec
from peloton.model.pool import pool_paths

Paths = Mapping[PoolId, str]
"""The paths of pools by their ids."""


@dataclass(frozen=True, slots=True)
class Reach:
    """For what a caller was granted a call. Kept by streams, which outlast the check at their begin."""

    caller: str
    """The name of the user; empty for the default user, who owns nothing, and where nobody asks."""
    grant: Grant

    def has_jobs_in(self, path: str) -> bool:
        """Return whether all jobs in the pool at a path may be read."""
        return self.all or any(scope.holds(path, owned=False) for scope in self.grant)

    @property
    def all(self) -> bool:
        """Whether it is all jobs."""
        return self.grant == EVERYTHING

    def has(self, job_id: JobId, spec: JobSpec, paths: Paths) -> bool:
        """Return whether a job with this spec may be read."""
        if self.all:
            return True
        owned = bool(self.caller) and spec.owner == self.caller
        path = paths.get(spec.pool_id, "")
        return any(scope.holds(path, owned, job_id) for scope in self.grant)


ALL_JOBS = Reach("", EVERYTHING)


def reach() -> Reach:
    """Return what the caller of the present call may read."""
    return Reach(current().name, granted())


async def paths_of_pools(engine: Engine) -> Paths:
    """Read the pools."""
    return pool_paths(await engine.store.pools.all())


async def limited(query: JobQuery, engine: Engine) -> JobQuery:
    """Return a query for what the caller may read."""
    mine = reach()
    if mine.all:
        return query
    paths = await paths_of_pools(engine)

    def part(scope: Scope) -> JobScope:
        held = frozenset(pool for pool, path in paths.items() if Scope(scope.pools).holds(path, owned=True))
        return JobScope(held if scope.pools else None, mine.caller if scope.own else None)

    # A caller without a name owns nothing, also no job without an owner.
    scopes = [scope for scope in mine.grant if mine.caller or not scope.own]
    return replace(query, within=tuple(map(part, scopes)))


async def readable(jobs: list[JobId], engine: Engine) -> list[JobId]:
    """Return those of some active jobs that the caller may read."""
    mine = reach()
    if mine.all:
        return jobs
    paths = await paths_of_pools(engine)
    held = ((job_id, engine.job(job_id)) for job_id in jobs)
    return [job_id for job_id, job in held if job is not None and mine.has(job_id, job.spec, paths)]
