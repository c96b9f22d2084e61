"""Requests of clients: they change goals, and the rules bring about what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.availability import disruption
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import (
    JobGoalRequested,
    JobUpdated,
    RestartRequested,
    StartRequested,
    StopRequested,
    VolumeDeletionRequested,
)
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task import volumes
from jobmgr.core.task.authors import asked_end
from jobmgr.core.task.creation import first_runtime
from jobmgr.core.task.gang import note_end
from jobmgr.core.task.goal import STOPPED, Goal, goal_of
from peloton.errors import Conflict, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime
from peloton.model.workflow import EntityVersion

Answer = list[int] | PelotonError
"""The instances that a request applies to, or why it is refused."""


def on_job_updated(active: ActiveJobs, cycle: Cycle, event: JobUpdated) -> PelotonError | None:
    """Take the next version of a job's config, and create the instances that it adds."""
    change = active.change(cycle, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended")
    if change.spec.version != event.base:
        return Conflict(f"the config is at version {change.spec.version}, not {event.base}")
    if change.goal in ENDING_JOB_GOALS:
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
        return _stop_job(active, change, event.by)
    return [i for i in sorted(set(event.instances)) if _stop_task(active, change, i, event.by)]


def on_start_requested(active: ActiveJobs, cycle: Cycle, event: StartRequested) -> Answer:
    """Start the next runs of instances that were stopped; return them."""

    def eligible(task: TaskRuntime) -> bool:
        return task.goal in STOPPED

    wanted = _NextRuns("start", eligible, by=event.by)
    return _begin_next_runs(active, cycle, event.job_id, event.instances, wanted)


def on_restart_requested(active: ActiveJobs, cycle: Cycle, event: RestartRequested) -> Answer:
    """Restart instances, and start those that are stopped; return them.

    Conflict, and nothing is restarted, where the SLA is to be checked and would break.
    """
    wanted = _NextRuns("restart", lambda task: True, event.check_sla, event.by)
    return _begin_next_runs(active, cycle, event.job_id, event.instances, wanted)


def _stop_task(active: ActiveJobs, change: Change, instance: int, by: str) -> bool:
    """Stop an instance; return whether it had not ended. One without a row is created as ended."""
    task = change.task(instance)
    if not 0 <= instance < change.size or task.goal is TaskState.DELETED:
        return False
    if task.state.terminal:
        return _stop_waiting(change, instance, task)
    if task is NOT_CREATED and not change.incomplete:
        return False
    if task is NOT_CREATED:
        change.create([instance], first_runtime(change, instance, stopped=True, by=by))
        note_end(change, instance)
    elif task.goal is not TaskState.KILLED:
        how = asked_end(task, TerminationReason.KILLED_ON_REQUEST, by)
        change.revise(instance, goal=TaskState.KILLED, desired_run=task.run, termination=how)
        active.actions.evaluate(change, instance)
    return True


def _stop_waiting(change: Change, instance: int, task: TaskRuntime) -> bool:
    """Stop an ended instance of a service, or one of a gang that runs again; whether it is one."""
    waits = change.service or task.desired_run > task.run
    if not waits or task.goal is TaskState.KILLED:
        return False
    note_end(change, instance)
    change.revise(instance, goal=TaskState.KILLED, desired_run=task.run)
    return True


def on_job_goal_requested(
    active: ActiveJobs, cycle: Cycle, event: JobGoalRequested
) -> EntityVersion | PelotonError:
    """Take the goal of a service: RUNNING, KILLED, or DELETED, which is KILLED and then gone."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return Refused(f"job {event.job_id} has ended")
    refused = stale(change, event.expected) or _refused_goal(change, event.goal)
    if refused is not None:
        return refused
    if event.goal is JobState.RUNNING:
        change.goal_by = event.by
        start_service(active, change)
    else:
        stop_service(active, change, event.goal, event.by)
    return change.version


def on_volume_deletion_requested(
    active: ActiveJobs, cycle: Cycle, event: VolumeDeletionRequested
) -> PelotonError | None:
    """Delete a volume that no run uses. An instance that waits for its host may then go anywhere."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return Refused(f"job {event.job_id} has ended meanwhile: try again")
    volume = change.volume(event.volume.id) or event.volume
    refused = volumes.deletion_refused(change, volume)
    if refused is None and volumes.delete(change, volume):
        active.actions.evaluate(change, volume.instance)
    return refused


def _refused_goal(change: Change, goal: JobState) -> PelotonError | None:
    if change.goal is JobState.DELETED:
        return Refused(f"job {change.job_id} is being deleted")
    workflow = change.workflow
    starts = workflow is not None and not workflow.state.terminal and workflow.options.start_tasks
    if goal is JobState.KILLED and starts:
        return Conflict("an update that starts stopped instances is running: abort it first")
    return None


def stale(change: Change, expected: EntityVersion | None) -> Conflict | None:
    """Return the refusal of a caller who has not seen the job as it is."""
    return change.version.refusal(expected)


def start_service(active: ActiveJobs, change: Change) -> None:
    """Let the job run, with all its stopped instances."""
    resume_service(change)
    for instance in range(change.size):
        task = change.task(instance)
        if task.goal is TaskState.KILLED:
            change.revise(instance, goal=TaskState.RUNNING, desired_run=task.run + 1)
            active.actions.evaluate(change, instance)


def resume_service(change: Change) -> None:
    """Let the job run; its stopped instances stay as they are."""
    if change.goal is not JobState.RUNNING:
        change.goal = JobState.RUNNING
        change.raise_desired_state()


def stop_service(active: ActiveJobs, change: Change, goal: JobState, by: str) -> list[int]:
    """Stop all instances of a service; those that had not ended."""
    if change.goal is not goal:
        change.goal, change.goal_by = goal, by
        change.raise_desired_state()
    running = [i for i in range(change.size) if not change.task(i).state.terminal]
    for instance in range(change.size):
        task = change.task(instance)
        if task.goal is TaskState.RUNNING:
            change.revise(instance, goal=TaskState.KILLED, desired_run=task.run)
            active.actions.evaluate(change, instance)
    return [i for i in running if change.incomplete or change.task(i) is not NOT_CREATED]


def _stop_job(active: ActiveJobs, change: Change, by: str) -> list[int]:
    if change.service:
        return stop_service(active, change, JobState.KILLED, by)
    return stop_batch(active, change, by)


def stop_batch(active: ActiveJobs, change: Change, by: str) -> list[int]:
    """Stop a batch job; return the instances that had not ended."""
    if change.goal is not JobState.KILLED:
        change.goal, change.goal_by = JobState.KILLED, by
    active.sweep(change.job_id)
    instances = range(change.spec.instance_count)
    return [i for i in instances if not change.task(i).state.terminal]


@dataclass(frozen=True, slots=True)
class _NextRuns:
    """A request for the next runs of instances."""

    verb: str
    eligible: Callable[[TaskRuntime], bool]
    check_sla: bool = False
    by: str = ""


def _begin_next_runs(
    active: ActiveJobs, cycle: Cycle, job_id: JobId, instances: Sequence[int] | None, wanted: _NextRuns
) -> Answer:
    """Make the next run the desired one of the eligible instances; return them."""
    change, verb = active.change(cycle, job_id), wanted.verb
    if change is None or (change.job.runtime.state.terminal and not change.service):
        return Refused(f"cannot {verb} tasks in a terminated job")
    if change.goal is JobState.KILLED and change.service and verb == "start":
        resume_service(change)
        change.goal_by = wanted.by
    if change.goal in ENDING_JOB_GOALS:
        return Refused(f"cannot {verb} tasks in a job that {_ending(change)}")
    if change.suspended:
        return Refused(f"cannot {verb} tasks in a job that is suspended: resume the job")
    accepted = [i for i in _created(change, instances) if wanted.eligible(change.task(i))]
    if wanted.check_sla and (breach := _breach(change, accepted)) is not None:
        return breach
    for instance in accepted:
        if goal_of(change.goal, change.task(instance)) is not Goal.RESTART:
            _begin_next_run(active, change, instance, wanted)
    return accepted


def _ending(change: Change) -> str:
    """Say what becomes of a job whose goal is KILLED or DELETED."""
    if change.goal is JobState.DELETED:
        return "is being deleted"
    if change.job.runtime.state is JobState.KILLED:
        return "is stopped: start or restart the job"
    return "is being stopped"


def _breach(change: Change, instances: Sequence[int]) -> Conflict | None:
    """Return the refusal where killing the instances would break the SLA of a service."""
    tasks = map(change.task, range(change.size))
    effect = disruption(change.spec, change.goal, tasks, map(change.task, instances))
    return None if effect.allowed else Conflict(f"the SLA of job {change.job_id} would break: {effect}")


def _begin_next_run(active: ActiveJobs, change: Change, instance: int, wanted: _NextRuns) -> None:
    """Make the next run the desired one. The run that is to end for it gets the reason, if it is live."""
    task = change.task(instance)
    if wanted.check_sla:
        how = asked_end(task, TerminationReason.KILLED_FOR_SLA_AWARE_RESTART, wanted.by, always=True)
    else:
        how = asked_end(task, TerminationReason.KILLED_FOR_RESTART, wanted.by)
    change.revise(
        instance,
        goal=change.running_goal,
        desired_run=task.run + 1,
        termination=how,
    )
    active.actions.evaluate(change, instance)


def _created(change: Change, instances: Sequence[int] | None) -> list[int]:
    """Return the instances that have a row, and are not being removed, in order."""
    requested = range(change.size) if instances is None else sorted(set(instances))
    gone = (TaskState.UNKNOWN, TaskState.DELETED)
    return [i for i in requested if change.task(i).goal not in gone]
