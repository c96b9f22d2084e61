"""Wait for a job to end, and say how it did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from peloton.cli.exit_codes import DONE, JOB_FAILED
from peloton.cli.progress import all_run, follow, progress_line, seen_job
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.api.v0.peloton_pb2 import JobID
    from peloton.api.v0.task import task_pb2


def get_info(session: Session, job_id: str) -> JobInfo:
    """Return a job. Raises CallFailed."""
    from peloton.api.v0.job import job_pb2

    return session.call(RPCS.job_svc.Get, job_pb2.GetRequest(id=_id(job_id))).jobInfo


def follow_to_end(session: Session, job_id: str, until_it_runs: bool = False) -> JobInfo:
    """Show the progress of a job until it has ended, or all of its instances run; return it as it is then."""
    stream = sys.stdout if session.plain else sys.stderr
    return follow(
        lambda: seen_job(get_info(session, job_id), until_it_runs),
        progress_line(stream),
        lambda: stuck_reason(session, job_id),
    )


def stuck_reason(session: Session, job_id: str) -> str:
    """Return why the first PENDING task of a job waits, else how its first failed one failed.

    Empty where neither is known.
    """
    from peloton.api.v0.task import task_pb2
    from peloton.present.texts import clean
    from peloton.present.why import ended as how_it_ended

    try:
        pending = _first(session, job_id, 1, task_pb2.PENDING)
        if pending:
            reason = clean(pending[0].runtime.reason)
            return f"waits: {reason}" if reason else ""
        failed = _first(session, job_id, 1, task_pb2.FAILED, task_pb2.LOST)
    except PelotonError:
        return ""
    return f"instance {failed[0].instanceId}: {how_it_ended(failed[0].runtime)}" if failed else ""


def ended(session: Session, info: JobInfo, until_it_runs: bool = False) -> int:
    """Print why a job did not succeed, or does not run; return the exit code."""
    from peloton.api.v0.job import job_pb2
    from peloton.cli.output import say

    if info.runtime.state == job_pb2.SUCCEEDED or (until_it_runs and all_run(info)):
        return DONE
    say(f"Job {info.id.value} ended {job_pb2.JobState.Name(info.runtime.state)}")
    for line in failed_instances(session, info.id.value):
        say(line)
    return JOB_FAILED


def failed_instances(session: Session, job_id: str) -> list[str]:
    """Return a line on each of the first three instances that did not succeed."""
    from peloton.api.v0.task import task_pb2
    from peloton.present.texts import clean

    try:
        found = _first(session, job_id, 3, task_pb2.FAILED, task_pb2.LOST, task_pb2.KILLED)
    except PelotonError as error:
        return [f"the reasons cannot be read: {error}"]
    names = task_pb2.TaskState.Name
    return [
        f"  instance {one.instanceId} {names(one.runtime.state)}: "
        f"{clean(one.runtime.message or one.runtime.reason or 'no message')}"
        for one in found
    ]


def _first(
    session: Session, job_id: str, count: int, *states: task_pb2.TaskState.ValueType
) -> Sequence[task_pb2.TaskInfo]:
    """Return the first instances of a job that are in any of these states. Raise PelotonError."""
    from peloton.api.v0.query import query_pb2
    from peloton.api.v0.task import task_pb2

    spec = task_pb2.QuerySpec(taskStates=states, pagination=query_pb2.PaginationSpec(limit=count))
    return session.call(RPCS.task_svc.Query, task_pb2.QueryRequest(jobId=_id(job_id), spec=spec)).records


def _id(value: str) -> JobID:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.JobID(value=value)
