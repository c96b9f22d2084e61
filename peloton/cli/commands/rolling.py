"""`peloton job rolling-restart`, `rolling-start` and `rolling-stop`: batch by batch, by the v0 API."""

from __future__ import annotations

from typing import Any

import click

from peloton.cli.commands.task import RANGES
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import WholeNumber
from peloton.cli.session import Session, pass_session
from peloton.cli.updates import BATCH_SIZE

JOB = click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
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
def rolling_restart(session: Session, /, **given: Any) -> None:
    """Restart the instances of a service, BATCH-SIZE at a time, all at once with 0."""
    _roll(session, "Restart", "restarted", **given)


@click.command("rolling-start", cls=Command)
@JOB
@BATCH_SIZE
@RESOURCE_VERSION
@RANGES
@pass_session
def rolling_start(session: Session, /, **given: Any) -> None:
    """Start instances of a service that were stopped, BATCH-SIZE at a time, all at once with 0."""
    _roll(session, "Start", "started", **given)


@click.command("rolling-stop", cls=Command)
@JOB
@BATCH_SIZE
@RESOURCE_VERSION
@RANGES
@pass_session
def rolling_stop(session: Session, /, **given: Any) -> None:
    """Stop the instances of a service, BATCH-SIZE at a time, all at once with 0."""
    _roll(session, "Stop", "stopped", **given)


ROLLING = (rolling_restart, rolling_start, rolling_stop)


def _roll(
    session: Session,
    method: str,
    done: str,
    job_id: str,
    batch_size: int,
    resource_version: int,
    ranges: tuple[tuple[int, int], ...],
) -> None:
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.task import task_pb2

    request = getattr(job_pb2, f"{method}Request")(
        id=peloton_pb2.JobID(value=job_id),
        ranges=[task_pb2.InstanceRange(**{"from": low, "to": high}) for low, high in ranges],
        resourceVersion=resource_version,
    )
    getattr(request, f"{method.lower()}Config").batchSize = batch_size
    response = session.call("job_svc", method, request)
    update = response.updateID.value
    session.show(
        response, lambda: f"Job {job_id} is being {done}" + (f" by update {update}" if update else "")
    )
