"""What clients ask of jobs and tasks: goals change here, and the rules bring them about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import UNBORN
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Turn
from jobmgr.core.state.events import JobUpdated, RestartAsked, StartAsked, StopAsked
from jobmgr.core.task.creation import first_runtime
from jobmgr.core.task.goal import Aim, aim_of
from peloton.errors import Conflict, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime

Answer = list[int] | PelotonError


def updated(active: ActiveJobs, turn: Turn, event: JobUpdated) -> PelotonError | None:
    change = active.change(turn, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended")
    if change.spec.version != event.base:
        return Conflict(f"the config is at version {change.spec.version}, not {event.base}")
    if change.goal in (JobState.KILLED, JobState.DELETED):
        return Refused(f"job {event.job_id} is being stopped")
    change.work.unborn = min(change.work.unborn, change.spec.instance_count)
    change.grow(event.spec)
    active.create_rows(event.job_id)
    return None


def stop(active: ActiveJobs, turn: Turn, event: StopAsked) -> Answer:
    change = active.change(turn, event.job_id)
    if change is None:
        return []  # it has ended
    if event.instances is None:
        return _stop_job(active, change)
    return [i for i in sorted(set(event.instances)) if _stop_task(active, change, i)]


def start(active: ActiveJobs, turn: Turn, event: StartAsked) -> Answer:
    return _renew(
        active, turn, event.job_id, event.instances, "start", lambda task: task.goal is TaskState.KILLED
    )


def restart(active: ActiveJobs, turn: Turn, event: RestartAsked) -> Answer:
    return _renew(
        active, turn, event.job_id, event.instances, "restart", lambda task: task.goal is not TaskState.KILLED
    )


def _stop_task(active: ActiveJobs, change: Change, instance: int) -> bool:
    """Whether it is there and had not ended. One that has no row yet gets it now, as one that has ended."""
    task = change.task(instance)
    if not 0 <= instance < change.spec.instance_count or task.state.terminal:
        return False
    if task is UNBORN:
        change.bear([instance], first_runtime(change, instance, stopped=True))
    elif task.goal is not TaskState.KILLED:
        change.revise(instance, goal=TaskState.KILLED, desired_run=task.run)
        active.steering.evaluate(change, instance)
    return True


def _stop_job(active: ActiveJobs, change: Change) -> list[int]:
    change.goal = JobState.KILLED
    active.sweep(change.job_id)
    instances = range(change.spec.instance_count)
    return [i for i in instances if not change.task(i).state.terminal]


def _renew(
    active: ActiveJobs,
    turn: Turn,
    job_id: JobId,
    instances: Sequence[int] | None,
    what: str,
    wanted: Callable[[TaskRuntime], bool],
) -> Answer:
    """Want the next run of those instances that `wanted` picks."""
    change = active.change(turn, job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"cannot {what} tasks in a terminated job")
    if change.goal in (JobState.KILLED, JobState.DELETED):
        return Refused(f"cannot {what} tasks in a job that is being stopped")
    renewed = []
    for instance in _known(change, instances):
        task = change.task(instance)
        if not wanted(task):
            continue
        renewed.append(instance)
        if aim_of(change.goal, task) is not Aim.RENEW:
            change.revise(instance, goal=TaskState.SUCCEEDED, desired_run=task.run + 1)
            active.steering.evaluate(change, instance)
    return renewed


def _known(change: Change, instances: Sequence[int] | None) -> list[int]:
    """Those that have a row, in order."""
    asked = range(change.spec.instance_count) if instances is None else sorted(set(instances))
    return [i for i in asked if change.task(i) is not UNBORN]
