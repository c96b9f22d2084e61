"""`peloton jobmgr`: what the job manager holds."""

from __future__ import annotations

import click

from peloton.cli import references
from peloton.cli.groups import Group
from peloton.cli.live_names import live_jobs
from peloton.cli.params import Instances, Labels
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS


@click.group(cls=Group)
def jobmgr() -> None:
    """Look into the job manager."""


@jobmgr.command("throttled-pods")
@pass_session
def throttled_pods(session: Session) -> None:
    """List pods of services that failed and wait before their next run."""
    from peloton.cli.listing import listing
    from peloton.private.jobmgrsvc import jobmgrsvc_pb2

    request = jobmgrsvc_pb2.GetThrottledPodsRequest()
    response = session.call(RPCS.jobmgr_private_svc.GetThrottledPods, request)
    session.show(response, lambda: listing(("Pod",), [(pod.value,) for pod in response.throttled_pods]))


@jobmgr.command("query-job-cache")
@click.option("--name", default="", help="Jobs of this name; `*` and `?` are wildcards.")
@click.option("-l", "--labels", type=Labels(), default="", help="Jobs that have all of these labels.")
@pass_session
def query_job_cache(session: Session, name: str, labels: list[tuple[str, str]]) -> None:
    """List the jobs that the job manager holds in memory."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.cli.listing import listing
    from peloton.private.jobmgrsvc import jobmgrsvc_pb2

    spec = jobmgrsvc_pb2.QueryJobCacheRequest.CacheQuerySpec(
        name=name, labels=[peloton_pb2.Label(key=key, value=value) for key, value in labels]
    )
    request = jobmgrsvc_pb2.QueryJobCacheRequest(spec=spec)
    response = session.call(RPCS.jobmgr_private_svc.QueryJobCache, request)
    rows = sorted((job.name, job.job_id.value) for job in response.result)
    session.show(response, lambda: listing(("Job ID", "Name"), [(job_id, name) for name, job_id in rows]))


@jobmgr.command("instance-availability")
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.option("-i", "--instances", type=Instances(), default="", help="Only these instances.")
@pass_session
def instance_availability(session: Session, job_id: str, instances: list[int]) -> None:
    """Show which instances of a service are available, for its SLA.

    AVAILABLE: it runs and is healthy. UNAVAILABLE: it shall run and does not, or is not healthy. KILLED: it
    is stopped. DELETED: it is being removed. INVALID: the job has no such instance, or none yet.
    """
    from peloton.api.v1alpha import peloton_pb2
    from peloton.cli.listing import listing
    from peloton.private.jobmgrsvc import jobmgrsvc_pb2

    request = jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobRequest(
        job_id=peloton_pb2.JobID(value=job_id), instances=instances
    )
    response = session.call(RPCS.jobmgr_private_svc.GetInstanceAvailabilityInfoForJob, request)
    rows = sorted(response.instance_availability_map.items())
    session.show(response, lambda: listing(("Instance", "Availability"), rows))
