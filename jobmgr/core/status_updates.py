"""What the statuses that Mesos gives do to tasks."""

from __future__ import annotations

from dataclasses import replace

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import UNBORN
from jobmgr.core.state.change import Change, pod_event
from jobmgr.core.state.decisions import Turn
from jobmgr.core.state.events import Statuses
from jobmgr.core.state.task_states import REPORTED
from jobmgr.core.task.late_updates import details, previous, usage_of
from jobmgr.core.task.status_rules import LONGEST_MESSAGE, Verdict, health, judge
from jobmgr.core.task.usage import added
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskStatus


def received(active: ActiveJobs, turn: Turn, event: Statuses) -> list[tuple[Run, TaskStatus]]:
    """Returns what agents tell of runs of jobs that have ended: it may be late news of their ends."""
    ended = []
    for run, status in event.statuses:
        if run.job_id not in active.jobs and status.uuid:
            ended.append((run, status))
        change = active.change(turn, run.job_id) if run.job_id in active.jobs else None
        task = UNBORN if change is None else change.task(run.instance)
        verdict = judge(task, run.run, status)
        if change is not None and run.run == task.run:
            change.work.unconfirmed.discard(run.instance)
        if verdict is Verdict.ORPHAN:
            if active.orphans.alive(run):
                turn.orphans.append(run)
        elif verdict is Verdict.STALE:
            if status.state.terminal:
                active.orphans.ended(run)
        elif change is not None:
            _apply(active, change, run.instance, task, status, verdict)
        if change is not None and verdict in (Verdict.ORPHAN, Verdict.STALE):
            _fill_in(active, change, run, task, status)
    return ended


def _fill_in(active: ActiveJobs, change: Change, run: Run, task: TaskRuntime, status: TaskStatus) -> None:
    """Take what an agent tells of an end that is known."""
    changes = details(task, run.run, status)
    if changes:
        more = usage_of(task, changes, change.task_spec(run.instance).resources)
        change.use(more)
        change.amend(run.instance, **changes, resource_usage=added(task.resource_usage, more))
        active.steering.evaluate(change, run.instance)
    elif message := previous(task, run.run, status):
        ended = change.revise(run.instance, message=message)
        told = status.message[:LONGEST_MESSAGE], status.reason
        if not change.retell(run.instance, run.run, status.state, *told):
            event = pod_event(change.job_id, run.instance, ended)
            changed = replace(event, run=run.run, state=status.state, message=told[0], reason=told[1])
            change.events.append(changed)


def _apply(
    active: ActiveJobs, change: Change, instance: int, task: TaskRuntime, status: TaskStatus, verdict: Verdict
) -> None:
    if verdict is Verdict.END:
        active.steering.end(change, instance, status)
    elif verdict is Verdict.FORWARD:
        _forward(active, change, instance, task, status)
    elif verdict is Verdict.STARTED:
        change.revise(instance, start_time=status.timestamp or active.steering.now.wall)
    elif verdict is Verdict.HEALTH and status.healthy is not None:
        change.revise(instance, health=health(status.healthy), message=status.message, reason=status.reason)


def _forward(
    active: ActiveJobs, change: Change, instance: int, task: TaskRuntime, status: TaskStatus
) -> None:
    running = status.state is TaskState.RUNNING
    change.move(
        instance,
        REPORTED[status.state],
        agent_id=task.agent_id or status.agent_id,
        start_time=(status.timestamp or active.steering.now.wall) if running else task.start_time,
        message=status.message,
        reason=status.reason,
        health=task.health if status.healthy is None else health(status.healthy),
    )
    active.steering.evaluate(change, instance)
