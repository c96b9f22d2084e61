"""How a job has ended, as operator and trigger tell each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import RuntimeInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo

SUCCEEDED, TIMED_OUT = "SUCCEEDED", "TIMED_OUT"
MOST_FAILURES = 1000
"""Failed instances that are looked through for the first one."""


def outcome(job_id: str, runtime: RuntimeInfo) -> dict[str, Any]:
    """Return how a job has ended, as plain data."""
    return {"job_id": job_id, "state": job_pb2.JobState.Name(runtime.state), "reason": runtime.reason}


def timed_out(job_id: str) -> dict[str, Any]:
    """Return that a job was stopped since its time was over."""
    return {"job_id": job_id, "state": TIMED_OUT, "reason": "execution_timeout is over: the job was stopped"}


def progress(runtime: RuntimeInfo) -> str:
    """Return state and counts of instances, for a log."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(runtime.taskStats.items()) if count)
    return (
        f"{job_pb2.JobState.Name(runtime.state)}: {counts}"
        if counts
        else job_pb2.JobState.Name(runtime.state)
    )


def stop_request(job_id: str) -> job_pb2.StopRequest:
    """Return the request that stops a job."""
    return job_pb2.StopRequest(id=peloton_pb2.JobID(value=job_id))


def failures_query(job_id: str) -> task_pb2.QueryRequest:
    """Return the request for the failed instances of a job."""
    request = task_pb2.QueryRequest(jobId=peloton_pb2.JobID(value=job_id))
    request.spec.taskStates.append(task_pb2.FAILED)
    request.spec.pagination.limit = MOST_FAILURES
    return request


def first_failure(failed: Iterable[TaskInfo]) -> TaskInfo | None:
    """Return the instance that failed first, None where none did."""
    return min(failed, key=lambda each: (each.runtime.completionTime, each.instanceId), default=None)
