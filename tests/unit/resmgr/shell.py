"""A driver with a store and a scripted hostmgr."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.rpc import Rpc
from peloton.clock import SystemClock
from peloton.errors import PelotonError, Unavailable
from peloton.model.host_class import HostClass
from peloton.model.ids import mesos_task_id, task_id
from peloton.model.resources import ZERO, Resources
from peloton.private.eventstream import eventstream_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from resmgr.__main__ import build_driver
from resmgr.clients import HostmgrsClient
from resmgr.config import ResmgrSettings
from resmgr.services.pending_reasons import PendingReasonsService
from resmgr.services.pool_changes import PoolChanges
from resmgr.services.pools import PoolService
from resmgr.services.tasks import TaskService
from storage.interface import Store
from tests.unit.resmgr.world import CAPACITY, JOB

POOL = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


class Context:
    """Of a call by this instance, in this term `<role>:<number>`."""

    def __init__(self, instance: str = "", term: str = "") -> None:
        self.metadata = ((("peloton-instance", instance),) if instance else ()) + (
            (("peloton-epoch", term),) if term else ()
        )

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata

    def add_done_callback(self, callback: object) -> None:
        """Every answer arrives."""

    async def send_initial_metadata(self, metadata: object) -> None:
        """So does its head."""


ENGINE = Context("placement/one")
JOBMGR = Context("jobmgr/one")
CLIENT = Context()


class Hostmgr:
    """Stands in for the client of hostmgr. `down` makes every call Unavailable."""

    def __init__(self) -> None:
        self.down = False
        self.stream = "s1"
        self.events: list[eventstream_pb2.Event] = []
        self.first = 0
        """Offset of the oldest event that is held."""
        self.capacity = CAPACITY
        self.slack = ZERO
        self.classes: dict[HostClass, Resources] = {}
        """What `capacity` consists of."""
        self.hosts: list[str] = []
        self.pooled = False
        """Whether host pools are on."""
        self.calls: list[str] = []
        self.purged = 0

    def status(self, run: str, state: mesos_pb2.TaskState.ValueType) -> None:
        """Apply a status of a run from Mesos."""
        event = eventstream_pb2.Event(
            offset=self.first + len(self.events), type=eventstream_pb2.Event.MESOS_TASK_STATUS
        )
        event.mesosTaskStatus.task_id.value = run
        event.mesosTaskStatus.state = state
        self.events.append(event)

    def restart(self, first: int = 0) -> None:
        self.stream += "'"
        self.events, self.first = [], first

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        method = rpc.name
        self.calls.append(method)
        await asyncio.sleep(0.001)
        if self.down:
            raise Unavailable("hostmgr is down")
        answer = getattr(self, f"_{method}")(request)
        if isinstance(answer, PelotonError):
            raise answer
        return answer

    def _InitStream(self, request: Any) -> Any:
        assert request.clientName == "resmgr"
        return eventstream_pb2.InitStreamResponse(
            streamID=self.stream, minOffset=self.first, previousPurgeOffset=self.purged
        )

    def _WaitForEvents(self, request: Any) -> Any:
        answer = eventstream_pb2.WaitForEventsResponse()
        if request.streamID != self.stream:
            answer.error.invalidStreamID.currentStreamID = self.stream
        elif request.beginOffset < self.first:
            answer.error.outOfRange.minOffset = self.first
        else:
            self.purged = request.purgeOffset
            answer.events.extend(self.events[request.beginOffset - self.first :][: request.limit])
        return answer

    def _GetMesosAgentInfo(self, request: Any) -> Any:
        assert not request.hostname
        answer = hostsvc_pb2.GetMesosAgentInfoResponse()
        for name in self.hosts:
            answer.agents.add().agent_info.hostname = name
        return answer

    def _GetHostPoolCapacity(self, request: Any) -> Any:
        return hostsvc_pb2.GetHostPoolCapacityResponse(not_in_use=not self.pooled)

    def _ClusterCapacity(self, request: Any) -> Any:
        return hostsvc_pb2.ClusterCapacityResponse(
            physicalResources=_amounts(self.capacity),
            physicalSlackResources=_amounts(self.slack),
            classes=[
                hostsvc_pb2.HostClassCapacity(
                    gpu=of.gpu,
                    exclusive=of.exclusive,
                    hostPool=of.pool,
                    physicalResources=_amounts(amounts),
                )
                for of, amounts in self.classes.items()
            ],
        )


def _amounts(amounts: Resources) -> list[hostsvc_pb2.Resource]:
    return [hostsvc_pb2.Resource(kind=kind, capacity=value) for kind, value in amounts.units().items()]


class Shell:
    """The services over one driver; its loops run only where a test starts them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.hostmgr = Hostmgr()
        self.settings = settings(Path("unused"))
        self.driver = build_driver(self.settings, SystemClock())
        self.driver.restored.set()
        self.driver.recovered.set()
        scheduler = self.driver.scheduler
        scheduler.lifecycle.limits = replace(scheduler.limits, sharing_interval=0.0)
        scheduler.set_capacity(CAPACITY, ZERO)
        self.changes = PoolChanges(self.driver, store.pools, self._fresh)
        self.pools = PoolService(self.changes)
        self.tasks = TaskService(self.driver, HostmgrsClient(self.hostmgr))
        self.waiting = PendingReasonsService(self.driver)
        self.requests = 0
        self.jobmgr = JOBMGR
        """Who leads there."""

    async def _fresh(self) -> None:
        self.requests += 1

    async def pool(self, name: str = "a", parent: str = "root", **of: Any) -> str:
        """Create one; its id."""
        request = respool_pb2.CreateRequest(config=pool_config(name, parent, **of))
        answer = await self.pools.CreateResourcePool(request, CLIENT)
        assert not answer.HasField("error"), answer
        return answer.result.value

    async def enqueue(self, pool: str, *gangs: pb.Gang) -> pb.EnqueueGangsResponse:
        request = pb.EnqueueGangsRequest(gangs=gangs)
        request.resPool.value = pool
        answer = await self.tasks.EnqueueGangs(request, self.jobmgr)
        while self.driver.cycle():
            pass
        return answer

    async def dequeue(self, context: Context = ENGINE, timeout: int = 0) -> list[pb.Gang]:
        request = pb.DequeueGangsRequest(limit=100, timeout=timeout, type=resmgr_pb2.BATCH)
        return list((await self.tasks.DequeueGangs(request, context)).gangs)

    async def place(self, *gangs: pb.Gang, host: str = "h1") -> pb.SetPlacementsResponse:
        return await self.tasks.SetPlacements(
            pb.SetPlacementsRequest(placements=[placement(host, *gangs)]), ENGINE
        )

    async def hand_over(self, timeout: int = 0) -> list[resmgr_pb2.Placement]:
        request = pb.GetPlacementsRequest(limit=100, timeout=timeout)
        return list((await self.tasks.GetPlacements(request, self.jobmgr)).placements)

    async def states(self) -> dict[str, str]:
        answer = await self.tasks.GetActiveTasks(pb.GetActiveTasksRequest(), CLIENT)
        return dict(answer.taskStatesMap)

    async def usage(self, pool: str) -> Mapping[str, float]:
        request = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=pool))
        answer = await self.pools.GetResourcePool(request, CLIENT)
        return {usage.kind: usage.allocation for usage in answer.poolinfo.usage}


