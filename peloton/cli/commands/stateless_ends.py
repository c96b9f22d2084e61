"""`peloton job stateless stop` and `delete`: one service, or those of an owner or with labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import Labels
from peloton.cli.queries import JobQuery
from peloton.cli.selection import confirm, one_or_found, unended
from peloton.cli.session import Session, pass_session
from peloton.cli.versions import VERSION, call_job, version_or_present
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobState

End = Callable[[Session, str, str], object]
"""Ends a service by its id and entity version, and returns the answer."""
JOB = click.argument("job_id", metavar="[JOB]", type=references.JOB, required=False, shell_complete=live_jobs)
OWNER = click.option("--owner", help="The services of this owner instead.")
LABELS = click.option("-l", "--labels", type=Labels(), help="The services that have these labels instead.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask before services found by owner or labels.")


@click.command(cls=Command)
@JOB
@VERSION
@OWNER
@LABELS
@YES
@pass_session
def stop(session: Session, /, **given: Any) -> int:
    """Stop all instances of a service, or of those of an owner or with labels, which are shown before."""
    return _end(session, "Stop", _stop, "is being stopped", unended(), **given)


@click.command(cls=Command)
@JOB
@VERSION
@click.option("-f", "--force", is_flag=True, help="Stop it first where it runs.")
@OWNER
@LABELS
@YES
@pass_session
def delete(session: Session, /, force: bool, **given: Any) -> int:
    """Delete a service that was stopped, with its pods, or those of an owner or with labels, shown before."""
    return _end(session, "Delete", partial(_delete, force=force), "is being deleted", [], **given)


ENDS = (stop, delete)


def _end(
    session: Session,
    verb: str,
    end: End,
    done: str,
    states: list[int],
    *,
    job_id: str | None,
    version: str,
    owner: str | None,
    labels: Any,
    yes: bool,
) -> int:
    from peloton.cli.waiting import one_by_one

    one_or_found(job_id, owner, labels)
    if job_id:
        ended = _ended(session, job_id) if end is _stop else ""
        response = end(session, job_id, version)
        outcome = ended or _with_version(done, response)
        session.show(response, lambda: f"Job {job_id} {outcome}", job_id)
        return DONE
    found = _found(session, JobQuery(owner=owner or "", labels=labels or [], states=states))
    confirm(verb, found, yes)
    each = one_by_one(found, f"{verb.lower()} services")
    lines = [_one(session, end, job.id.value, done) for job in each]
    said = [line for line in lines if line]
    ids = [job.id.value for job, line in zip(found, lines, strict=True) if line]
    human = "\n".join(said) if found else "No service found"
    session.show([{"jobId": one} for one in ids], lambda: human, "\n".join(ids))
    return DONE if len(said) == len(found) else REFUSED


def _found(session: Session, query: JobQuery) -> Sequence[JobSummary]:
    from peloton.api.v0.job import job_pb2

    jobs = session.call(RPCS.job_svc.Query, query.request()).results
    return [job for job in jobs if job.type != job_pb2.BATCH]


def _one(session: Session, end: End, job_id: str, done: str) -> str:
    """End one of several services at its present version; return nothing where it was refused."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.failures import CallFailed
    from peloton.cli.output import say

    request = pb.GetJobRequest(summary_only=True)
    request.job_id.value = job_id
    try:
        status = call_job(session, RPCS.stateless_svc.GetJob, request).summary.status
        ended = _ended_as(status.state) if end is _stop else ""
        response = end(session, job_id, status.version.value)
    except CallFailed as failure:
        if failure.transient:
            raise
        text = str(failure)
        say(f"peloton: {text}" if job_id in text else f"peloton: job {job_id}: {text}")
        return ""
    return f"Job {job_id} {ended or _with_version(done, response)}"


def _ended(session: Session, job_id: str) -> str:
    """Describe a job that has ended; return nothing of another, and where that cannot be known now."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.failures import CallFailed

    request = pb.GetJobRequest(summary_only=True)
    request.job_id.value = job_id
    try:
        return _ended_as(call_job(session, RPCS.stateless_svc.GetJob, request).summary.status.state)
    except CallFailed:  # the call that follows says why
        return ""


def _ended_as(state: JobState.ValueType) -> str:
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    name = stateless_pb2.JobState.Name(state).removeprefix("JOB_STATE_")
    return f"has ended already: it is {name}" if name in ("SUCCEEDED", "FAILED", "KILLED") else ""


def _stop(session: Session, job_id: str, version: str) -> object:
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    request = pb.StopJobRequest()
    request.job_id.value = job_id
    request.version.value = version_or_present(session, job_id, version)
    return call_job(session, RPCS.stateless_svc.StopJob, request, version)


def _delete(session: Session, job_id: str, version: str, *, force: bool) -> object:
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    request = pb.DeleteJobRequest(force=force)
    request.job_id.value = job_id
    request.version.value = version_or_present(session, job_id, version)
    return call_job(session, RPCS.stateless_svc.DeleteJob, request, version)


def _with_version(done: str, response: object) -> str:
    version = getattr(response, "version", None)
    return f"{done}, entity version {version.value}" if version is not None else done
