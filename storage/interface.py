"""The storage port: repositories as Protocols, with what each promises.

Every write is durable when its call returns. A call that cannot tell raises `Unavailable`; absence is
`NotFound` or an empty result, never a guess. Within one write all rows go in or none; but in Cassandra, of a
write over several partitions that ended with Unavailable, some may be there: repeating it makes it whole
(`storage.cassandra` says what goes together).

Writes of a leader carry its term: `Store.begin_term` makes every later write of that role through
any other handle with a lower term raise `Fenced`, checked in the write's own transaction. Before it,
each write calls the handle's fence, which knows the leader's lease.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from peloton.model.host import HostInfo
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobPage, JobQuery, JobRuntime, JobSpec
from peloton.model.pool import PoolConfig
from peloton.model.task import PodEvent, TaskRuntime

Fence = Callable[[], None]
"""Raises Fenced where the writer leads no longer, and Unavailable while it cannot tell. May be called from
any thread."""


def unfenced() -> None:
    """The fence of a handle that no lease goes with."""


class Jobs(Protocol):
    """Configs by version, runtimes, the set of active jobs and the index that queries read."""

    async def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Config, runtime, index row and membership in the active set, all or none.

        Raises AlreadyExists, also where the same job is created twice at once.
        """
        ...

    async def add_config(self, job_id: JobId, spec: JobSpec) -> None:
        """A further version. Raises AlreadyExists for a version that is there."""
        ...

    async def config(self, job_id: JobId, version: int) -> JobSpec:
        """Raises NotFound."""
        ...

    async def runtime(self, job_id: JobId) -> JobRuntime:
        """Raises NotFound."""
        ...

    async def delete(self, job_id: JobId) -> None:
        """All of the job: configs, runtime, tasks, events, index. Deleting what is not there is no error."""
        ...

    async def query(self, query: JobQuery) -> JobPage:
        """Raises InvalidArgument for an order by what is no property, and for too many or too long words."""
        ...

    async def active(self) -> Sequence[JobId]:
        """Jobs that need work: all that were created and not yet retired."""
        ...

    async def retire(self, job_id: JobId) -> None:
        """Take a finished job out of the active set."""
        ...


class Tasks(Protocol):
    """Runtimes, one row per instance. Configs are never stored per instance."""

    async def get(self, job_id: JobId, instance: int) -> TaskRuntime:
        """Raises NotFound."""
        ...

    def list(
        self, job_id: JobId, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Mapping[int, TaskRuntime]]:
        """Instances first … end-1 in order, in pages of at most 10,000. Those of a page that are stored alike
        share one object."""
        ...


class PodEvents(Protocol):
    """The history of each instance's runs, kept for 90 days."""

    async def list(
        self, job_id: JobId, instance: int, run: int | None = None, runs: int = 10
    ) -> Sequence[PodEvent]:
        """Of one run, or of the last `runs` runs: newest run first, within a run newest event first."""
        ...

    async def delete(self, job_id: JobId, instance: int, up_to_run: int) -> None:
        """Events of runs 1 … up_to_run."""
        ...

    async def expire(self, before: int) -> int:
        """Drop events of ended runs that are older than `before` (nanoseconds since 1970); how many went. Not
        those that the database drops by itself, 90 days after they were written. A run has ended when there
        is a newer one, or an event of its end."""
        ...


class Pools(Protocol):
    async def write(self, pool: PoolConfig) -> None:
        """Insert or replace."""
        ...

    async def delete(self, pool_id: PoolId) -> None: ...

    async def all(self) -> Sequence[PoolConfig]: ...


class Hosts(Protocol):
    """What hostmgr keeps of hosts and of itself as a framework."""

    async def framework_id(self, name: str) -> str | None: ...

    async def write_framework_id(self, name: str, framework_id: str) -> None: ...

    async def write(self, host: HostInfo) -> None: ...

    async def delete(self, hostname: str) -> None: ...

    async def all(self) -> Sequence[HostInfo]: ...


class Store(Protocol):
    """All repositories of one database."""

    jobs: Jobs
    tasks: Tasks
    pod_events: PodEvents
    pools: Pools
    hosts: Hosts

    async def begin_term(self, role: str, term: int, fence: Fence = unfenced) -> None:
        """From now on this handle writes as `role` in `term`, and asks `fence` before each write, as late as
        it can. Raises Fenced where a newer term has begun, and what `fence` raises."""
        ...

    async def write_all(
        self,
        job_id: JobId,
        tasks: Mapping[int, TaskRuntime],
        events: Sequence[PodEvent] = (),
        runtime: JobRuntime | None = None,
    ) -> None:
        """One job's task runtimes, their events and the job's own runtime in one write: the way that status
        batches and launches take."""
        ...

    async def close(self) -> None:
        """Finish the writes that were accepted, then let go of the database."""
        ...