def settings(path: Path) -> ResmgrSettings:
    return ResmgrSettings.model_validate({"storage": {"path": path}})


def pool_config(
    name: str, parent: str = "root", reservation: float = 10, limit: float = 2000, **of: Any
) -> respool_pb2.ResourcePoolConfig:
    config = respool_pb2.ResourcePoolConfig(name=name, **of)
    config.parent.value = parent
    for kind, factor in (("cpu", 1), ("memory", 10), ("disk", 10)):
        config.resources.add(kind=kind, reservation=reservation * factor, limit=limit * factor, share=1)
    return config


def wire_task(instance: int, run: int = 1, cpu: float = 1, **of: Any) -> resmgr_pb2.Task:
    of.setdefault("preemptible", True)
    of.setdefault("type", resmgr_pb2.BATCH)
    task = resmgr_pb2.Task(
        name="job",
        resource=task_pb2.ResourceConfig(cpuLimit=cpu, memLimitMb=1, diskLimitMb=1),
        **of,
    )
    task.id.value = task_id(JOB, instance)
    task.jobId.value = JOB
    task.taskId.value = mesos_task_id(JOB, instance, run)
    return task


def wire_gang(*instances: int, **of: Any) -> pb.Gang:
    return pb.Gang(tasks=[wire_task(instance, **of) for instance in instances])


def placement(host: str, *gangs: pb.Gang) -> resmgr_pb2.Placement:
    made = resmgr_pb2.Placement(hostname=host, type=resmgr_pb2.BATCH)
    made.agentId.value = f"agent-{host}"
    made.hostOfferID.value = f"offer-{host}"
    for gang in gangs:
        for task in gang.tasks:
            made.taskIDs.add(pelotonTaskID=task.id, mesosTaskID=task.taskId)
    return made


def run_id(instance: int, run: int = 1) -> str:
    return mesos_task_id(JOB, instance, run)
