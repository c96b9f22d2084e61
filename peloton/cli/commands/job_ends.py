"""`peloton job stop` and `delete`: one job, or those of an owner or with labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import COUNT, Labels, WholeNumber
from peloton.cli.queries import PAGE, JobQuery
from peloton.cli.selection import confirm, one_or_found, unended
from peloton.cli.session import Session, pass_session
from peloton.errors import Refused

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary

JOB = click.argument("job_id", metavar="[JOB]", required=False, shell_complete=live_jobs)
LIMIT = click.option(
    "-n", "--limit", type=WholeNumber(1, PAGE), default=100, show_default=True, help="At most so many."
)
TOTAL = click.option("-q", "--total", type=COUNT, default=100, show_default=True, help="Look at so many.")


@click.command(cls=Command)
@JOB
@click.option("--progress", is_flag=True, help="Show the progress until the jobs have ended.")
@click.option("--owner", help="Stop the active jobs of this owner.")
@click.option("-l", "--labels", type=Labels(), help="Stop the active jobs that have these labels.")
@click.option(
    "-f", "--force", is_flag=True, help="Do not ask before jobs found by owner or labels are stopped."
)
@LIMIT
@TOTAL
@pass_session
def stop(session: Session, /, job_id: str | None, progress: bool, force: bool, **wanted: Any) -> int:
    """Stop a job, or the active jobs of an owner or with labels, which are shown before."""
    from peloton.cli.follow import follow_to_end
    from peloton.cli.waiting import one_by_one

    ids = _chosen(session, "Stop", job_id, force, unended(), wanted)
    each = one_by_one(ids, "stopping jobs", quiet=session.plain)  # people see each of them anyway
    stopped = [one for one in (_stop(session, one, one == job_id) for one in each) if one is not None]
    infos = [follow_to_end(session, one["jobId"]) for one in stopped] if progress else []
    if not session.plain:
        from peloton.client.plain import as_json

        session.show([as_json(one) for one in infos] if progress else stopped, lambda: "", "\n".join(ids))
    elif not ids:
        click.echo("No active job found")
    return DONE if len(stopped) == len(ids) else REFUSED


@click.command(cls=Command)
@JOB
@click.option("--owner", help="Delete the ended jobs of this owner.")
@click.option("-l", "--labels", type=Labels(), help="Delete the ended jobs that have these labels.")
@click.option(
    "-f", "--force", is_flag=True, help="Do not ask before jobs found by owner or labels are deleted."
)
@LIMIT
@TOTAL
@pass_session
def delete(session: Session, /, job_id: str | None, force: bool, **wanted: Any) -> int:
    """Remove a job that has ended, with its tasks, or those of an owner or with labels, shown before.

    By owner or labels, jobs that ended in the last 7 days are found.
    """
    from peloton.api.v0.job import job_pb2
    from peloton.cli.output import say
    from peloton.cli.waiting import one_by_one

    one_or_found(job_id, wanted["owner"], wanted["labels"])
    if job_id:
        response = session.call("job_svc", "Delete", job_pb2.DeleteRequest(id=_id(job_id)))
        session.show(response, lambda: f"Job {job_id} deleted", job_id)
        return DONE
    ids = _chosen(session, "Delete", None, force, _ended(), wanted)
    deleted = []
    for one in one_by_one(ids, "deleting jobs"):
        try:
            session.call("job_svc", "Delete", job_pb2.DeleteRequest(id=_id(one)))
        except Refused as refusal:
            say(_named(one, refusal))
        else:
            deleted.append(one)
    lines = [f"Job {one} deleted" for one in deleted] or (["No ended job found"] if not ids else [])
    session.show([{"jobId": one} for one in deleted], lambda: "\n".join(lines), "\n".join(deleted))
    return DONE if len(deleted) == len(ids) else REFUSED


ENDS = (stop, delete)


def _chosen(
    session: Session, verb: str, job_id: str | None, sure: bool, states: list[int], wanted: dict[str, Any]
) -> Sequence[str]:
    """Return the ids of the job that is given, or of those that are found; ask first for these."""
    one_or_found(job_id, wanted["owner"], wanted["labels"])
    if job_id:
        return [job_id]
    query = JobQuery(**{name: value for name, value in wanted.items() if value is not None}, states=states)
    found: Sequence[JobSummary] = session.call("job_svc", "Query", query.request()).results
    confirm(verb, found, sure)
    return [one.id.value for one in found]


def _stop(session: Session, job_id: str, given: bool) -> dict[str, Any] | None:
    """Stop a job; return what was stopped, or None and print why where it was refused.

    `given` tells whether the user gave its id.
    """
    from peloton.api.v0.task import task_pb2
    from peloton.cli.failures import with_hint
    from peloton.cli.output import say

    try:
        response = session.call("task_svc", "Stop", task_pb2.StopRequest(jobId=_id(job_id)))
    except Refused as refusal:
        said = _named(job_id, refusal)
        say(with_hint(said, job_id) if given else said)
        return None
    count = len(response.stoppedInstanceIds)
    if session.plain:
        click.echo(
            f"Job {job_id} "
            + (f"is being stopped: {count} instances" if count else "has no instance left to stop")
        )
    return {"jobId": job_id, "stoppedInstanceIds": list(response.stoppedInstanceIds)}


def _named(job_id: str, refusal: Refused) -> str:
    said = str(refusal)
    return f"peloton: {said}" if job_id in said else f"peloton: job {job_id}: {said}"


def _ended() -> list[int]:
    from peloton.api.v0.job import job_pb2

    return [job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED]


def _id(value: str) -> Any:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.JobID(value=value)
