"""What clients ask of workflows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.requests import resume_service, stale
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import WorkflowAction, WorkflowRepeated, WorkflowRequested, WorkflowSteered
from jobmgr.core.workflow.moves import event_of, moved
from jobmgr.core.workflow.rollback import roll_back
from jobmgr.core.workflow.rounds import Rollouts
from jobmgr.core.workflow.stages import Aim, Stage, is_changed, stage_of
from jobmgr.core.workflow.states import WorkflowCause
from peloton.errors import Conflict, InvalidArgument, PelotonError, Refused, Unavailable
from peloton.model.states import JobState
from peloton.model.task import TaskRuntime
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    ConfigDiff,
    EntityVersion,
    Workflow,
    WorkflowState,
    WorkflowType,
    ranges_of,
)

Answer = EntityVersion | PelotonError
_PAST = {
    WorkflowAction.PAUSE: "paused",
    WorkflowAction.RESUME: "resumed",
    WorkflowAction.ABORT: "aborted",
    WorkflowAction.ABORT_SOFTLY: "aborted",
    WorkflowAction.ROLL_BACK: "rolled back",
}


def asked(active: ActiveJobs, rollouts: Rollouts, cycle: Cycle, event: WorkflowRequested) -> Answer:
    """Begin a workflow. It has its first round in the next cycle, when it is stored."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return Refused(f"job {event.job_id} has ended")
    refused = stale(change, event.expected) or _refused(change, event) or _overlap(change, event.workflow)
    if refused is not None:
        return refused
    running = _running(change)
    if running is not None:
        moved(change, running, WorkflowCause.ABORT, cycle.now.wall, f"overtaken by {event.workflow.id}")
    _begin(change, event, change.timestamp())
    rollouts.forget(event.job_id)
    rollouts.wake(event.job_id)
    return change.version


def repeated(active: ActiveJobs, cycle: Cycle, event: WorkflowRepeated) -> Answer:
    """Take the opaque data of a workflow that is asked for once more."""
    change = active.change(cycle, event.job_id)
    running = None if change is None else _running(change)
    if change is None or running is None or running.id != event.workflow_id:
        return Conflict(f"workflow {event.workflow_id} has ended meanwhile")
    refused = stale(change, event.expected)
    if refused is not None:
        return refused
    _take_opaque(change, running, event.opaque_data)
    change.raise_workflow()
    return change.version


