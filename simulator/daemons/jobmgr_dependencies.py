"""Looks after the ends of jobs that others wait for, as `jobmgr.drivers.dependencies` does."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import DependencySeen, Event
from peloton.model.ids import JobId
from simulator.world.kernel import Kernel, Life
from simulator.world.store import Store, StoredJob

LOOK_SECONDS = 30.0
"""Between two looks at all jobs that wait."""


class DependentLane(Protocol):
    """The job manager whose jobs wait."""

    life: Life

    def post(self, event: Event) -> None:
        """Hand over an event."""
        ...

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job."""
        ...

    def jobs(self) -> Collection[CachedJob]:
        """Return the active jobs."""
        ...


class Dependencies:
    """Tells the core of jobs that wait how the jobs have ended that they wait for."""

    def __init__(self, lane: DependentLane, kernel: Kernel, store: Store, again: bool) -> None:
        """`again`: whether to look now and then, which nothing needs where nothing fails."""
        self._again = again
        self._lane = lane
        self._kernel = kernel
        self._store = store
        self._wanted: set[JobId] = set()
        """Jobs that are waited for, as of the last look."""

    def start(self) -> None:
        """Look at all jobs that wait, now and then."""
        self.look()
        if self._again:
            self._kernel.after(LOOK_SECONDS, self._lane.life, self.start)

    def note_end(self, job_id: JobId) -> None:
        """Look where a job has ended that is waited for."""
        if job_id in self._wanted:
            self.look()

    def look(self) -> None:
        """Look for the end of each job that is waited for."""
        self._wanted = set()
        for job in self._lane.jobs():
            for on in job.runtime.unmet:
                self._wanted.add(on)
                self._find(job.job_id, on)

    def _find(self, job_id: JobId, on: JobId) -> None:
        if self._lane.job(on) is not None:
            return  # it has not ended

        def done(stored: Any) -> None:
            assert stored is None or isinstance(stored, StoredJob)
            state = None if stored is None else stored.runtime.state
            if state is None or state.terminal:
                self._kernel.point(self._lane.life, "before an end is told")
                self._lane.post(DependencySeen(job_id, on, state))

        self._store.read(self._lane.life, lambda: self._store.jobs.get(on), done)
