"""The jobs that are active, and what the handlers of events need of them."""

from __future__ import annotations

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change, Stamps
from jobmgr.core.state.decisions import Turn
from jobmgr.core.state.in_flight import Work
from jobmgr.core.task.actions import Limits, Steering
from jobmgr.core.task.orphans import Orphans
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec


class ActiveJobs:
    """All active jobs, with the work that is under way for each."""

    def __init__(self, limits: Limits) -> None:
        self.jobs: dict[JobId, Work] = {}
        self.steering = Steering(limits)
        self.orphans = Orphans()
        self.unfinished: dict[JobId, None] = {}
        """Jobs with rows to be created or tasks to be looked at or compared, oldest first."""
        self.comparing = 0
        """Questions to resmgr that are not answered yet, of all jobs."""
        self._stamps = Stamps()

    def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Take a job that was just stored; its tasks follow in the turns to come."""
        if job_id in self.jobs:
            return
        self.jobs[job_id] = Work(CachedJob(job_id, spec, runtime))
        self.create_rows(job_id)

    def recover(self, job: CachedJob) -> None:
        """Take an active job that was read from the store; the turns that follow look at its tasks."""
        job.add_up()
        self.forget(job.job_id)
        self.jobs[job.job_id] = Work(job, recovered=True)
        self.sweep(job.job_id)
        self.compare(job.job_id)

    def refresh(self, job: CachedJob) -> None:
        """Take what was read from the store of a job that is known; what is under way for it goes on."""
        work = self.jobs[job.job_id]
        job.add_up()
        job.waiting = work.job.waiting
        work.job, work.unborn = job, 0
        self.sweep(job.job_id)
        self.compare(job.job_id)

    def forget(self, job_id: JobId) -> None:
        """Let go of a job."""
        work = self.jobs.pop(job_id, None)
        self.unfinished.pop(job_id, None)
        if work is not None:
            for instance in range(len(work.job.tasks)):
                self.steering.deadlines.cancel((job_id, instance))

    @property
    def settled(self) -> bool:
        """Whether all tasks have been looked at, and compared with what resmgr holds."""
        return not self.comparing and not any(self.jobs[job_id].unfinished for job_id in self.unfinished)

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
        self.jobs[job_id].sweep = 0
        self.unfinished[job_id] = None

    def compare(self, job_id: JobId) -> None:
        """Ask resmgr, in this turn and those that follow, which of the runs that wait it does not hold."""
        self.jobs[job_id].compare = 0
        self.unfinished[job_id] = None

    def create_rows(self, job_id: JobId) -> None:
        self.unfinished[job_id] = None
