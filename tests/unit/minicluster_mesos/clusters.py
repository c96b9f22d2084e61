"""A master's core with frameworks and agents that are messages only."""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import agent_link, resource_notation
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core import accept, agents, frameworks
from minicluster.mesos.master.core.state import CAPABILITY, Agent, Framework, Master, MasterConfig

ALL = (
    CAPABILITY.MULTI_ROLE,
    CAPABILITY.PARTITION_AWARE,
    CAPABILITY.TASK_KILLING_STATE,
    CAPABILITY.REVOCABLE_RESOURCES,
    CAPABILITY.GPU_RESOURCES,
)
Event = scheduler.Event


def new_cluster() -> Master:
    return Master(MasterConfig("m", "127.0.0.1", 5050, "master"))


def subscribe(
    cluster: Master,
    *,
    capabilities: tuple[int, ...] = ALL,
    roles: tuple[str, ...] = ("*",),
    stream: str = "s",
    checkpoint: bool = True,
    framework_id: str | None = None,
    now: float = 0,
) -> Framework:
    call = scheduler.Call.Subscribe()
    info = call.framework_info
    info.user, info.name, info.checkpoint, info.failover_timeout = "root", "test", checkpoint, 100
    info.roles.extend(roles)
    for capability in capabilities:
        info.capabilities.add(type=capability)
    if framework_id is not None:
        info.id.value = framework_id
    frameworks.subscribe(cluster, call, stream, now)
    return cluster.frameworks[cluster.streams[stream]]


def register(cluster: Master, resources: str = "cpus:4;mem:1024", port: int = 1, now: float = 0) -> Agent:
    info = mesos.AgentInfo(hostname=f"host{port}", port=port)
    info.resources.extend(res.to_messages(resource_notation.parse_resources(resources)))
    agent = agents.register(cluster, agent_link.Register(info, "127.0.0.1", "1"), now)
    assert isinstance(agent, Agent)
    return agent


def events(cluster: Master, stream: str = "s") -> list[Event]:
    """Take the events that wait for a stream, without heartbeats."""
    taken = [event for name, event in cluster.outbox.events if name == stream and event is not None]
    cluster.outbox.events = [item for item in cluster.outbox.events if item[0] != stream]
    return [event for event in taken if event.type != Event.HEARTBEAT]


def offers(cluster: Master, stream: str = "s") -> list[mesos.Offer]:
    found = [event for event in events(cluster, stream) if event.type == Event.OFFERS]
    return [offer for event in found for offer in event.offers.offers]


def updates(cluster: Master, stream: str = "s") -> list[mesos.TaskStatus]:
    return [event.update.status for event in events(cluster, stream) if event.type == Event.UPDATE]


def a_task(agent_id: str, task_id: str = "t", resources: str = "cpus:1;mem:64") -> mesos.TaskInfo:
    task = mesos.TaskInfo(name=task_id)
    task.task_id.value, task.agent_id.value = task_id, agent_id
    task.resources.extend(res.to_messages(resource_notation.parse_resources(resources)))
    task.command.value = "true"
    return task


def launch(
    cluster: Master,
    framework: Framework,
    offer: mesos.Offer,
    *launched: mesos.TaskInfo,
    now: float = 0,
    refuse: float = 0,
) -> None:
    call = scheduler.Call.Accept()
    call.offer_ids.add().CopyFrom(offer.id)
    call.filters.refuse_seconds = refuse
    operation = call.operations.add(type=mesos.Offer.Operation.LAUNCH)
    operation.launch.task_infos.extend(launched)
    accept.accept(cluster, framework, call, now)


def decline(cluster: Master, framework: Framework, offer: mesos.Offer, seconds: float, now: float) -> None:
    call = scheduler.Call.Decline()
    call.offer_ids.add().CopyFrom(offer.id)
    call.filters.refuse_seconds = seconds
    accept.decline(cluster, framework, call, now)


def sums_are_right(cluster: Master) -> None:
    """Each agent's free resources are its total less what its tasks use and what is offered."""
    for agent in cluster.agents.values():
        whole = dict(agent.free)
        for task in agent.tasks.values():
            if not task.released:
                res.add(whole, task.resources)
        for offer in agent.offers.values():
            res.add(whole, offer.resources)
        assert whole == agent.total


def running(cluster: Master, checkpoint: bool = True) -> tuple[Framework, Agent]:
    framework, agent = subscribe(cluster, checkpoint=checkpoint), register(cluster)
    launch(cluster, framework, offers(cluster)[0], a_task(agent.id), refuse=1000)
    sums_are_right(cluster)
    return framework, agent
