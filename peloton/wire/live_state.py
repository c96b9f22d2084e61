"""The state of a cluster, as its daemons tell it to a client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from peloton.api.v0.host import host_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.model.ids import ROOT_POOL
from peloton.model.live_state import LiveHost, LiveState, Ran
from peloton.model.pool import PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.forecast import forecast_pb2
from peloton.wire.constraint import labels_from
from peloton.wire.live_jobs import live_job_from
from peloton.wire.pool import pool_config


def live_state_from(
    jobs: forecast_pb2.ListLiveJobsResponse,
    pools: Iterable[respool_pb2.ResourcePoolInfo],
    hosts: Iterable[host_pb2.HostInfo],
    amounts: Iterable[hostmgr_svc_pb2.GetHostCacheResponse.Summary],
    ended: Iterable[job_pb2.JobSummary],
) -> LiveState:
    """Decode what the daemons tell. Raises InvalidArgument."""
    return LiveState(
        now=jobs.now,
        hosts=live_hosts(hosts, amounts),
        pools=live_pools(pools),
        jobs=tuple(map(live_job_from, jobs.jobs)),
        ended=tuple(_ran(ended)),
    )


def live_pools(pools: Iterable[respool_pb2.ResourcePoolInfo]) -> tuple[PoolConfig, ...]:
    """Decode the pools below the root."""
    return tuple(pool_config(pool.id.value, pool.config) for pool in pools if pool.id.value != ROOT_POOL)


def live_hosts(
    hosts: Iterable[host_pb2.HostInfo], amounts: Iterable[hostmgr_svc_pb2.GetHostCacheResponse.Summary]
) -> tuple[LiveHost, ...]:
    """Decode the hosts whose amounts are known."""
    found = {each.hostname: Resources.of(**dict.fromkeys(KINDS, 0.0) | _amounts(each)) for each in amounts}
    return tuple(
        LiveHost(host.hostname, found[host.hostname], labels_from(host.labels))
        for host in hosts
        if host.hostname in found
    )


def _amounts(summary: hostmgr_svc_pb2.GetHostCacheResponse.Summary) -> dict[str, float]:
    return {each.kind: each.capacity for each in summary.capacity if each.kind in KINDS}


def _ran(ended: Iterable[job_pb2.JobSummary]) -> Iterator[Ran]:
    """Yield how long jobs ran, from the start of their first run to their end."""
    for job in ended:
        begin, end = job.runtime.startTime, job.runtime.completionTime
        if job.type == job_pb2.BATCH and begin and end:
            began = datetime.fromisoformat(begin)
            seconds = (datetime.fromisoformat(end) - began).total_seconds()
            held = job.runtime.resourceUsage
            size = (held.get("gpu") or held.get("cpu") or 0.0) / seconds if seconds > 0 else 0.0
            yield Ran(job.respoolID.value, job.owner, job.name, max(0.0, seconds), size, began.timestamp())
