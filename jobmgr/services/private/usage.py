"""UsageService: what running tasks use, as their agents tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from jobmgr.engine.engine import Engine
from jobmgr.ports.hostmgr import Agents
from jobmgr.services.common.agent_http import AgentHttp
from jobmgr.services.common.agent_usage import ContainerUsage, usages
from jobmgr.services.common.reach import paths_of_pools, reach
from jobmgr.services.common.sandbox import address_of
from jobmgr.services.common.view import JobView, view
from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument, PelotonError
from peloton.model.amounts import duration
from peloton.model.cluster import cluster_of
from peloton.model.ids import MesosTaskId, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.jobmgr.usage import usage_pb2 as pb
from peloton.private.jobmgr.usage import usage_pb2_grpc

MOST_HOSTS = 64
LONGEST_SECONDS = 10.0
Host = tuple[str, str]
"""A hostname and the id of its agent."""


class UsageService(usage_pb2_grpc.UsageServiceServicer):
    """Asks agents what tasks use."""

    def __init__(self, engine: Engine, hostmgr: Callable[[str], Agents], http: AgentHttp) -> None:
        """Get the agents of a Mesos cluster by `hostmgr`, which receives the cluster's name."""
        self._engine = engine
        self._hostmgr = hostmgr
        self._http = http

    async def GetUsage(self, request: pb.GetUsageRequest, context: object) -> pb.GetUsageResponse:
        """Return what running instances use. Raises NotFound, InvalidArgument."""
        job = await view(self._engine, request.job_id.value)
        running = await _running(job, request.instances)
        answer = pb.GetUsageResponse(running=len(running))
        hosts = list(dict.fromkeys((task.host, task.agent_id) for task in running.values()))
        read: dict[Host, Mapping[MesosTaskId, ContainerUsage]] = {}
        for host, found in zip(hosts, await self._all(hosts[:MOST_HOSTS]), strict=False):
            if isinstance(found, str):
                answer.unread.add(host=host[0], reason=found)
            else:
                read[host] = found
        for host in hosts[MOST_HOSTS:]:
            answer.unread.add(host=host[0], reason=f"not asked: at most {MOST_HOSTS} hosts are at a time")
        for instance, task in running.items():
            run = mesos_task_id(job.job_id, instance, task.run)
            usage = read.get((task.host, task.agent_id), {}).get(run)
            if usage is not None:
                answer.usages.append(_row(instance, run, task, usage))
        return answer

    async def ListLosses(self, request: pb.ListLossesRequest, context: object) -> pb.ListLossesResponse:
        """Return the seconds of work that jobs have lost, by pool."""
        mine = reach()
        paths = await paths_of_pools(self._engine)
        answer = pb.ListLossesResponse()
        for pool_id, seconds in sorted((await self._engine.store.jobs.lost_seconds()).items()):
            if mine.has_jobs_in(paths.get(pool_id, "")):
                answer.losses.add(pool_id=v0_peloton.ResourcePoolID(value=pool_id), seconds=seconds)
        return answer

    async def _all(self, hosts: list[Host]) -> list[Mapping[MesosTaskId, ContainerUsage] | str]:
        """Ask agents; return what each tells, or why that is not known."""
        asked = [asyncio.ensure_future(self._of(host)) for host in hosts]
        if not asked:
            return []
        _, late = await asyncio.wait(asked, timeout=LONGEST_SECONDS)
        for each in late:
            each.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        slow = f"no answer within {duration(LONGEST_SECONDS)}"
        return [slow if each.cancelled() else each.result() for each in asked]

    async def _of(self, host: Host) -> Mapping[MesosTaskId, ContainerUsage] | str:
        hostname, agent_id = host
        try:
            agents = await self._hostmgr(cluster_of(hostname)).agents(hostname)
            agent = next((each for each in agents if each.id == agent_id), None)
            if agent is None:
                return f"its agent {agent_id} is gone"
            address = ":".join(address_of(agent))
            return usages(await self._http.get(address, "/containers"), address)
        except PelotonError as error:
            return str(error)


async def _running(job: JobView, instances: Iterable[int]) -> dict[int, TaskRuntime]:
    """Return the running instances among those that a request names. Raises InvalidArgument."""
    wanted = set(instances)
    beyond = next((each for each in sorted(wanted) if each >= job.size), None)
    if beyond is not None:
        raise InvalidArgument("instances", beyond, f"instances of the job, which has {job.size}")
    return {
        instance: task
        async for instance, task in job.tasks()
        if task.state is TaskState.RUNNING and (not wanted or instance in wanted)
    }


def _row(instance: int, run: MesosTaskId, task: TaskRuntime, usage: ContainerUsage) -> pb.InstanceUsage:
    seconds = usage.at - task.start_time / NANOSECONDS
    return pb.InstanceUsage(
        instance=instance,
        run=run,
        host=task.host,
        cpu_seconds=usage.cpu_seconds,
        cpu_mean=usage.cpu_seconds / seconds if task.start_time and seconds > 0 else 0.0,
        cpu_limit=usage.cpu_limit,
        throttled_seconds=usage.throttled_seconds,
        memory_bytes=usage.memory_bytes,
        memory_peak_bytes=usage.memory_peak_bytes,
        memory_limit_bytes=usage.memory_limit_bytes,
        processes=usage.processes,
    )
