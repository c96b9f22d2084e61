"""The jobs that are active, and what the handlers of events need of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobmgr.core.cache import CachedJob, cached
from jobmgr.core.change import Change, Stamps
from jobmgr.core.orphans import Orphans
from jobmgr.core.steering import Limits, Steering
from jobmgr.core.turn import Turn
from jobmgr.core.work import Work
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import TaskRuntime


class ActiveJobs:
    """All active jobs, with the work that is under way for each."""

    def __init__(self, limits: Limits) -> None:
        self.jobs: dict[JobId, Work] = {}
        self.steering = Steering(limits)
        self.orphans = Orphans()
        self.unfinished: dict[JobId, None] = {}
        """Jobs with rows to be created or tasks to be looked at, oldest first."""
        self._stamps = Stamps()

    def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Take a job that was just stored; its tasks follow in the turns to come."""
        if job_id in self.jobs:
            return
        self.jobs[job_id] = Work(CachedJob(job_id, spec, runtime))
        self.create_rows(job_id)

    def recover(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
    ) -> None:
        """Take an active job from the store; its tasks are looked at in the turns that follow."""
        self.forget(job_id)
        self.jobs[job_id] = Work(_added_up(job_id, spec, runtime, rows), recovered=True)
        self.sweep(job_id)

    def refresh(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
    ) -> None:
        """Take what the store holds of a job that is known; what is under way for it goes on."""
        work = self.jobs[job_id]
        job = _added_up(job_id, spec, runtime, rows)
        job.waiting = work.job.waiting
        work.job, work.unborn = job, 0
        self.sweep(job_id)

    def forget(self, job_id: JobId) -> None:
        """Let go of a job."""
        work = self.jobs.pop(job_id, None)
        self.unfinished.pop(job_id, None)
        if work is not None:
            for instance in range(len(work.job.tasks)):
                self.steering.deadlines.cancel((job_id, instance))

    def change(self, turn: Turn, job_id: JobId) -> Change | None:
        """What this turn changes about a job; None where it is not active."""
        change = turn.changes.get(job_id)
        if change is None:
            work = self.jobs.get(job_id)
            if work is None:
                return None
            change = turn.changes[job_id] = Change(work, self._stamps, turn.now.wall)
        return change

    def sweep(self, job_id: JobId) -> None:
        """Look at all of a job's tasks anew, in this turn and those that follow."""
        self.jobs[job_id].sweep_anew()
        self.unfinished[job_id] = None

    def create_rows(self, job_id: JobId) -> None:
        self.unfinished[job_id] = None


def _added_up(
    job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
) -> CachedJob:
    job = cached(job_id, spec, runtime, rows)
    job.add_up()
    return job
