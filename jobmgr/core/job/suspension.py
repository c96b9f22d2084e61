"""Suspended batch jobs: their instances are stopped or not created, and run again when they are resumed."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import SuspensionAsked
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.authors import asked_end
from peloton.errors import Refused
from peloton.model.job import JobSpec
from peloton.model.states import JobType, TaskState, TerminationReason


def refusal(spec: JobSpec) -> str:
    """Return why a job of this spec cannot be suspended; empty where it can."""
    if spec.type is not JobType.BATCH:
        return f"a {spec.type.name} job cannot be suspended: stop and start it"
    if spec.schedule is not None:
        return "a job with a schedule cannot be suspended: pause its schedule"
    if spec.bound_members or spec.workload.elastic:
        return "a job whose gang ends as one cannot be suspended: stop it"
    return ""


def on_suspension_asked(active: ActiveJobs, cycle: Cycle, event: SuspensionAsked) -> Refused | None:
    """Suspend a job, or let it go on. Nothing changes where that is so already."""
    change = active.change(cycle, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended")
    if change.goal in ENDING_JOB_GOALS:
        return Refused(f"job {event.job_id} is being stopped")
    if (text := refusal(change.spec)) and event.suspend:
        return Refused(text)
    if event.suspend and not change.suspended:
        _suspend(active, change, event)
    elif not event.suspend and change.suspended:
        _resume(active, change)
    return None


def _suspend(active: ActiveJobs, change: Change, event: SuspensionAsked) -> None:
    change.suspended = change.timestamp()
    for instance in range(change.size):
        task = change.task(instance)
        goes_on = not task.state.terminal or task.desired_run > task.run
        if task.goal is TaskState.SUCCEEDED and goes_on:
            how = asked_end(task, TerminationReason.KILLED_ON_REQUEST, event.by)
            change.revise(instance, goal=TaskState.KILLED, desired_run=task.run, termination=how)
            active.actions.evaluate(change, instance)


def _resume(active: ActiveJobs, change: Change) -> None:
    """Let the job go on: what is stopped gets its next run, what has no row gets one."""
    change.suspended = 0
    for instance in range(change.size):
        task = change.task(instance)
        if change.is_interrupted(task):
            change.revise(instance, goal=change.running_goal, desired_run=task.run + 1)
            active.actions.evaluate(change, instance)
    active.create_rows(change.job_id)
