"""A cluster with one host, which one job has for 300 s of its limit of 600 s while another one waits."""

from __future__ import annotations

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.model.job import JobSpec, Sla
from peloton.model.payload import ApiVersion, Payload
from peloton.model.resources import Resources
from peloton.model.states import JobType, TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.forecast import forecast_pb2
from peloton.wire.live_jobs import live_job_to

SECOND = 10**9
NOW = 1_800_000_000 * SECOND
OTHER = "a0000000-0000-4000-8000-00000000000a"
POOL = "b0000000-0000-4000-8000-00000000000b"


def live_jobs(waiting: str) -> forecast_pb2.ListLiveJobsResponse:
    """Return the jobs; the one with this id waits."""
    began = NOW - 300 * SECOND
    running = TaskRuntime(
        TaskState.RUNNING, TaskState.SUCCEEDED, 1, 1, 1, 1, host="h", start_time=began, updated_at=began
    )
    return forecast_pb2.ListLiveJobsResponse(now=NOW, jobs=[_job(OTHER, running), _job(waiting, None)])


def _job(job_id: str, task: TaskRuntime | None) -> forecast_pb2.LiveJob:
    spec = JobSpec(
        version=1,
        name="mill",
        type=JobType.BATCH,
        pool_id=POOL,
        instance_count=1,
        sla=Sla(max_running_time=600),
        default=TaskSpec(Resources.of(4.0)),
        overrides={},
        payload=Payload(ApiVersion.V0, b""),
    )
    return live_job_to(job_id, spec, NOW, () if task is None else [(0, task)])


def pools() -> respool_pb2.QueryResponse:
    """Return the one pool."""
    pool = respool_pb2.ResourcePoolInfo()
    pool.id.value, pool.config.name, pool.config.parent.value = POOL, "a", "root"
    for kind in ("cpu", "memory", "disk", "gpu"):
        pool.config.resources.add(kind=kind, reservation=100, limit=1000, share=1)
    return respool_pb2.QueryResponse(resourcePools=[pool])


def hosts() -> host_svc_pb2.QueryHostsResponse:
    """Return the one host."""
    return host_svc_pb2.QueryHostsResponse(host_infos=[host_pb2.HostInfo(hostname="h")])


def amounts() -> hostmgr_svc_pb2.GetHostCacheResponse:
    """Return what it has."""
    cores = [hostmgr_pb2.Resource(kind="cpu", capacity=4.0)]
    summary = hostmgr_svc_pb2.GetHostCacheResponse.Summary(hostname="h", capacity=cores)
    return hostmgr_svc_pb2.GetHostCacheResponse(summaries=[summary])
