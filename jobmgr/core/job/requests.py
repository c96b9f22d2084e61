"""Requests of clients: they change goals, and the rules bring about what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import JobUpdated, RestartRequested, StartRequested, StopRequested
from jobmgr.core.task.creation import first_runtime
from jobmgr.core.task.goal import Goal, goal_of
from peloton.errors import Conflict, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime

Answer = list[int] | PelotonError
"""The instances that a request applies to, or why it is refused."""


def on_job_updated(active: ActiveJobs, cycle: Cycle, event: JobUpdated) -> PelotonError | None:
    """Take the next version of a job's config, and create the instances that it adds."""
    change = active.change(cycle, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended")
    if change.spec.version != event.base:
        return Conflict(f"the config is at version {change.spec.version}, not {event.base}")
    if change.goal in (JobState.KILLED, JobState.DELETED):
        return Refused(f"job {event.job_id} is being stopped")
    in_flight = change.in_flight
    in_flight.next_to_create = min(in_flight.next_to_create, change.spec.instance_count)
    change.grow(event.spec)
    active.create_rows(event.job_id)
    return None


def on_stop_requested(active: ActiveJobs, cycle: Cycle, event: StopRequested) -> Answer:
    """Stop a job or some of its instances; return those that had not ended."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return []  # it has ended
    if event.instances is None:
        return _stop_job(active, change)
    return [i for i in sorted(set(event.instances)) if _stop_task(active, change, i)]


def on_start_requested(active: ActiveJobs, cycle: Cycle, event: StartRequested) -> Answer:
    """Start the next runs of instances that were stopped; return them."""

    def eligible(task: TaskRuntime) -> bool:
        return task.goal is TaskState.KILLED

    return _begin_next_runs(active, cycle, event.job_id, event.instances, "start", eligible)


def on_restart_requested(active: ActiveJobs, cycle: Cycle, event: RestartRequested) -> Answer:
    """Restart instances that are not stopped; return them."""

    def eligible(task: TaskRuntime) -> bool:
        return task.goal is not TaskState.KILLED

    return _begin_next_runs(active, cycle, event.job_id, event.instances, "restart", eligible)


def _stop_task(active: ActiveJobs, change: Change, instance: int) -> bool:
    """Stop an instance; return whether it had not ended. One without a row is created as ended."""
    task = change.task(instance)
    if not 0 <= instance < change.spec.instance_count or task.state.terminal:
        return False
    if task is NOT_CREATED:
        change.create([instance], first_runtime(change, instance, stopped=True))
    elif task.goal is not TaskState.KILLED:
        change.revise(instance, goal=TaskState.KILLED, desired_run=task.run)
        active.actions.evaluate(change, instance)
    return True


def _stop_job(active: ActiveJobs, change: Change) -> list[int]:
    change.goal = JobState.KILLED
    active.sweep(change.job_id)
    instances = range(change.spec.instance_count)
    return [i for i in instances if not change.task(i).state.terminal]


def _begin_next_runs(
    active: ActiveJobs,
    cycle: Cycle,
    job_id: JobId,
    instances: Sequence[int] | None,
    verb: str,
    eligible: Callable[[TaskRuntime], bool],
) -> Answer:
    """Make the next run the desired one of the eligible instances; return them."""
    change = active.change(cycle, job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"cannot {verb} tasks in a terminated job")
    if change.goal in (JobState.KILLED, JobState.DELETED):
        return Refused(f"cannot {verb} tasks in a job that is being stopped")
    accepted = []
    for instance in _created(change, instances):
        task = change.task(instance)
        if not eligible(task):
            continue
        accepted.append(instance)
        if goal_of(change.goal, task) is not Goal.RESTART:
            change.revise(instance, goal=TaskState.SUCCEEDED, desired_run=task.run + 1)
            active.actions.evaluate(change, instance)
    return accepted


def _created(change: Change, instances: Sequence[int] | None) -> list[int]:
    """Return the instances that have a row, in order."""
    requested = range(change.spec.instance_count) if instances is None else sorted(set(instances))
    return [i for i in requested if change.task(i) is not NOT_CREATED]
