"""`peloton job move`: keep jobs in another cluster than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs, live_pools
from peloton.cli.params import INDEX
from peloton.cli.queries import PAGE, JobQuery
from peloton.cli.selection import confirm, unended
from peloton.cli.session import Session, pass_session
from peloton.cli.updates import FOLLOW
from peloton.client.rpcs import RPCS
from peloton.model.destination import Destination
from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary
    from peloton.private.jobmgr.moving.moving_pb2 import MoveJobRequest, MoveJobResponse


@click.command(cls=Command)
@click.argument("job_id", metavar="[JOB]", type=references.JOB, required=False, shell_complete=live_jobs)
@click.option("--to", "cluster", metavar="CLUSTER", help="Keep the tasks in the cluster with this name.")
@click.option("--to-unnamed", is_flag=True, help="Keep the tasks in the cluster without a name.")
@click.option("--anywhere", is_flag=True, help="Let the tasks run in any cluster.")
@click.option(
    "--pool",
    metavar="PATH",
    shell_complete=live_pools,
    help="Move all jobs of this pool that have not ended; they are shown before.",
)
@click.option(
    "--batch-size",
    type=INDEX,
    help="Of a service: number of instances at a time; 0: all.  [default: what its SLA allows, else a tenth]",
)
@click.option("--start-paused", is_flag=True, help="Of a service: begin paused, `workflow resume` starts it.")
@click.option(
    "--maxInstanceRetries", "max_retries", type=INDEX, default=0, help="Of a service: as in an update."
)
@click.option(
    "--maxTolerableInstanceFailures",
    "max_failures",
    type=INDEX,
    default=0,
    help="Of a service: failed instances after which the move has failed.  [default: no limit]",
)
@click.option("--rollbackOnFailure", "rollback", is_flag=True, help="Of a service: go back where it failed.")
@click.option("-f", "--force", is_flag=True, help="Do not ask before the jobs of a pool are moved.")
@FOLLOW
@pass_session
def move(
    session: Session, /, job_id: str | None, pool: str | None, force: bool, follows: bool, **given: Any
) -> int:
    """Keep a job in one cluster: the constraint on the host label `cluster` changes, and nothing else.

    A service goes by an update, some instances at a time: `stateless workflow pause`, `resume` and `abort`
    are for it, and a move to where it was goes back. A batch job goes by its next runs: those that wait begin
    anew at once, those that run stay until they end.
    """
    if bool(job_id) == bool(pool):
        raise click.UsageError("give either a job or --pool")
    if pool and follows:
        raise click.UsageError("--follow is for one job, and not for --pool")
    to = _destination(given.pop("cluster"), given.pop("to_unnamed"), given.pop("anywhere"))
    request = _request(to, **given)
    if job_id:
        return _move_one(session, job_id, request, to, follows)
    assert pool is not None
    return _move_all(session, pool, request, to, force)


def _destination(cluster: str | None, unnamed: bool, anywhere: bool) -> Destination:
    if (cluster is not None) + unnamed + anywhere != 1:
        raise click.UsageError("give one of --to CLUSTER, --to-unnamed and --anywhere")
    if cluster == "":
        raise click.UsageError("--to: the name of a cluster; --to-unnamed is for the one without a name")
    return Destination(None if anywhere else cluster or "")


def _request(
    to: Destination,
    batch_size: int | None,
    start_paused: bool,
    max_retries: int,
    max_failures: int,
    rollback: bool,
) -> MoveJobRequest:
    from peloton.private.jobmgr.moving import moving_pb2

    request = moving_pb2.MoveJobRequest(
        start_paused=start_paused,
        max_retries=max_retries,
        max_failures=max_failures,
        rollback_on_failure=rollback,
    )
    if batch_size is not None:
        request.batch_size = batch_size
    if to.cluster is None:
        request.anywhere = True
    elif to.cluster:
        request.cluster = to.cluster
    else:
        request.unnamed = True
    return request


def _move_one(session: Session, job_id: str, request: MoveJobRequest, to: Destination, follows: bool) -> int:
    request.job_id.value = job_id
    answer = session.call(RPCS.moving_svc.MoveJob, request)
    told = _told(job_id, answer, to)
    if not (follows and answer.version.value):
        session.show(answer, lambda: told, job_id)
        return DONE
    if session.plain:
        click.echo(told)
    from peloton.cli.follow_workflow import follow_workflow

    return follow_workflow(session, job_id)


def _move_all(session: Session, pool: str, request: MoveJobRequest, to: Destination, sure: bool) -> int:
    """Move the jobs of a pool, one after the other; those that are refused are told of, and left."""
    from peloton.cli.failures import CallFailed
    from peloton.cli.output import say
    from peloton.cli.waiting import one_by_one

    jobs = _jobs_of(session, pool)
    confirm(f"Move to {to}", jobs, sure)
    lines, moved = list[str](), list[str]()
    for job in one_by_one(jobs, "moving jobs"):
        job_id = job.id.value
        request.job_id.value = job_id
        try:
            answer = session.call(RPCS.moving_svc.MoveJob, request)
        except CallFailed as failure:
            if failure.transient:
                raise
            say(f"peloton: {job.name} ({job_id}): {failure}")
            continue
        lines.append(_told(f"{job.name} ({job_id})", answer, to))
        moved.append(job_id)
    if not jobs:
        lines = [f"No job of {pool} has not ended"]
    session.show([{"jobId": each} for each in moved], lambda: "\n".join(lines), "\n".join(moved))
    return DONE if len(moved) == len(jobs) else REFUSED


def _jobs_of(session: Session, pool: str) -> Sequence[JobSummary]:
    """Return the jobs of a pool that have not ended. A page at a time: there may be many."""
    found: list[JobSummary] = []
    while True:
        query = JobQuery(
            respool=pool, states=unended(), limit=PAGE, total=len(found) + PAGE, offset=len(found)
        )
        page = session.call(RPCS.job_svc.Query, query.request()).results
        found += page
        if len(page) < PAGE:
            return found


def _told(name: str, answer: MoveJobResponse, to: Destination) -> str:
    """Describe what becomes of a job."""
    allowed = f"goes to {to}" if to.cluster is not None else "may go to any cluster"
    if not answer.changed:
        return (
            f"Job {name} is kept there already" if to.cluster is not None else f"Job {name} may go anywhere"
        )
    if answer.version.value:
        at_a_time = plural(answer.batch_size, "instance") if answer.batch_size else "all instances"
        return f"Job {name} {allowed}, {at_a_time} at a time, entity version {answer.version.value}"
    begun, staying = answer.begun_anew, answer.staying
    parts = [f"{plural(begun, 'waiting run')} {'begins' if begun == 1 else 'begin'} anew"] if begun else []
    parts += [f"{plural(staying, 'run')} {'goes' if staying == 1 else 'go'} on to the end"] if staying else []
    return f"Job {name} {allowed} by its next runs" + (f": {', '.join(parts)}" if parts else "")
