"""Handler of Mesos' statuses."""

from __future__ import annotations

from dataclasses import replace

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import Sampled, Statuses
from jobmgr.core.state.revisions import pod_event
from jobmgr.core.state.task_states import REPORTED
from jobmgr.core.task.late_updates import corrections, held_by, previous_run_message
from jobmgr.core.task.saving import note_saved
from jobmgr.core.task.status_rules import MAX_MESSAGE_CHARACTERS, Verdict, health, judge, moment
from jobmgr.core.task.survivors import lives_on, note_ended
from jobmgr.core.task.volumes import note_started
from peloton.model.cluster import cluster_of
from peloton.model.ids import Run
from peloton.model.states import HealthState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.usage import join


def on_statuses(active: ActiveJobs, cycle: Cycle, event: Statuses) -> list[tuple[Run, TaskStatus]]:
    """Apply statuses; return those by agents of jobs that have ended, which may correct their ends."""
    ended = []
    for run, status in event.statuses:
        if run.job_id not in active.jobs and status.uuid:
            ended.append((run, status))
        change = active.change(cycle, run.job_id) if run.job_id in active.jobs else None
        task = NOT_CREATED if change is None else change.task(run.instance)
        if run.run == task.run and task.host and cluster_of(task.host) != event.cluster:
            _on_another_cluster(active, cycle, run, status, event.cluster)
            continue
        if run.run > task.run:
            cycle.unknown.add(run.job_id)
        verdict = judge(task, run.run, status)
        if change is not None and run.run == task.run:
            change.in_flight.unconfirmed.discard(run.instance)
            if status.saved_at:
                note_saved(change, run.instance, status)
        if verdict is Verdict.ORPHAN:
            if change is not None and lives_on(change, run, status, event.cluster):
                change.in_flight.survivors[run.instance] = status
                active.actions.evaluate(change, run.instance)
            elif active.orphans.note_alive(run):
                cycle.orphans.setdefault(event.cluster, []).append(run)
        elif verdict is Verdict.STALE:
            if status.state.terminal:
                active.orphans.note_ended(run)
                if change is not None:
                    note_ended(change, run)
        elif change is not None:
            _apply(active, change, run.instance, task, status, verdict)
        if change is not None and verdict in (Verdict.ORPHAN, Verdict.STALE):
            _correct(active, change, run, task, status)
    return ended


def on_sampled(active: ActiveJobs, event: Sampled) -> None:
    """Note what runs use. It is kept in memory only."""
    for run, reading in event.readings:
        in_flight = active.jobs.get(run.job_id)
        if in_flight is not None:
            in_flight.job.take_reading(run.instance, run.run, reading)


def _on_another_cluster(active: ActiveJobs, cycle: Cycle, run: Run, status: TaskStatus, cluster: str) -> None:
    """Take a status by a cluster where the run was not launched: it is not lost for not being there."""
    if not status.state.terminal and active.orphans.note_alive(run):
        cycle.orphans.setdefault(cluster, []).append(run)


def _correct(active: ActiveJobs, change: Change, run: Run, task: TaskRuntime, status: TaskStatus) -> None:
    """Take the corrections that a late status has for a known end."""
    changes = corrections(task, run.run, status)
    if changes:
        more = held_by(task, changes, change.task_spec(run.instance).resources)
        change.add_usage(more)
        change.correct(run.instance, **changes, resource_usage=join(task.resource_usage, more))
        active.actions.evaluate(change, run.instance)
    elif message := previous_run_message(task, run.run, status):
        ended = change.revise(run.instance, message=message)
        text = status.message[:MAX_MESSAGE_CHARACTERS], status.reason
        if not change.set_event_text(run.instance, run.run, status.state, *text):
            event = pod_event(change.job_id, run.instance, ended)
            changed = replace(event, run=run.run, state=status.state, message=text[0], reason=text[1])
            change.events.append(replace(changed, termination=None))


def _apply(
    active: ActiveJobs, change: Change, instance: int, task: TaskRuntime, status: TaskStatus, verdict: Verdict
) -> None:
    if verdict is Verdict.END:
        active.actions.end(change, instance, status)
    elif verdict is Verdict.FORWARD:
        _forward(active, change, instance, task, status)
    elif verdict is Verdict.STARTED:
        change.revise(instance, start_time=moment(status, task, active.actions.now.wall))
    elif verdict is Verdict.HEALTH and status.healthy is not None:
        change.revise(instance, health=health(status.healthy), message=status.message, reason=status.reason)


def _forward(
    active: ActiveJobs, change: Change, instance: int, task: TaskRuntime, status: TaskStatus
) -> None:
    running = status.state is TaskState.RUNNING
    if status.state is not TaskState.LAUNCHED:
        note_started(change, task)
    change.move(
        instance,
        REPORTED[status.state],
        agent_id=task.agent_id or status.agent_id,
        start_time=moment(status, task, active.actions.now.wall) if running else task.start_time,
        message=status.message,
        reason=status.reason,
        health=_health(change, instance, task, status),
    )
    active.actions.evaluate(change, instance)


def _health(change: Change, instance: int, task: TaskRuntime, status: TaskStatus) -> HealthState:
    """Return the health of a run that goes on. That of a checked one is unknown until its first check."""
    if status.healthy is not None:
        return health(status.healthy)
    checked = change.service and change.task_spec(instance).health_checked
    return HealthState.UNKNOWN if checked and task.health is HealthState.DISABLED else task.health
