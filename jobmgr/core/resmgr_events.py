"""What resmgr does with the gangs of a job: takes, refuses, holds, hands back or preempts them."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.decisions import Turn
from jobmgr.core.state.events import (
    Compared,
    Enqueued,
    EnqueueRefused,
    Preempted,
    ResmgrChanged,
    WaitingTold,
    Withdrawn,
)
from jobmgr.core.state.in_flight import ENQUEUING, Busy
from jobmgr.core.state.task_states import Cause
from jobmgr.core.task.status_rules import LONGEST_MESSAGE
from peloton.model.states import TaskState

_BEFORE_LAUNCH = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


def waiting(active: ActiveJobs, turn: Turn, event: WaitingTold) -> None:
    for run, state, reason in event.deltas:
        work = active.jobs.get(run.job_id)
        if work is not None:
            work.job.told(run.instance, run.run, state, reason)


def preempted(active: ActiveJobs, turn: Turn, event: Preempted) -> None:
    for run, reason in event.runs:
        change = active.change(turn, run.job_id)
        if change is not None and change.task(run.instance).run == run.run:
            active.steering.evict(change, run.instance, f"preempted: {reason}"[:LONGEST_MESSAGE])


def resmgr_changed(active: ActiveJobs, turn: Turn, event: ResmgrChanged) -> None:
    for job_id, work in active.jobs.items():
        if any(work.job.counts.get(state) for state in _BEFORE_LAUNCH):
            active.compare(job_id)


def compared(active: ActiveJobs, turn: Turn, event: Compared) -> None:
    active.comparing -= 1
    change = active.change(turn, event.job_id)
    if change is None:
        return
    change.work.comparing -= 1
    change.work.escaped.update(
        instance for instance, run in event.missing if change.task(instance).run == run
    )


def enqueued(active: ActiveJobs, turn: Turn, event: Enqueued) -> None:
    change = active.change(turn, event.job_id)
    if change is None:
        return
    current = [i for i, run in event.runs if change.task(i).run == run]
    for instance in current:
        change.work.free(instance, *ENQUEUING)
    fresh = [i for i in current if change.task(i).state is TaskState.INITIALIZED]
    change.move_all(fresh, Cause.ENQUEUED, reason="")
    for instance in current:
        active.steering.evaluate(change, instance)


def enqueue_refused(active: ActiveJobs, turn: Turn, event: EnqueueRefused) -> None:
    change = active.change(turn, event.job_id)
    if change is None:
        return
    for instance, run in event.runs:
        if change.task(instance).run == run and change.work.busy.get(instance) in ENQUEUING:
            if change.task(instance).state is TaskState.PENDING:  # not here, as is now known
                change.move(instance, Cause.ENQUEUE_REFUSED)
            active.steering.pause(change, instance, event.message)


def withdrawn(active: ActiveJobs, turn: Turn, event: Withdrawn) -> None:
    change = active.change(turn, event.job_id)
    if change is None:
        return
    for instance, run in event.runs:
        task = change.task(instance)
        if task.run != run:
            continue
        change.work.free(instance, Busy.WITHDRAW)
        if task.state in _BEFORE_LAUNCH:
            active.steering.end_unlaunched(change, instance, "stopped before it was launched")
        else:
            active.steering.evaluate(change, instance)
