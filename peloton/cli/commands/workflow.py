"""`peloton job stateless workflow`: pause, resume and end the update or restart of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from peloton.cli import references
from peloton.cli.groups import Group
from peloton.cli.live_names import live_jobs
from peloton.cli.params import INDEX
from peloton.cli.session import Session, pass_session
from peloton.cli.updates import OPAQUE_DATA
from peloton.cli.versions import (
    VERSION,
    JobRequest,
    Versioned,
    WithOpaqueData,
    call_job,
    version_or_present,
)
from peloton.client.rpcs import RPCS, request_of

if TYPE_CHECKING:
    import grpc


class WorkflowRequest(JobRequest, Versioned, WithOpaqueData, Protocol):
    """A request to change the course of a workflow."""


Request = TypeVar("Request", bound=WorkflowRequest)
Answer = TypeVar("Answer", bound=Versioned)
JOB = click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
INSTANCE = click.argument("instance", type=INDEX)


@click.group(cls=Group)
def workflow() -> None:
    """Control the update or restart of a service that is under way."""


def _add(name: str, rpc: grpc.UnaryUnaryMultiCallable[Request, Answer], done: str, summary: str) -> None:
    """Add a command that changes the course of a workflow by an RPC; `done` says what became of it."""

    @workflow.command(name, help=summary)
    @JOB
    @VERSION
    @OPAQUE_DATA
    @pass_session
    def control(session: Session, job_id: str, version: str, opaque_data: str) -> None:
        request = request_of(rpc)
        request.job_id.value = job_id
        request.version.value = version_or_present(session, job_id, version)
        if opaque_data:
            request.opaque_data.data = opaque_data
        response = call_job(session, rpc, request, version)
        session.show(
            response, lambda: f"Workflow of job {job_id} {done}, entity version {response.version.value}"
        )


_add(
    "pause", RPCS.stateless_svc.PauseJobWorkflow, "paused", "Halt it after the instances that are in flight."
)
_add("resume", RPCS.stateless_svc.ResumeJobWorkflow, "resumed", "Let it go on after a pause.")
_add("abort", RPCS.stateless_svc.AbortJobWorkflow, "aborted", "End it; the instances stay as they are.")


@workflow.command()
@JOB
@INSTANCE
@click.option(
    "-l",
    "--limit",
    type=INDEX,
    default=0,
    help="Number of events to show, the last ones.  [default: all]",
)
@pass_session
def events(session: Session, job_id: str, instance: int, limit: int) -> None:
    """Show what the last workflow did to an instance, newest first."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.service_rows import workflow_event_table

    request = pb.GetWorkflowEventsRequest(
        job_id=peloton_pb2.JobID(value=job_id), instance_id=instance, limit=limit
    )
    response = call_job(session, RPCS.stateless_svc.GetWorkflowEvents, request)
    session.show(response, lambda: workflow_event_table(response.events))
