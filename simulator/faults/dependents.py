"""What must hold for jobs that wait for others: they begin after these, or never where these fail."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from peloton.model.dependency import Verdict, verdict
from peloton.model.ids import JobId
from peloton.model.states import JobState, TaskState
from simulator.faults.violation import Violation
from simulator.world.store import Store, StoredJob


class DependentChecks:
    """The invariants of jobs that wait for others."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def on_write(self, job_id: JobId, job: StoredJob, change: Change) -> None:
        """Check that a job gets instances once all have ended as wanted that it waits for."""
        begun = [i for i, task in change.tasks.items() if task.goal is not TaskState.KILLED]
        for each in job.specs[1].depends_on if begun else ():
            state = self._state(each.job_id)
            if verdict(each.end, state) is not Verdict.MET:
                raise Violation(
                    f"instances {begun} of {job_id} begin, and {each}, for whose end "
                    f"{each.end.name} it waits, is {state and state.name}"
                )

    def in_vain(self, job: StoredJob) -> bool:
        """Return whether a job can never begin."""
        waits = job.specs[1].depends_on
        return any(verdict(each.end, self._state(each.job_id)) is Verdict.NEVER for each in waits)

    def _state(self, job_id: JobId) -> JobState | None:
        job = self._store.jobs.get(job_id)
        return None if job is None else job.runtime.state
