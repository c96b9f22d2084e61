"""Handlers of resmgr's reports: runs taken, refused, missing or withdrawn, and why they wait."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.sweeps import compare_these
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import (
    Compared,
    Enqueued,
    EnqueueRefused,
    PendingReasons,
    ResmgrChanged,
    Withdrawn,
)
from jobmgr.core.state.in_flight import ENQUEUING, PendingOp
from jobmgr.core.state.instructions import Settle
from jobmgr.core.state.task_states import Cause
from jobmgr.core.task.goal import Goal, goal_of
from jobmgr.core.task.survivors import on_taken_back
from peloton.model.ids import Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState

_BEFORE_LAUNCH = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


def on_pending_reasons(active: ActiveJobs, cycle: Cycle, event: PendingReasons) -> None:
    """Note why runs wait. The reasons are kept in memory only."""
    for run, state, reason in event.deltas:
        in_flight = active.jobs.get(run.job_id)
        if in_flight is not None:
            in_flight.job.set_pending_reason(run.instance, run.run, state, reason)


def on_resmgr_changed(active: ActiveJobs, cycle: Cycle, event: ResmgrChanged) -> None:
    """Compare the waiting runs of all jobs with what the new resmgr holds.

    Those that are being enqueued are compared once that is answered: by the former resmgr, perhaps.
    """
    for job_id, in_flight in active.jobs.items():
        in_flight.doubted.update(i for i, op in in_flight.pending.items() if op in ENQUEUING)
        if any(in_flight.job.counts.get(state) for state in _BEFORE_LAUNCH):
            active.compare(job_id)


def on_compared(active: ActiveJobs, cycle: Cycle, event: Compared) -> None:
    """Note the runs that resmgr does not hold: they are enqueued again."""
    assert active.comparing > 0, f"{event.job_id}: an answer of resmgr to no question"
    active.comparing -= 1
    change = active.change(cycle, event.job_id)
    if change is None:
        return
    if change.in_flight.comparing:  # none where the job was forgotten since, and read again
        change.in_flight.comparing -= 1
    change.in_flight.missing.update(
        instance for instance, run in event.missing if change.task(instance).run == run
    )


def on_enqueued(active: ActiveJobs, cycle: Cycle, event: Enqueued) -> None:
    """Take enqueued runs to PENDING."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return
    current = [i for i, run in event.runs if change.task(i).run == run]
    for instance in current:
        change.in_flight.finish(instance, *ENQUEUING)
    fresh = [i for i in current if change.task(i).state is TaskState.INITIALIZED]
    change.move_all(fresh, Cause.ENQUEUED, reason="")
    for instance in current:
        active.actions.evaluate(change, instance)
    doubted = change.in_flight.doubted.intersection(current)
    if doubted:
        change.in_flight.doubted -= doubted
        compare_these(change, doubted)
    launched = [i for i in current if change.task(i).state in ON_HOST_TASK_STATES]
    if launched:  # ahead of resmgr, which counts them from now on
        states = ((Run(event.job_id, i, change.task(i).run), change.task(i).state) for i in launched)
        cycle.instructions.append(Settle(tuple(states)))


def on_enqueue_refused(active: ActiveJobs, cycle: Cycle, event: EnqueueRefused) -> None:
    """Try refused runs again after a delay."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return
    for instance, run in event.runs:
        if change.task(instance).run == run and change.in_flight.pending.get(instance) in ENQUEUING:
            if change.task(instance).state is TaskState.PENDING:  # resmgr does not hold it
                change.move(instance, Cause.ENQUEUE_REFUSED)
            active.actions.back_off(change, instance, event.message)


def on_withdrawn(active: ActiveJobs, cycle: Cycle, event: Withdrawn) -> None:
    """End withdrawn runs that were not launched meanwhile."""
    change = active.change(cycle, event.job_id)
    if change is None:
        return
    for instance, run in event.runs:
        task = change.task(instance)
        if task.run != run:
            continue
        change.in_flight.finish(instance, PendingOp.WITHDRAW)
        if instance in change.in_flight.survivors and task.state in _BEFORE_LAUNCH:
            _taken_back(active, change, instance)
        elif task.state in _BEFORE_LAUNCH:
            active.actions.end_unlaunched(change, instance, "stopped before it was launched")
        else:
            active.actions.evaluate(change, instance)


def _taken_back(active: ActiveJobs, change: Change, instance: int) -> None:
    """Keep a lost run that lives, or go on without it."""
    on_taken_back(change, instance, active.actions.now.wall)
    task = change.task(instance)
    if task.state in _BEFORE_LAUNCH and goal_of(change.goal, task) is not Goal.RUN:
        active.actions.end_unlaunched(change, instance, "stopped before it was launched")
    else:
        active.actions.evaluate(change, instance)
