"""`peloton job rolling-restart`, `rolling-start` and `rolling-stop`: batch by batch, by the v0 API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from peloton.cli import references
from peloton.cli.commands.task import RANGES
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import WholeNumber
from peloton.cli.session import Session, pass_session
from peloton.cli.updates import BATCH_SIZE
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    import grpc
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from peloton.api.v0.peloton_pb2 import JobID, UpdateID
    from peloton.api.v0.task.task_pb2 import InstanceRange


class RollingRequest(Protocol):
    """A request about instances of a job, which an update answers."""

    resourceVersion: int

    @property
    def id(self) -> JobID:
        """The job."""
        ...

    @property
    def ranges(self) -> RepeatedCompositeFieldContainer[InstanceRange]:
        """The instances; empty: all."""
        ...


class OfUpdate(Protocol):
    """An answer that names an update."""

    @property
    def updateID(self) -> UpdateID:
        """The update."""
        ...


Request = TypeVar("Request", bound=RollingRequest)
Answer = TypeVar("Answer", bound=OfUpdate)

JOB = click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
RESOURCE_VERSION = click.option(
    "--resourceVersion",
    "resource_version",
    type=WholeNumber(0, 2**63 - 1),
    default=0,
    help="Only if the job's config is still at this version.  [default: any]",
)


@click.command("rolling-restart", cls=Command)
@JOB
@BATCH_SIZE
@RESOURCE_VERSION
@RANGES
@pass_session
def rolling_restart(session: Session, /, batch_size: int, **given: Any) -> None:
    """Restart the instances of a service, BATCH-SIZE at a time; 0: all at once. Stopped ones are started."""
    from peloton.api.v0.job import job_pb2

    request = job_pb2.RestartRequest(restartConfig=job_pb2.RestartConfig(batchSize=batch_size))
    _roll(session, RPCS.job_svc.Restart, request, "restarted", **given)


@click.command("rolling-start", cls=Command)
@JOB
@BATCH_SIZE
@RESOURCE_VERSION
@RANGES
@pass_session
def rolling_start(session: Session, /, batch_size: int, **given: Any) -> None:
    """Start instances of a service that were stopped, BATCH-SIZE at a time, all at once with 0."""
    from peloton.api.v0.job import job_pb2

    request = job_pb2.StartRequest(startConfig=job_pb2.StartConfig(batchSize=batch_size))
    _roll(session, RPCS.job_svc.Start, request, "started", **given)


@click.command("rolling-stop", cls=Command)
@JOB
@BATCH_SIZE
@RESOURCE_VERSION
@RANGES
@pass_session
def rolling_stop(session: Session, /, batch_size: int, **given: Any) -> None:
    """Stop the instances of a service, BATCH-SIZE at a time, all at once with 0."""
    from peloton.api.v0.job import job_pb2

    request = job_pb2.StopRequest(stopConfig=job_pb2.StopConfig(batchSize=batch_size))
    _roll(session, RPCS.job_svc.Stop, request, "stopped", **given)


ROLLING = (rolling_restart, rolling_start, rolling_stop)


def _roll(
    session: Session,
    rpc: grpc.UnaryUnaryMultiCallable[Request, Answer],
    request: Request,
    done: str,
    job_id: str,
    resource_version: int,
    ranges: tuple[tuple[int, int], ...],
) -> None:
    request.id.value, request.resourceVersion = job_id, resource_version
    for low, high in ranges:
        request.ranges.add(**{"from": low, "to": high})
    response = session.call(rpc, request)
    update = response.updateID.value
    session.show(
        response, lambda: f"Job {job_id} is being {done}" + (f" by update {update}" if update else "")
    )
