"""`peloton job stop` and `delete`, of one job or those of an owner or with labels, and `release`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.commands.rolling import RESOURCE_VERSION
from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import COUNT, InstanceRange, Labels, WholeNumber
from peloton.cli.queries import PAGE, JobQuery
from peloton.cli.selection import confirm, one_or_found, unended
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS
from peloton.errors import Refused
from peloton.model.job import MAX_INSTANCES
from peloton.model.plural import plural

if TYPE_CHECKING:
    pass

JOB = click.argument("job_id", metavar="[JOB]", type=references.JOB, required=False, shell_complete=live_jobs)
LIMIT = click.option(
    "-n", "--limit", type=WholeNumber(1, PAGE), default=100, show_default=True, help="Number of jobs at most."
)
TOTAL = click.option(
    "-q", "--total", type=COUNT, default=100, show_default=True, help="Number of jobs to examine."
)


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
    stopped = [one for one in (_stop(session, one) for one in each) if one is not None]
    infos = [follow_to_end(session, one["jobId"]) for one in stopped] if progress else []
    if not session.plain:
        from peloton.present.plain import as_json

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
        response = session.call(RPCS.job_svc.Delete, job_pb2.DeleteRequest(id=_id(job_id)))
        session.show(response, lambda: f"Job {job_id} deleted", job_id)
        return DONE
    ids = _chosen(session, "Delete", None, force, _ended(), wanted)
    deleted = []
    for one in one_by_one(ids, "deleting jobs"):
        try:
            session.call(RPCS.job_svc.Delete, job_pb2.DeleteRequest(id=_id(one)))
        except Refused as refusal:
            say(_named(one, refusal))
        else:
            deleted.append(one)
    lines = [f"Job {one} deleted" for one in deleted] or (["No ended job found"] if not ids else [])
    session.show([{"jobId": one} for one in deleted], lambda: "\n".join(lines), "\n".join(deleted))
    return DONE if len(deleted) == len(ids) else REFUSED


@click.command(cls=Command)
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.argument("ranges", type=InstanceRange(), nargs=-1)
@click.option(
    "--down-to", type=WholeNumber(1, MAX_INSTANCES), help="Keep this number of instances: the lowest ones."
)
@RESOURCE_VERSION
@pass_session
def release(
    session: Session,
    job_id: str,
    ranges: tuple[tuple[int, int], ...],
    down_to: int | None,
    resource_version: int,
) -> None:
    """Give instances of a batch job back: those of RANGES, such as 3 or 5:10, or the highest ones.

    Live ones are stopped first. Their numbers are free when they have ended: `peloton job update` with a
    larger instanceCount uses them again, the lowest first, and their history stays.
    """
    from peloton.api.v0.job.instances import instances_pb2

    if bool(ranges) == (down_to is not None):
        raise click.UsageError("give either RANGES or --down-to")
    request = instances_pb2.ReleaseInstancesRequest(
        job_id=_id(job_id), instance_count=down_to or 0, resource_version=resource_version
    )
    for low, high in ranges:
        request.ranges.add(**{"from": low, "to": high})
    response = session.call(RPCS.instance_svc.ReleaseInstances, request)
    session.show(response, lambda: _released(job_id, response))


def _released(job_id: str, response: Any) -> str:
    from peloton.model.workflow import ranges_of

    done = response.released_instances
    named = ", ".join(f"{each.first}:{each.end}" for each in ranges_of(done))
    what = f"released {plural(len(done), 'instance')} ({named})" if done else "nothing to release"
    return f"Job {job_id}: {what}; it has {plural(response.instance_count, 'instance')} now"


ENDS = (stop, delete, release)


def _chosen(
    session: Session, verb: str, job_id: str | None, sure: bool, states: list[int], wanted: dict[str, Any]
) -> Sequence[str]:
    """Return the ids of the job that is given, or of those that are found; ask first for these."""
    one_or_found(job_id, wanted["owner"], wanted["labels"])
    if job_id:
        return [job_id]
    query = JobQuery(**{name: value for name, value in wanted.items() if value is not None}, states=states)
    found = session.call(RPCS.job_svc.Query, query.request()).results
    confirm(verb, found, sure)
    return [one.id.value for one in found]


def _stop(session: Session, job_id: str) -> dict[str, Any] | None:
    """Stop a job; return what was stopped, or None and print why where it was refused."""
    from peloton.api.v0.task import task_pb2
    from peloton.cli.output import say

    try:
        response = session.call(RPCS.task_svc.Stop, task_pb2.StopRequest(jobId=_id(job_id)))
    except Refused as refusal:
        say(_named(job_id, refusal))
        return None
    count = len(response.stoppedInstanceIds)
    if session.plain:
        click.echo(
            f"Job {job_id} "
            + (f"is being stopped: {plural(count, 'instance')}" if count else "has no instance left to stop")
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
