"""MaintenanceService: what the maintenance of hosts would mean for jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

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
from jobmgr.ports.hostmgr import HostNeeds, LeavingHosts, PooledNeeds
from peloton.model.job import JobSpec
from peloton.model.task import TaskSpec
from peloton.private.jobmgr.maintenance import maintenance_pb2 as pb
from peloton.private.jobmgr.maintenance import maintenance_pb2_grpc

JOBS_AT_ONCE = 50
Needs = Sequence[tuple[int, PooledNeeds]]
"""What the instances of a job ask for, with their numbers."""
Hosts = Mapping[PooledNeeds, frozenset[str]]
"""The hosts that are the last ones that match."""


class MaintenanceService(maintenance_pb2_grpc.MaintenanceServiceServicer):
    """Compare the needs of active jobs with the hosts that would be left."""

    def __init__(self, engine: Engine, hostmgrs: LeavingHosts) -> None:
        """Ask `hostmgrs` for hosts."""
        self._engine = engine
        self._hostmgrs = hostmgrs

    async def CheckHosts(self, request: pb.CheckHostsRequest, context: object) -> pb.CheckHostsResponse:
        """Return the instances that could run nowhere else. Raises Unavailable."""
        leaving = list(dict.fromkeys(request.hostnames, True))
        found = [self._engine.job(job_id) for job_id in self._engine.active_jobs()]
        needs: list[tuple[CachedJob, Needs]] = []
        for number, job in enumerate(found):
            if number % JOBS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if job is not None and is_bound_to_hosts(job):
                needs.append((job, _needs(job.spec)))
        wanted = dict.fromkeys((want for _, each in needs for _, want in each), True)
        last = await self._hostmgrs.last_hosts([*wanted], leaving)
        answer = pb.CheckHostsResponse()
        for number, (job, each) in enumerate(needs):
            if number % JOBS_AT_ONCE == 0:
                await asyncio.sleep(0)
            answer.concerns.extend(map(_concern_to, _concerns(job, each, last, leaving)))
        return answer


def _needs(spec: JobSpec) -> Needs:
    return [(count, _want(spec, task)) for task, count in task_specs(spec)]


def _concerns(job: CachedJob, needs: Needs, last: Hosts, leaving: Sequence[str]) -> Iterator[Concern]:
    bound = with_volumes_on(job, leaving)
    if bound is not None:
        yield bound
    matches = [(count, last.get(want, frozenset())) for count, want in needs]
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


def _want(spec: JobSpec, task: TaskSpec) -> PooledNeeds:
    revocable = spec.sla.revocable or task.revocable
    needs = HostNeeds(task.resources, task.dynamic_ports, revocable, task.constraint)
    return PooledNeeds(needs, host_pool(spec, task))
