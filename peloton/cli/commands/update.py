"""`peloton update`: updates of services by the v0 API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from peloton.cli import references
from peloton.cli.exit_codes import DONE
from peloton.cli.groups import Group
from peloton.cli.live_names import files, live_jobs, live_pools
from peloton.cli.params import WholeNumber
from peloton.cli.session import Session, pass_session
from peloton.cli.updates import BATCH_SIZE, FOLLOW, OPAQUE_DATA, UpdateFlags, take_pool, update_options
from peloton.client.rpcs import RPCS, request_of
from peloton.errors import Refused

if TYPE_CHECKING:
    import grpc

    from peloton.api.v0.peloton_pb2 import JobID, OpaqueData, UpdateID


class UpdateRequest(Protocol):
    """A request to change the course of an update."""

    @property
    def updateId(self) -> UpdateID:
        """The update."""
        ...

    @property
    def opaque_data(self) -> OpaqueData:
        """What the caller keeps with it."""
        ...


Control = TypeVar("Control", bound=UpdateRequest)
Request = TypeVar("Request")
Answer = TypeVar("Answer")

JOB = click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
UPDATE = click.argument("update_id", metavar="UPDATE")


@click.group(cls=Group)
def update() -> None:
    """Update services, instance by instance."""


@update.command()
@JOB
@click.argument("config", shell_complete=files)
@BATCH_SIZE
@click.argument("respool", shell_complete=live_pools)
@update_options
@FOLLOW
@pass_session
def create(session: Session, /, job_id: str, config: str, respool: str, follows: bool, **given: Any) -> int:
    """Update a service to CONFIG (YAML, `-` for standard input), BATCH-SIZE instances at a time.

    RESPOOL is the path of the pool that the job is in. An update that is under way is replaced with
    --override only.
    """
    from peloton.api.v0.update.svc import update_svc_pb2 as pb
    from peloton.cli.spec_check import located, read
    from peloton.wire.workflow import options_to

    flags, parsed = UpdateFlags(**given), read("job", config)
    spec = parsed.message
    with located(parsed):
        take_pool(session, spec.respoolID, "respoolID", respool)
    if not flags.override:
        _check_ended(session, job_id)
    request = pb.CreateUpdateRequest(
        jobId=_job(job_id), jobConfig=spec, updateConfig=options_to(flags.options)
    )
    if flags.opaque_data:
        request.opaque_data.data = flags.opaque_data
    with located(parsed):
        response = _call(session, RPCS.update_svc.CreateUpdate, request, f"job {job_id}")
    done = f"Job {job_id} is being updated by update {response.updateID.value}"
    if not follows:
        session.show(response, lambda: done, response.updateID.value)
        return DONE
    if session.plain:
        click.echo(done)
    from peloton.cli.follow_workflow import follow_workflow

    return follow_workflow(session, job_id)


@update.command()
@UPDATE
@pass_session
def get(session: Session, update_id: str) -> None:
    """Show an update: its options and how far it is."""
    from peloton.api.v0.update.svc import update_svc_pb2 as pb

    response = _call(
        session, RPCS.update_svc.GetUpdate, pb.GetUpdateRequest(updateId=_id(update_id)), update_id
    )
    if session.json:
        session.show_object(response)
    else:
        session.show_object(response.updateInfo, update_id)


@update.command("list")
@JOB
@click.option(
    "--limit",
    type=WholeNumber(1, 1000),
    default=10,
    show_default=True,
    help="Number of updates to show, the last ones.",
)
@pass_session
def list_(session: Session, job_id: str, limit: int) -> None:
    """List the updates of a job, newest first."""
    from peloton.api.v0.update.svc import update_svc_pb2 as pb
    from peloton.cli.service_rows import update_table

    request = pb.ListUpdatesRequest(jobID=_job(job_id), limit=limit)
    response = _call(session, RPCS.update_svc.ListUpdates, request, f"job {job_id}")
    session.show(response, lambda: update_table(response.updateInfo))


@update.command()
@UPDATE
@pass_session
def cache(session: Session, update_id: str) -> None:
    """Show what the job manager holds of an update in memory."""
    from peloton.api.v0.update.svc import update_svc_pb2 as pb

    request = pb.GetUpdateCacheRequest(updateId=_id(update_id))
    response = _call(session, RPCS.update_svc.GetUpdateCache, request, update_id)
    session.show_object(response)


def _add(name: str, rpc: grpc.UnaryUnaryMultiCallable[Control, Answer], done: str, summary: str) -> None:
    """Add a command that changes the course of an update by an RPC; `done` says what became of it."""

    @update.command(name, help=summary)
    @UPDATE
    @OPAQUE_DATA
    @pass_session
    def control(session: Session, update_id: str, opaque_data: str) -> None:
        request = request_of(rpc)
        request.updateId.CopyFrom(_id(update_id))
        if opaque_data:
            request.opaque_data.data = opaque_data
        response = _call(session, rpc, request, update_id)
        session.show(response, lambda: f"Update {update_id} {done}")


_add("pause", RPCS.update_svc.PauseUpdate, "paused", "Halt an update after the instances that are in flight.")
_add("resume", RPCS.update_svc.ResumeUpdate, "resumed", "Let an update go on after a pause.")
_add("abort", RPCS.update_svc.AbortUpdate, "aborted", "End an update; the instances stay as they are.")


def _call(
    session: Session, rpc: grpc.UnaryUnaryMultiCallable[Request, Answer], request: Request, subject: str
) -> Answer:
    """Call an RPC, and name the subject of the request where it is not found. Raises CallFailed."""
    from peloton.cli.failures import CallFailed

    try:
        return session.call(rpc, request)
    except CallFailed as failure:
        if failure.code != "NOT_FOUND" or subject in str(failure):
            raise
        raise CallFailed(failure.code, f"{subject}: {failure}") from failure


def _check_ended(session: Session, job_id: str) -> None:
    """Raise Refused where an update of the job is under way."""
    from peloton.api.v0.update import update_pb2
    from peloton.api.v0.update.svc import update_svc_pb2 as pb

    running = (
        update_pb2.INITIALIZED,
        update_pb2.ROLLING_FORWARD,
        update_pb2.PAUSED,
        update_pb2.ROLLING_BACKWARD,
    )
    request = pb.ListUpdatesRequest(jobID=_job(job_id), limit=1)
    for last in _call(session, RPCS.update_svc.ListUpdates, request, f"job {job_id}").updateInfo:
        if last.status.state in running:
            state = update_pb2.State.Name(last.status.state)
            raise Refused(
                f"job {job_id}: update {last.updateId.value} is under way ({state}): --override replaces it"
            )


def _job(value: str) -> JobID:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.JobID(value=value)


def _id(value: str) -> UpdateID:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.UpdateID(value=value)
