"""What must hold of the core's state after every cycle: dear checks, over all tasks of all jobs."""

from __future__ import annotations

from collections import Counter

from pytest import approx

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.in_flight import InFlight, PendingOp
from jobmgr.core.state.throttling import is_throttled
from peloton.model.states import JobType, TaskState
from peloton.model.volume import VolumeState

S = TaskState
NO_ROW = (S.UNKNOWN, S.DELETED)


def check(active: ActiveJobs) -> None:
    """Check all active jobs, each by itself and with what is kept beside it."""
    for in_flight in active.jobs.values():
        check_sums(in_flight.job)
        check_notes(in_flight.job)
        check_pending(in_flight)
    assert active.unfinished.keys() <= active.jobs.keys()
    assert active.comparing == sum(each.comparing for each in active.jobs.values())
    for job_id, in_flight in active.jobs.items():
        assert not in_flight.unfinished or job_id in active.unfinished, f"nobody goes on with {job_id}"


def check_sums(job: CachedJob) -> None:
    """Check that the numbers of a job are those of its tasks."""
    there = [task for _, task in job.created()]
    runtime = job.runtime
    assert job.counts == Counter(task.state for task in there)
    assert dict(runtime.task_counts) == job.counts
    assert dict(runtime.config_counts) == Counter(task.config_version for task in there)
    assert job.desired_versions == Counter(task.desired_config_version for task in there)
    assert job.versions() <= job.specs.keys(), "each task has its config"
    used: Counter[str] = Counter()
    for task in job.tasks:
        used.update(task.resource_usage)
    assert {kind: amount for kind, amount in runtime.resource_usage.items() if amount} == approx(
        {kind: amount for kind, amount in used.items() if amount}
    )


def check_notes(job: CachedJob) -> None:
    """Check that what is noted of instances is of those that there are."""
    if job.spec.type is not JobType.BATCH:
        assert job.throttled == {instance for instance, task in job.created() if is_throttled(task)}
        assert not len(job.free)
    else:
        assert all(job.tasks[instance].state in NO_ROW for instance in job.free)
    assert all(0 <= instance < len(job.tasks) for instance in job.pending_reasons)
    assert all(volume.state is not VolumeState.DELETED for volume in job.volumes.values())


def check_pending(in_flight: InFlight) -> None:
    """Check that what is under way is of instances that there are, and is counted."""
    job, pending = in_flight.job, in_flight.pending
    assert in_flight.enqueuing == sum(op is PendingOp.ENQUEUE for op in pending.values())
    assert in_flight.comparing >= 0
    for instance in (*pending, *in_flight.unconfirmed, *in_flight.missing, *in_flight.attempts):
        assert 0 <= instance < len(job.tasks), instance
    created = in_flight.next_to_create if job.spec.type is JobType.BATCH else 0
    for instance in range(min(created, job.spec.instance_count)):
        assert job.tasks[instance].state is not S.UNKNOWN, f"{instance} was never created"
    assert len(in_flight._ready) == len(in_flight._ready_set)
    assert set(in_flight._ready) == in_flight._ready_set