def steered(active: ActiveJobs, rollouts: Rollouts, cycle: Cycle, event: WorkflowSteered) -> Answer:
    """Pause, resume, abort or roll back the workflow that runs."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return Refused(f"job {event.job_id} has ended")
    refused = stale(change, event.expected)
    if refused is not None:
        return refused
    running = _running(change)
    if running is None or (event.workflow_id and running.id != event.workflow_id):
        return _none_runs(change, event)
    try:
        running = _take_opaque(change, running, event.opaque_data)
        _steer(change, running, event.action, cycle.now.wall, event.by)
    except InvalidArgument as error:
        return error
    rollouts.wake(event.job_id)
    return change.version


def diff(aim: Aim, size: int, task_of: Callable[[int], TaskRuntime]) -> ConfigDiff:
    """Return what a workflow would do to each instance, of those below `size` and those that it adds.

    A stopped instance is updated where its config changes, though it stays stopped.
    """
    update = aim.workflow.type is WorkflowType.UPDATE
    found: dict[Stage, list[int]] = {stage: [] for stage in Stage}
    for instance in range(max(size, aim.count)):
        task = task_of(instance)
        stage = stage_of(aim, instance, task)
        if stage is Stage.ADOPT and update and is_changed(aim, instance, task):
            stage = Stage.UPDATE
        found[stage].append(instance)
    return ConfigDiff(
        added=ranges_of(found[Stage.ADD]),
        removed=ranges_of(found[Stage.REMOVE]),
        updated=ranges_of(found[Stage.UPDATE] + found[Stage.ENDING]),
        unchanged=ranges_of(found[Stage.ADOPT] + found[Stage.DONE]),
    )


def _begin(change: Change, event: WorkflowRequested, now: int) -> None:
    previous = change.spec.version
    change.grow(event.spec)
    change.raise_workflow()
    fresh = replace(
        event.workflow,
        config_version=event.spec.version,
        previous_version=previous,
        workflow_version=change.version.workflow,
        created_at=now,
        updated_at=now,
    )
    parts = diff(Aim(fresh, change.specs, change.goal), change.size, change.task)
    update = fresh.type is WorkflowType.UPDATE
    fresh = replace(
        fresh,
        added=parts.added,
        removed=parts.removed if update else (),
        updated=parts.updated,
        remaining=change.size,
    )
    change.put_workflow(fresh, event_of(fresh, WHOLE_WORKFLOW, WorkflowState.INITIALIZED, now))
    if fresh.starts_stopped:
        resume_service(change)
        change.goal_by = fresh.by


def _refused(change: Change, event: WorkflowRequested) -> PelotonError | None:
    if not change.service:
        return InvalidArgument("type", change.spec.type.name, "a service: only services have workflows")
    if change.goal is JobState.DELETED:
        return Refused(f"job {change.job_id} is being deleted")
    if change.spec.version != event.base:
        return Conflict(f"the config is at version {change.spec.version}, not {event.base}")
    if change.incomplete and event.workflow.type is not WorkflowType.UPDATE:
        return Unavailable(f"job {change.job_id} is still being created: try again")
    return None


def _overlap(change: Change, wanted: Workflow) -> InvalidArgument | None:
    running = _running(change)
    if running is None or (running.type is wanted.type is WorkflowType.UPDATE):
        return None
    what = f"possible while {running.type.name} {running.id} is {running.state.name}: abort it, or wait"
    return InvalidArgument("workflow", wanted.type.name, what)


def _running(change: Change) -> Workflow | None:
    workflow = change.workflow
    return None if workflow is None or workflow.state.terminal else workflow


def _none_runs(change: Change, event: WorkflowSteered) -> InvalidArgument:
    """Return the refusal of an action on a workflow that has ended, or on a job that has had none."""
    last, expected = change.workflow, f"one that can be {_PAST[event.action]}"
    if last is None:
        return InvalidArgument("workflow", "none", f"{expected}: the job has had no workflow yet")
    subject = f"{last.type.name} {last.id}, which is {last.state.name}"
    if event.workflow_id in ("", last.id):
        return InvalidArgument("workflow", subject, f"{expected}: it has ended; a new one may begin")
    other = f"{expected}: it has ended; the last one of the job is {subject}"
    return InvalidArgument("workflow", event.workflow_id, other)


def _take_opaque(change: Change, workflow: Workflow, opaque_data: str) -> Workflow:
    if not opaque_data or opaque_data == workflow.opaque_data:
        return workflow
    new = replace(workflow, opaque_data=opaque_data, revision=workflow.revision + 1)
    change.put_workflow(new)
    return new


def _steer(change: Change, workflow: Workflow, action: WorkflowAction, now: int, by: str) -> None:
    """Carry an action out. Raises InvalidArgument for a rollback of what cannot be rolled back."""
    paused = workflow.state is WorkflowState.PAUSED
    if action is WorkflowAction.PAUSE:
        if paused:
            return
        moved(change, workflow, WorkflowCause.PAUSE, now)
    elif action is WorkflowAction.RESUME:
        if not paused:
            return
        back = workflow.rolling_back
        moved(change, workflow, WorkflowCause.RESUME_BACKWARD if back else WorkflowCause.RESUME_FORWARD, now)
    elif action is WorkflowAction.ABORT:
        moved(change, workflow, WorkflowCause.ABORT, now, f"aborted by {by or 'a user'}")
    elif action is WorkflowAction.ABORT_SOFTLY:
        if workflow.aborting:
            return
        change.put_workflow(replace(workflow, aborting=True, revision=workflow.revision + 1))
    else:
        _turn_back(change, workflow, now, by)
        return  # it counts the version itself
    change.raise_workflow()


def _turn_back(change: Change, workflow: Workflow, now: int, by: str) -> None:
    if workflow.rolling_back:
        return
    if workflow.type is not WorkflowType.UPDATE or not workflow.previous_version:
        what = "possible: only an update of a job that was there before can be rolled back"
        raise InvalidArgument("workflow", workflow.type.name, what)
    roll_back(change, replace(workflow, by=by), now, f"rolled back by {by or 'a user'}")
