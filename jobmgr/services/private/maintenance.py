"""MaintenanceService: what the maintenance of hosts would mean for jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobmgr.core.job.host_needs import (
    Concern,
    host_pool,
    is_bound_to_hosts,
    task_specs,
    with_volumes_on,
    without_a_host,
)
from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.engine import Engine
from peloton.model.job import JobSpec
from peloton.model.task import TaskSpec
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.matching import matching_pb2
from peloton.private.jobmgr.maintenance import maintenance_pb2 as pb
from peloton.private.jobmgr.maintenance import maintenance_pb2_grpc
from peloton.rpc.client import Caller
from peloton.wire.constraint import constraint_to
from peloton.wire.feasibility import host_filter
from peloton.wire.task import resources_to

SECONDS = 10.0
FILTERS_PER_CALL = 1000
JOBS_AT_ONCE = 100
Want = tuple[bytes, str]
"""A serialised filter and a host pool."""
Hosts = Mapping[Want, frozenset[str]]
"""The hosts that match."""


class MaintenanceService(maintenance_pb2_grpc.MaintenanceServiceServicer):
    """Compare the needs of active jobs with the hosts that would be left."""

    def __init__(self, engine: Engine, matching: Caller) -> None:
        """Ask `matching`, hostmgr's MatchingService, for hosts."""
        self._engine = engine
        self._matching = matching

    async def CheckHosts(self, request: pb.CheckHostsRequest, context: Any) -> pb.CheckHostsResponse:
        """Return the instances that could run nowhere else. Raises Unavailable."""
        leaving = list(dict.fromkeys(request.hostnames))
        found = [self._engine.job(job_id) for job_id in self._engine.active_jobs()]
        jobs = [job for job in found if job is not None and is_bound_to_hosts(job)]
        hosts = await self._matches(jobs)
        answer = pb.CheckHostsResponse()
        for number, job in enumerate(jobs):
            if number % JOBS_AT_ONCE == 0:
                await asyncio.sleep(0)
            answer.concerns.extend(map(_concern_to, _concerns(job, hosts, leaving)))
        return answer

    async def _matches(self, jobs: Sequence[CachedJob]) -> Hosts:
        wanted = list(
            dict.fromkeys(_want(job.spec, task) for job in jobs for task, _ in task_specs(job.spec))
        )
        matches: dict[Want, frozenset[str]] = {}
        for at in range(0, len(wanted), FILTERS_PER_CALL):
            some = wanted[at : at + FILTERS_PER_CALL]
            request = matching_pb2.MatchHostsRequest(
                filters=[hostsvc_pb2.HostFilter.FromString(each) for each, _ in some],
                by_size=True,
                host_pools=[pool for _, pool in some],
            )
            answer: matching_pb2.MatchHostsResponse = await self._matching.call(
                "MatchHosts", request, timeout=SECONDS
            )
            matches |= {
                key: frozenset(each.hostnames) for key, each in zip(some, answer.matches, strict=True)
            }
        return matches


def _concerns(job: CachedJob, hosts: Hosts, leaving: Sequence[str]) -> Iterator[Concern]:
    bound = with_volumes_on(job, leaving)
    if bound is not None:
        yield bound
    matches = [(count, hosts.get(_want(job.spec, task), frozenset())) for task, count in task_specs(job.spec)]
    concern = without_a_host(job, matches, leaving)
    if concern is not None:
        yield concern


def _concern_to(concern: Concern) -> pb.Concern:
    return pb.Concern(
        job_id=concern.job_id,
        job_name=concern.job_name,
        instances=concern.instances,
        hostnames=concern.hosts,
        text=str(concern),
    )


def _want(spec: JobSpec, task: TaskSpec) -> Want:
    constraint = None if task.constraint is None else constraint_to(task.constraint)
    revocable = spec.sla.revocable or task.revocable
    wire = host_filter(resources_to(task.resources), task.dynamic_ports, revocable, constraint)
    return wire.SerializeToString(deterministic=True), host_pool(spec, task)
