"""What an engine asks of the owners of jobs that it does not own."""

from __future__ import annotations

from typing import Protocol

from peloton.errors import Unavailable
from peloton.model.ids import JobId


class Elsewhere(Protocol):
    """The other instances. Calls raise Unavailable, and may then have been carried out."""

    async def start_run(self, job_id: JobId, time: int) -> None:
        """Have the run of a time of a job's schedule created, unless that is done already."""
        ...

    async def stop_run(self, run: JobId, by: str) -> None:
        """Have a run of a schedule stopped, for a reason."""
        ...


class Nowhere:
    """There is no other instance."""

    async def start_run(self, job_id: JobId, time: int) -> None:
        """Raise Unavailable."""
        raise Unavailable(f"a run of job {job_id} is of a shard that nobody owns")

    async def stop_run(self, run: JobId, by: str) -> None:
        """Raise Unavailable."""
        raise Unavailable(f"job {run} is of a shard that nobody owns")
