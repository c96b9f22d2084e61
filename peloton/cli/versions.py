"""Entity versions of services, and calls that name a job: their failures say which job, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import STALE, Refused
from peloton.model.plural import plural

if TYPE_CHECKING:
    import grpc

    from peloton.api.v1alpha import peloton_pb2 as v1alpha
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobStatus, WorkflowStatus
    from peloton.cli.failures import CallFailed


class JobRequest(Protocol):
    """A request that names a job."""

    @property
    def job_id(self) -> v1alpha.JobID:
        """The job."""
        ...


class Versioned(Protocol):
    """A message with the entity version of a job."""

    @property
    def version(self) -> v1alpha.EntityVersion:
        """The version."""
        ...


class WithOpaqueData(Protocol):
    """A request that starts or changes a workflow."""

    @property
    def opaque_data(self) -> v1alpha.OpaqueData:
        """What the caller keeps with the workflow."""
        ...


Request = TypeVar("Request", bound=JobRequest)
Answer = TypeVar("Answer")
F = TypeVar("F", bound=Callable[..., Any])
_INSISTED = "peloton.entity-version"
_VERSION = re.compile(r"\d+-\d+-\d+\Z", re.ASCII)
_WHERE = "`peloton job stateless get JOB --summaryonly` shows the present one"


class EntityVersion(click.ParamType[str]):
    """`<config>-<desired state>-<workflow>`, three numbers."""

    name = "entityVersion"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the form of a version."""
        if not _VERSION.match(value):
            self.fail(f"{value!r} is not an entity version, such as 3-1-2: {_WHERE}", param, ctx)
        return str(value)


def _note_insisted(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value:
        ctx.meta[_INSISTED] = value


def _insisted(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return the version that is given, by the argument or by the flag; empty: the present one."""
    by_flag = str(ctx.meta.get(_INSISTED, ""))
    if value and by_flag and value != by_flag:
        raise click.UsageError(f"{value} and --entity-version {by_flag} are two entity versions: give one")
    return value or by_flag


def VERSION(command: F) -> F:
    """Add the entity version that the caller saw last, as an argument or a flag; empty: the present one."""
    flag = click.option(
        "--entity-version",
        type=EntityVersion(),
        is_eager=True,
        expose_value=False,
        callback=_note_insisted,
        help="Only if the job is still at this version, as with ENTITYVERSION.",
    )
    argument = click.argument(
        "version", metavar="[ENTITYVERSION]", type=EntityVersion(), required=False, callback=_insisted
    )
    return argument(flag(command))


def call_job(
    session: Session,
    rpc: grpc.UnaryUnaryMultiCallable[Request, Answer],
    request: Request,
    version: str = "",
) -> Answer:
    """Call an RPC of the v1alpha JobService whose request has a job id, and return the answer.

    `version` is the entity version that the user gave, empty where the command looked it up. Raises
    CallFailed.
    """
    from peloton.cli.failures import CallFailed

    job_id = request.job_id.value
    try:
        return session.call(rpc, request)
    except CallFailed as failure:
        raise _job_failure(failure, job_id, version) from failure


def stream_job(
    session: Session, rpc: grpc.UnaryStreamMultiCallable[Request, Answer], request: Request
) -> Iterator[Answer]:
    """Call an RPC that answers with a stream as `call_job` does, and yield its messages."""
    from peloton.cli.failures import CallFailed

    try:
        yield from session.stream(rpc, request)
    except CallFailed as failure:
        raise _job_failure(failure, request.job_id.value, "") from failure


def _job_failure(failure: CallFailed, job_id: str, version: str) -> CallFailed:
    """Return a failure of a call for a job, with a text that names the job and how to go on."""
    from peloton.cli.failures import CallFailed

    text = str(failure)
    if failure.reason == STALE:
        text = _stale(job_id, version)
    elif failure.code == "NOT_FOUND" and job_id not in text:
        text = f"job {job_id}: {text}"
    return CallFailed(failure.code, text, failure.reason)


def _stale(job_id: str, version: str) -> str:
    if not version:
        return f"job {job_id} was changed by others at the same time: look at it, then try again"
    return (
        f"job {job_id}: {version} is not its present entity version (unexpected entity version): "
        f"`peloton job stateless get {job_id} --summaryonly` shows it, as status.version"
    )


def present(session: Session, job_id: str) -> JobStatus:
    """Return the status of a job, with its entity version and its last workflow."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    request = pb.GetJobRequest(job_id=peloton_pb2.JobID(value=job_id), summary_only=True)
    return call_job(session, RPCS.stateless_svc.GetJob, request).summary.status


def version_or_present(session: Session, job_id: str, version: str) -> str:
    """Return the version that the user gave, or that of the job now."""
    return version or str(present(session, job_id).version.value)


def before_last_update(session: Session, job_id: str, now: str) -> str:
    """Return the version of the spec before the present one. Raises Refused where there was none."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.job.stateless import stateless_pb2
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    request = pb.ListJobWorkflowsRequest(job_id=peloton_pb2.JobID(value=job_id), updates_limit=100)
    workflows = call_job(session, RPCS.stateless_svc.ListJobWorkflows, request).workflow_infos
    spec = _config(now)
    for each in workflows:  # newest first
        before = each.status.prev_version.value
        if _config(each.status.version.value) != spec or _config(before) in ("", "0"):
            continue
        if each.status.type == stateless_pb2.WORKFLOW_TYPE_UPDATE:
            return str(before)
        spec = _config(before)  # a restart has a version of its own, of the same spec
    raise Refused(f"job {job_id} was not updated: there is no earlier spec to go back to")


def _config(version: str) -> str:
    return version.partition("-")[0]


def secrets_of(session: Session, job_id: str) -> list[v1alpha.Secret]:
    """Return the secrets of a job, without their contents: an update has to name them, and they stay."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    request = pb.GetJobRequest(job_id=peloton_pb2.JobID(value=job_id), summary_only=True)
    return list(call_job(session, RPCS.stateless_svc.GetJob, request).secrets)


def replaceable(session: Session, job_id: str, override: bool, how: str = "--override replaces it") -> str:
    """Return the present entity version. Raises Refused where a workflow runs, unless `override`.

    `how` says how to replace it.
    """
    status = present(session, job_id)
    if not override and _runs(status.workflow_status):
        raise Refused(f"job {job_id}: {_progress(status.workflow_status)}: {how}")
    return str(status.version.value)


def _runs(workflow: WorkflowStatus) -> bool:
    from peloton.api.v1alpha.job.stateless import stateless_pb2 as pb

    return workflow.state in (
        pb.WORKFLOW_STATE_INITIALIZED,
        pb.WORKFLOW_STATE_ROLLING_FORWARD,
        pb.WORKFLOW_STATE_PAUSED,
        pb.WORKFLOW_STATE_ROLLING_BACKWARD,
    )


def _progress(workflow: WorkflowStatus) -> str:
    from peloton.api.v1alpha.job.stateless import stateless_pb2 as pb

    kind = "a restart" if workflow.type == pb.WORKFLOW_TYPE_RESTART else "an update"
    state = pb.WorkflowState.Name(workflow.state).removeprefix("WORKFLOW_STATE_")
    done, left = workflow.num_instances_completed, workflow.num_instances_remaining
    return f"{kind} is under way ({state}, {plural(done, 'instance')} done, {left} to go)"
