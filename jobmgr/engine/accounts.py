"""What the engine tells the account of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from jobmgr.core.state.cache import CachedJob
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec


class Accounts(Protocol):
    """The account of what jobs have held and used."""

    def note_creation(self, job_id: JobId) -> None:
        """Note that a job is new."""
        ...

    def note_end(self, job: CachedJob) -> None:
        """Note the total of a job that has ended, or is let go of."""
        ...

    def note_correction(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Note the total of a job that had ended, and whose end was corrected."""
        ...

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Forget jobs whose account another instance keeps from now on."""
        ...

    async def settle(self, jobs: Collection[JobId]) -> None:
        """Store the accounts of jobs that have ended."""
        ...


class NoAccounts:
    """Keeps none."""

    def note_creation(self, job_id: JobId) -> None:
        """Do nothing."""

    def note_end(self, job: CachedJob) -> None:
        """Do nothing."""

    def note_correction(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Do nothing."""

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Do nothing."""

    async def settle(self, jobs: Collection[JobId]) -> None:
        """Do nothing."""
