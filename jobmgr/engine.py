"""The goal-state engine as the services see it: what is asked is stored when a call returns, and the
engine brings it about afterwards.

Reading is from `job` (active jobs, in memory, always what is stored) or `load` (any job).
"""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.core.cache import CachedJob
from peloton.model.ids import JobId
from peloton.model.job import JobSpec, JobSummary
from storage.interface import Store


class Engine:
    """Runs jobs towards their goals. All calls raise Unavailable while the store cannot answer, and
    Fenced where this process is no longer the leader."""

    store: Store

    async def create_job(self, job_id: JobId, spec: JobSpec) -> None:
        """Store a new job (`spec.version` 1) and start it; its tasks' rows follow in the background.

        Raises AlreadyExists."""
        raise NotImplementedError

    async def update_job(self, job_id: JobId, spec: JobSpec) -> None:
        """Take the next version of the config (`spec.version` = the current one + 1), which only adds
        instances: whoever calls has checked that.

        Raises NotFound, Conflict where the version is not the next one, Refused where the job has ended."""
        raise NotImplementedError

    async def stop(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Make the goal KILLED: of the whole job (None), or of these instances.

        Returns the instances that had not ended and now have the goal KILLED, in order. Those that have
        ended, and those that are not there, are left out. A job that has ended: empty. Raises NotFound."""
        raise NotImplementedError

    async def start(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Give instances whose goal is KILLED a new run (None: all of them). Returns those that get one.

        Raises NotFound, and Refused where the job has ended or is being stopped as a whole."""
        raise NotImplementedError

    async def restart(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Stop the current run and start the next one, whatever the retry policy (None: all instances).
        Instances whose goal is KILLED are left out. Returns those that are restarted.

        Raises NotFound, and Refused where the job has ended or is being stopped as a whole."""
        raise NotImplementedError

    async def delete(self, job_id: JobId) -> None:
        """Forget a job that has ended, and all that is stored of it.

        Raises NotFound("job not found") and Refused("Job is not in a terminal state: <state>")."""
        raise NotImplementedError

    async def refresh(self, job_id: JobId) -> None:
        """Read the job from the store again and look at each task's goal anew. A job that has ended: nothing.
        Raises NotFound."""
        raise NotImplementedError

    async def refresh_tasks(self, job_id: JobId, first: int = 0, end: int | None = None) -> None:
        """As `refresh`, for instances first … end-1. Raises NotFound."""
        raise NotImplementedError

    def job(self, job_id: JobId) -> CachedJob | None:
        """An active job, not to be changed; None where the job has ended or is not there."""
        raise NotImplementedError

    async def load(self, job_id: JobId) -> CachedJob:
        """Any job with all its tasks: from memory, or from the store where it has ended. Raises NotFound."""
        raise NotImplementedError

    async def summary(self, job_id: JobId) -> JobSummary:
        """Any job's spec and runtime without its tasks: cheaper than `load` for a finished one. Raises
        NotFound."""
        raise NotImplementedError

    def active_jobs(self) -> list[JobId]:
        """Ids of the jobs that have not ended."""
        raise NotImplementedError
