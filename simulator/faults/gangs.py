"""What must hold for gangs: they are admitted whole, and elastic ones run in rounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from peloton.model.ids import JobId, parse_mesos_task_id
from peloton.model.states import JobState, TaskState
from resmgr.core.scheduler import Scheduler
from simulator.faults.violation import Violation
from simulator.jobs import SimJob
from simulator.world.agents import SimRun
from simulator.world.store import Store

_ADMITTED = frozenset({TaskState.READY, TaskState.PLACING, TaskState.PLACED})
_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


class GangChecks:
    """The invariants of gangs."""

    def __init__(self, store: Store, jobs: Mapping[JobId, SimJob]) -> None:
        self._store = store
        self._gangs = {job_id: job for job_id, job in jobs.items() if job.gang}

    def on_admission(self, scheduler: Scheduler) -> None:
        """Check that members which run together wait together, and are admitted together."""
        for job_id, gang in self._gangs.items():
            job = scheduler.registry.jobs.get(job_id)
            if job is None:
                continue
            members = [task for i, task in job.tasks.items() if not gang.needed or i < gang.needed]
            newest = max((task.run for task in members), default=1)
            if newest > 1 and not _has_rounds(gang):
                continue  # members run again one by one
            states = {task.state for task in members if task.run == newest}
            if TaskState.PENDING in states and states & _ADMITTED:
                raise Violation(f"the gang of job {job_id} ({gang.name}) is admitted in part")

    def runs_again(self, job_id: JobId) -> bool:
        """Return whether instances that have succeeded may run again: with the next round of their gang."""
        gang = self._gangs.get(job_id)
        return gang is not None and _has_rounds(gang)

    def on_launch(self, run: SimRun, alive: Iterable[SimRun]) -> None:
        """Check that a round of an elastic gang begins after the one before, and with those that it needs.

        `alive`: runs of the same job that live and were not reported as lost.
        """
        job_id, instance, number = parse_mesos_task_id(run.id)
        if not self.runs_again(job_id):
            return
        gang = self._gangs[job_id]
        for other in alive:
            if parse_mesos_task_id(other.id).run != number:
                raise Violation(f"{run.id} is launched while {other.id} of another round lives")
        if instance < gang.needed:
            return
        tasks = self._store.jobs[job_id].tasks
        for needed in range(gang.needed):
            task = tasks[needed]
            waits = task.run == number and task.state in _WAITS
            if waits or (task.run < number and not task.state.terminal):
                raise Violation(
                    f"{run.id} is launched without instance {needed}, which its gang needs: that is "
                    f"{task.state.name} with run {task.run}"
                )

    def end(self, jobs: Collection[JobId]) -> None:
        """Check that the members that a gang needs have succeeded in one round, where its job has."""
        for job_id, gang in self._gangs.items():
            if job_id not in jobs or not _has_rounds(gang):
                continue
            job = self._store.jobs[job_id]
            if job.runtime.state is JobState.SUCCEEDED:
                ends = {(job.tasks[i].state.name, job.tasks[i].run) for i in range(gang.needed)}
                if len(ends) > 1 or TaskState.SUCCEEDED.name not in next(iter(ends)):
                    raise Violation(f"the gang of job {job_id} has succeeded with {sorted(ends)}")


def _has_rounds(gang: SimJob) -> bool:
    return gang.needed > 0 and not gang.in_place
