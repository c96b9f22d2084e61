"""Instances of batch jobs that are given back, and the use of their numbers for new ones.

A released instance has the goal DELETED: its run is ended first where it is live, then the instance leaves
the job. Its row stays, unseen, for the number of its last run: the next run of this number is another one.
All of it follows from the rows, so the next leader goes on where this one falls.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import ReleaseRequested, ReuseRequested
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.authors import asked_end
from jobmgr.core.task.creation import come_back, first_runtime
from jobmgr.core.task.gang import note_new
from jobmgr.core.task.volumes import home_for_next_run
from peloton.errors import InvalidArgument, PelotonError, Refused
from peloton.model.plural import plural
from peloton.model.states import TaskState, TerminationReason

Answer = list[int] | PelotonError
"""The instances that a request applies to, or why it is refused."""


def on_release_requested(active: ActiveJobs, cycle: Cycle, event: ReleaseRequested) -> Answer:
    """Release instances; return those that were not released before."""
    change = active.change(cycle, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended: it has no instance to release")
    size = change.spec.instance_count
    fresh = [i for i in sorted({*event.instances}) if 0 <= i < size]
    fresh = [i for i in fresh if change.task(i).goal is not TaskState.DELETED]
    refused = _refusal(change, fresh)
    if refused is not None:
        return refused
    fresh = fresh[: active.actions.limits.rows_per_cycle]
    for instance in fresh:
        _release(active, change, instance, event.by)
    change.released += len(fresh)
    return fresh


def on_reuse_requested(active: ActiveJobs, cycle: Cycle, event: ReuseRequested) -> Answer:
    """Add instances by the lowest free numbers, as the newest config has them; return these."""
    change = active.change(cycle, event.job_id)
    if change is None or change.job.runtime.state.terminal:
        return Refused(f"job {event.job_id} has ended")
    if change.goal in ENDING_JOB_GOALS:
        return Refused(f"job {event.job_id} is being stopped")
    if change.suspended:
        return Refused(f"job {event.job_id} is suspended: resume it")
    short = event.count - (change.spec.instance_count - change.released)
    numbers = change.free_numbers(min(short, event.most, active.actions.limits.rows_per_cycle))
    version = change.spec.version
    for instance in numbers:
        task = change.task(instance)
        home = home_for_next_run(change, instance, task, version)
        come_back(change, instance, task, version, desired_host=home.host, volume_id=home.volume_id)
        change.in_flight.mark_ready(instance)
    note_new(change)
    change.released -= len(numbers)
    return numbers


def _refusal(change: Change, fresh: Sequence[int]) -> PelotonError | None:
    if change.service:
        name = change.spec.type.name
        return InvalidArgument("type", name, "BATCH: another job gets fewer instances by an update")
    if not fresh:
        return None
    gang = change.spec.gang_size
    if fresh[0] < gang:
        text = f"{gang} or more: instances 0 to {gang - 1} are one gang, which ends with its job"
        return InvalidArgument("ranges", fresh[0], text)
    if fresh[0] == 0 and change.task_spec(0).controller:
        return InvalidArgument("ranges", 0, "1 or more: the job ends with instance 0, its controller")
    have = change.spec.instance_count - change.released
    if len(fresh) >= have:
        text = f"fewer than {plural(have, 'instance')}, which are all that the job has: stop the job instead"
        return InvalidArgument("ranges", plural(len(fresh), "instance"), text)
    return None


def _release(active: ActiveJobs, change: Change, instance: int, by: str) -> None:
    """Have an instance leave the job, once its run has ended. One without a row gets one, as ended."""
    if change.task(instance) is NOT_CREATED:
        change.create([instance], first_runtime(change, instance, stopped=True, by=by))
    task = change.task(instance)
    how = asked_end(task, TerminationReason.KILLED_ON_REQUEST, by)
    change.revise(instance, goal=TaskState.DELETED, desired_run=task.run, termination=how)
    active.actions.evaluate(change, instance)
