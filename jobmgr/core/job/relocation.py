"""Batch jobs whose newest config is for runs that have not begun: they go to another cluster by it.

A run keeps the config that it began with. One that waits gives its place to the next run; one on a host goes
on, and its next run, if there is one, has the newest config. Members of a gang stay together: while one of
them is on a host, those that wait for room beside it wait on.
"""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle, Relocated
from jobmgr.core.state.events import RelocationRequested
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.authors import asked_end
from jobmgr.core.task.goal import Goal, goal_of
from peloton.errors import PelotonError, Refused
from peloton.model.states import ON_HOST_TASK_STATES, TaskState, TerminationReason
from peloton.model.task import TaskRuntime

_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})
_WITHOUT_RUNS = frozenset({TaskState.UNKNOWN, TaskState.DELETED})
"""Goals of instances that have no row yet, and of those that leave the job."""


def on_relocation_requested(
    active: ActiveJobs, cycle: Cycle, event: RelocationRequested
) -> Relocated | PelotonError:
    """Have instances take the newest config for their next runs; those that wait begin these now."""
    change = active.change(cycle, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended")
    if change.goal in ENDING_JOB_GOALS:
        return Refused(f"job {event.job_id} is being stopped")
    version, whole = change.spec.version, _bound(change)
    behind = [i for i in range(change.size) if _is_behind(change.task(i), version)]
    most = max(active.actions.limits.rows_per_cycle, whole)
    some, stays = behind[:most], _is_on_hosts(change, whole)
    anew = [i for i in some if _waits(change, i) and not (stays and i < whole)]
    for instance in some:
        change.revise(instance, desired_config_version=version)
    for instance in anew:
        _begin_anew(active, change, instance, event.by)
    return Relocated(len(some), len(anew))


def _is_behind(task: TaskRuntime, version: int) -> bool:
    return task.goal not in _WITHOUT_RUNS and task.desired_config_version != version


def _bound(change: Change) -> int:
    """Return how many instances, from 0 on, run together; all of an elastic gang's."""
    return change.size if change.spec.workload.elastic else change.spec.gang_size


def _is_on_hosts(change: Change, members: int) -> bool:
    """Return whether a member of the gang is on a host."""
    return any(change.task(i).state in ON_HOST_TASK_STATES for i in range(members))


def _waits(change: Change, instance: int) -> bool:
    task = change.task(instance)
    return task.state in _WAITS and goal_of(change.goal, task) is Goal.RUN


def _begin_anew(active: ActiveJobs, change: Change, instance: int, by: str) -> None:
    task = change.task(instance)
    how = asked_end(task, TerminationReason.KILLED_FOR_UPDATE, by)
    change.revise(instance, desired_run=task.run + 1, desired_host="", termination=how)
    active.actions.evaluate(change, instance)
