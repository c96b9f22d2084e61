"""The commands of `peloton job stateless` that change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import COUNT, EnumName, InstanceRange
from peloton.cli.queries import JobQuery, job_query_options
from peloton.cli.session import Session, pass_session
from peloton.cli.versions import EntityVersion, call_job, stream_job
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import QuerySpec
    from peloton.api.v1alpha.peloton_pb2 import JobID
    from peloton.api.v1alpha.query.query_pb2 import PaginationSpec

JOB = click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)


def _job_states() -> Any:
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    return stateless_pb2.JobState.DESCRIPTOR


@click.command(cls=Command)
@JOB
@click.option(
    "--jobversion",
    type=EntityVersion(),
    help="Show the spec of this entity version.  [default: the present one]",
)
@click.option("--summaryonly", is_flag=True, help="Leave out the spec.")
@pass_session
def get(session: Session, job_id: str, jobversion: str | None, summaryonly: bool) -> None:
    """Show a job: its spec, its status with the entity version, and its last workflow."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    if jobversion and summaryonly:
        raise click.UsageError("--jobversion and --summaryonly do not go together: a summary has no spec")
    request = pb.GetJobRequest(job_id=_id(job_id), summary_only=summaryonly)
    if jobversion:
        request.version.value = jobversion
    response = call_job(session, RPCS.stateless_svc.GetJob, request)
    session.show_object(response, job_id)


@click.command("list", cls=Command)
@pass_session
def list_(session: Session) -> None:
    """List all jobs, oldest first; batch jobs too."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.service_rows import service_table

    response = pb.ListJobsResponse()
    for part in session.stream(RPCS.stateless_svc.ListJobs, pb.ListJobsRequest()):
        response.MergeFrom(part)
    session.show(response, lambda: service_table(response.jobs))


@click.command("list-pods", cls=Command)
@JOB
@click.option("-r", "--range", "span", type=InstanceRange(), help="from:to.  [default: all]")
@pass_session
def list_pods(session: Session, job_id: str, span: tuple[int, int] | None) -> None:
    """List the pods of a job."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.service_rows import pod_table

    request, response = pb.ListPodsRequest(job_id=_id(job_id)), pb.ListPodsResponse()
    if span:
        setattr(request.range, "from", span[0])
        request.range.to = span[1]
    for part in stream_job(session, RPCS.stateless_svc.ListPods, request):
        response.MergeFrom(part)
    session.show(response, lambda: pod_table((pod.pod_name.value, pod.status) for pod in response.pods))


@click.command("list-updates", cls=Command)
@JOB
@click.option(
    "--limit",
    type=COUNT,
    default=10,
    show_default=True,
    help="Number of workflows to show, the last ones.",
)
@pass_session
def list_updates(session: Session, job_id: str, limit: int) -> None:
    """List the updates and restarts of a service, newest first."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.service_rows import workflow_table

    request = pb.ListJobWorkflowsRequest(job_id=_id(job_id), updates_limit=limit)
    response = call_job(session, RPCS.stateless_svc.ListJobWorkflows, request)
    session.show(response, lambda: workflow_table(response.workflow_infos))


@click.command(cls=Command)
@job_query_options
@pass_session
def query(session: Session, /, **given: Any) -> None:
    """Find jobs, newest first; batch jobs too."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.service_rows import service_table

    request = pb.QueryJobsRequest(spec=job_query_spec(JobQuery(**given)))
    response = session.call(RPCS.stateless_svc.QueryJobs, request)
    session.show(response, lambda: service_table(response.records))


next(option for option in query.params if option.name == "states").type = EnumName(_job_states)


@click.command(cls=Command)
@JOB
@pass_session
def refresh(session: Session, job_id: str) -> None:
    """Have the job manager read the job from the store again."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    response = call_job(session, RPCS.stateless_svc.RefreshJob, pb.RefreshJobRequest(job_id=_id(job_id)))
    session.show(response, lambda: f"Job {job_id} refreshed")


@click.command(cls=Command)
@JOB
@pass_session
def cache(session: Session, job_id: str) -> None:
    """Show what the job manager holds of a job in memory."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    response = call_job(session, RPCS.stateless_svc.GetJobCache, pb.GetJobCacheRequest(job_id=_id(job_id)))
    session.show_object(response, job_id)


READS = (get, list_, list_pods, list_updates, query, refresh, cache)


def job_query_spec(wanted: JobQuery, now: float | None = None) -> QuerySpec:
    """Return a query for JobService.QueryJobs; `now` is in seconds since 1970."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    given = wanted.request(now).spec
    spec = stateless_pb2.QuerySpec(
        pagination=pagination(wanted.limit, wanted.offset, wanted.sort, wanted.sortorder, wanted.total),
        labels=[peloton_pb2.Label(key=key, value=value) for key, value in wanted.labels],
        keywords=wanted.keywords,
        job_states=[stateless_pb2.JobState.ValueType(state) for state in wanted.states],
        owner=wanted.owner,
        name=wanted.name,
        crash_looping=wanted.crash_looping,
    )
    spec.respool.value = wanted.respool
    if wanted.timerange:
        spec.creation_time_range.min.CopyFrom(given.creationTimeRange.min)
        spec.creation_time_range.max.CopyFrom(given.creationTimeRange.max)
    return spec


def pagination(limit: int, offset: int, sort: list[str], order: str, total: int = 0) -> PaginationSpec:
    """Return a page of a v1alpha query; all sort keys have the same direction."""
    from peloton.api.v1alpha.query import query_pb2

    direction = query_pb2.OrderBy.ORDER_BY_ASC if order == "ASC" else query_pb2.OrderBy.ORDER_BY_DESC
    page = query_pb2.PaginationSpec(offset=offset, limit=limit, max_limit=total)
    for key in sort:
        page.order_by.add(order=direction).property.value = key
    return page


def _id(value: str) -> JobID:
    from peloton.api.v1alpha import peloton_pb2

    return peloton_pb2.JobID(value=value)
