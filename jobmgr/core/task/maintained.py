"""Kills for the maintenance of a host: a cluster manager may put them off, to keep a workload up."""

from __future__ import annotations

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.goal import ENDING_GOALS, goal_of
from peloton.model.ids import Run
from peloton.model.states import TaskState, TerminationReason


def is_for_maintenance(job: CachedJob | None, run: Run) -> bool:
    """Return whether a run is killed for the maintenance of its host, and nobody wants it to end for good."""
    task = None if job is None else job.task(run.instance)
    if job is None or task is None or task.run != run.run or task.state is not TaskState.KILLING:
        return False
    reason = None if task.termination is None else task.termination.reason
    maintained = reason is TerminationReason.KILLED_HOST_MAINTENANCE
    if task.goal is TaskState.PREEMPTING:  # its pod is somebody else's, and has no next run
        return maintained and job.runtime.goal not in ENDING_JOB_GOALS
    return maintained and goal_of(job.runtime.goal, task) not in ENDING_GOALS
