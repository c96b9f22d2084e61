"""The active jobs, and what the handlers of events need of them."""

from __future__ import annotations

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.in_flight import InFlight
from jobmgr.core.state.limits import Limits
from jobmgr.core.state.revisions import Timestamps
from jobmgr.core.task.actions import TaskActions
from jobmgr.core.task.deadlines import GATHERING
from jobmgr.core.task.orphans import Orphans
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.workflow import Workflow


class ActiveJobs:
    """All active jobs, with their unfinished operations."""

    def __init__(self, limits: Limits) -> None:
        self.jobs: dict[JobId, InFlight] = {}
        self.actions = TaskActions(limits)
        self.orphans = Orphans()
        self.unfinished: dict[JobId, None] = {}
        """Jobs with tasks to create, to evaluate or to compare, oldest first."""
        self.comparing = 0
        """Number of comparisons that resmgr has not answered, of all jobs."""
        self._timestamps = Timestamps()

    def create(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, workflow: Workflow | None = None
    ) -> None:
        """Add a job that was just stored; the next cycles create its tasks."""
        if job_id in self.jobs:
            return
        self.jobs[job_id] = InFlight(CachedJob(job_id, spec, runtime, workflow))
        self.create_rows(job_id)

    def recover(self, job: CachedJob) -> None:
        """Add an active job that was read from the store; the next cycles evaluate its tasks."""
        job.add_up()
        self.remove(job.job_id)
        self.jobs[job.job_id] = InFlight(job, recovered=True)
        self.sweep(job.job_id)
        self.compare(job.job_id)

    def refresh(self, job: CachedJob) -> None:
        """Replace a job by what was read from the store; its pending operations go on."""
        in_flight = self.jobs[job.job_id]
        job.add_up()
        job.pending_reasons, job.vain_growths = in_flight.job.pending_reasons, in_flight.job.vain_growths
        in_flight.job, in_flight.next_to_create = job, 0
        in_flight.gang_due, in_flight.gang_ends = job.spec.bound_members > 0, False
        self.sweep(job.job_id)
        self.compare(job.job_id)

    def remove(self, job_id: JobId) -> None:
        """Remove a job, if it is there."""
        in_flight = self.jobs.pop(job_id, None)
        self.unfinished.pop(job_id, None)
        if in_flight is not None:
            self.actions.deadlines.cancel((job_id, GATHERING))
            for instance in range(len(in_flight.job.tasks)):
                self.actions.deadlines.cancel((job_id, instance))

    @property
    def settled(self) -> bool:
        """Whether all tasks have been evaluated, and compared with what resmgr holds."""
        return not self.comparing and not any(self.jobs[job_id].unfinished for job_id in self.unfinished)

    def change(self, cycle: Cycle, job_id: JobId) -> Change | None:
        """Return the change of a job in this cycle; None where it is not active."""
        change = cycle.changes.get(job_id)
        if change is None:
            in_flight = self.jobs.get(job_id)
            if in_flight is None:
                return None
            change = cycle.changes[job_id] = Change(in_flight, self._timestamps, self.actions.stamp)
        return change

    def sweep(self, job_id: JobId) -> None:
        """Evaluate all tasks of a job, in this cycle and the next ones."""
        self.jobs[job_id].sweep = 0
        self.unfinished[job_id] = None

    def compare(self, job_id: JobId) -> None:
        """Compare the waiting runs of a job with what resmgr holds, in this cycle and the next ones."""
        self.jobs[job_id].compare = 0
        self.unfinished[job_id] = None

    def create_rows(self, job_id: JobId) -> None:
        """Create the rows of a job that are missing, in this cycle and the next ones."""
        self.unfinished[job_id] = None
