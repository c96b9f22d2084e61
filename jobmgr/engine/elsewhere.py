"""What an engine asks of the owners of jobs that it does not own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from peloton.errors import Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime


class Looping(NamedTuple):
    """The jobs of some shards that crash-loop."""

    shards: frozenset[int]
    jobs: frozenset[JobId]


class Elsewhere(Protocol):
    """The other instances. Calls raise Unavailable, and may then have been carried out."""

    async def start_run(self, job_id: JobId, time: int) -> None:
        """Have the run of a time of a job's schedule created, unless that is done already."""
        ...

    async def stop_run(self, run: JobId, by: str) -> None:
        """Have a run of a schedule stopped, for a reason."""
        ...

    async def delete_run(self, run: JobId) -> str:
        """Have a run of a schedule deleted; return why it is kept, an empty text where it is gone."""
        ...

    async def crash_looping(self, own: Callable[[], Looping]) -> frozenset[JobId]:
        """Return the jobs of all instances that crash-loop, by `own` those of this one."""
        ...

    async def runtimes(self, jobs: Collection[JobId]) -> Mapping[JobId, JobRuntime]:
        """Return runtimes of jobs of others as these have them in memory, of those that are told in time.

        Raises nothing: what is stored of the others is as good as it gets.
        """
        ...


class Nowhere:
    """There is no other instance."""

    async def start_run(self, job_id: JobId, time: int) -> None:
        """Raise Unavailable."""
        raise Unavailable(f"a run of job {job_id} is of a shard that nobody owns")

    async def stop_run(self, run: JobId, by: str) -> None:
        """Raise Unavailable."""
        raise Unavailable(f"job {run} is of a shard that nobody owns")

    async def delete_run(self, run: JobId) -> str:
        """Raise Unavailable."""
        raise Unavailable(f"job {run} is of a shard that nobody owns")

    async def crash_looping(self, own: Callable[[], Looping]) -> frozenset[JobId]:
        """Return those of this instance."""
        return own().jobs

    async def runtimes(self, jobs: Collection[JobId]) -> Mapping[JobId, JobRuntime]:
        """Return nothing."""
        return {}
