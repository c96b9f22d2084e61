"""The master's core: offers, filters, tasks and agents, on a clock of the tests' own."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.quota import quota_pb2 as quota
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from peloton.minicluster.mesos import link, notation
from peloton.minicluster.mesos import resources as res
from peloton.minicluster.mesos.master.core import accept, agents, allocator, frameworks, tasks
from peloton.minicluster.mesos.master.core import quota as quotas
from peloton.minicluster.mesos.master.core.simulation import Simulation, SimulationConfig
from peloton.minicluster.mesos.master.core.state import CAPABILITY, Agent, Cluster, Framework, MasterConfig

ALL = (
    CAPABILITY.MULTI_ROLE,
    CAPABILITY.PARTITION_AWARE,
    CAPABILITY.TASK_KILLING_STATE,
    CAPABILITY.REVOCABLE_RESOURCES,
    CAPABILITY.GPU_RESOURCES,
)
Event = scheduler.Event


def new_cluster() -> Cluster:
    return Cluster(MasterConfig("m", "127.0.0.1", 5050, "master"))


def subscribe(
    cluster: Cluster,
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


def register(cluster: Cluster, resources: str = "cpus:4;mem:1024", port: int = 1, now: float = 0) -> Agent:
    info = mesos.AgentInfo(hostname=f"host{port}", port=port)
    info.resources.extend(res.to_messages(notation.parse_resources(resources)))
    agent = agents.register(cluster, link.Register(info, "127.0.0.1", "1"), now)
    assert isinstance(agent, Agent)
    return agent


def events(cluster: Cluster, stream: str = "s") -> list[Event]:
    """Take the events that wait for a stream, without heartbeats."""
    taken = [event for name, event in cluster.outbox.events if name == stream and event is not None]
    cluster.outbox.events = [item for item in cluster.outbox.events if item[0] != stream]
    return [event for event in taken if event.type != Event.HEARTBEAT]


def offers(cluster: Cluster, stream: str = "s") -> list[mesos.Offer]:
    found = [event for event in events(cluster, stream) if event.type == Event.OFFERS]
    return [offer for event in found for offer in event.offers.offers]


def updates(cluster: Cluster, stream: str = "s") -> list[mesos.TaskStatus]:
    return [event.update.status for event in events(cluster, stream) if event.type == Event.UPDATE]


def a_task(agent_id: str, task_id: str = "t", resources: str = "cpus:1;mem:64") -> mesos.TaskInfo:
    task = mesos.TaskInfo(name=task_id)
    task.task_id.value, task.agent_id.value = task_id, agent_id
    task.resources.extend(res.to_messages(notation.parse_resources(resources)))
    task.command.value = "true"
    return task


def launch(
    cluster: Cluster,
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


def decline(cluster: Cluster, framework: Framework, offer: mesos.Offer, seconds: float, now: float) -> None:
    call = scheduler.Call.Decline()
    call.offer_ids.add().CopyFrom(offer.id)
    call.filters.refuse_seconds = seconds
    accept.decline(cluster, framework, call, now)


def sums_are_right(cluster: Cluster) -> None:
    """Each agent's free resources are its total less what its tasks use and what is offered."""
    for agent in cluster.agents.values():
        whole = dict(agent.free)
        for task in agent.tasks.values():
            if not task.released:
                res.add(whole, task.resources)
        for offer in agent.offers.values():
            res.add(whole, offer.resources)
        assert whole == agent.total


def running(cluster: Cluster, checkpoint: bool = True) -> tuple[Framework, Agent]:
    framework, agent = subscribe(cluster, checkpoint=checkpoint), register(cluster)
    launch(cluster, framework, offers(cluster)[0], a_task(agent.id), refuse=1000)
    sums_are_right(cluster)
    return framework, agent


def test_an_agent_is_offered_whole_and_once() -> None:
    cluster = new_cluster()
    subscribe(cluster)
    register(cluster)
    [offer] = offers(cluster)
    assert res.from_messages(offer.resources) == notation.parse_resources("cpus:4;mem:1024")
    allocator.allocate(cluster, 1)
    assert offers(cluster) == []
    sums_are_right(cluster)


def test_what_a_filter_covers_is_not_offered_until_it_is_over() -> None:
    cluster = new_cluster()
    framework = subscribe(cluster)
    register(cluster)
    decline(cluster, framework, offers(cluster)[0], 3, now=10)
    allocator.allocate(cluster, 12.9)
    assert offers(cluster) == []
    allocator.allocate(cluster, 13.1)
    assert len(offers(cluster)) == 1


@pytest.mark.parametrize(
    ("asked", "held"), [(3.0, 3.0), (0.0, 0.0), (-5.0, 5.0), (float("nan"), 5.0), (1e18, 365 * 86400.0)]
)
def test_refuse_seconds_are_taken_as_mesos_takes_them(asked: float, held: float) -> None:
    assert allocator.refuse_seconds(mesos.Filters(refuse_seconds=asked)) == held
    assert allocator.refuse_seconds(None) == allocator.refuse_seconds(mesos.Filters()) == 5.0


def test_revive_clears_filters_and_suppression() -> None:
    cluster = new_cluster()
    framework = subscribe(cluster)
    register(cluster)
    decline(cluster, framework, offers(cluster)[0], 3600, now=0)
    frameworks.suppress(framework, [])
    frameworks.revive(cluster, framework, [], 1)
    assert len(offers(cluster)) == 1


@pytest.mark.parametrize(
    ("resources", "missing"),
    [("cpus:1;mem:64;gpus:1", CAPABILITY.GPU_RESOURCES), ("cpus{REV}:1", CAPABILITY.REVOCABLE_RESOURCES)],
)
def test_some_resources_are_only_for_frameworks_that_know_them(resources: str, missing: int) -> None:
    for capabilities, expected in ((ALL, 1), (tuple(set(ALL) - {missing}), 0)):
        cluster = new_cluster()
        subscribe(cluster, capabilities=capabilities)
        register(cluster, resources)
        assert len(offers(cluster)) == expected


def test_reserved_resources_go_to_their_role_only() -> None:
    cluster = new_cluster()
    subscribe(cluster, roles=("a",), stream="1")
    register(cluster, "cpus(a):1;mem(a):64;cpus(b):2;mem(b):64")
    [offer] = offers(cluster, "1")
    assert res.from_messages(offer.resources) == notation.parse_resources("cpus(a):1;mem(a):64")


def test_two_frameworks_take_turns_by_dominant_share() -> None:
    cluster = new_cluster()
    first, second = subscribe(cluster, stream="1"), subscribe(cluster, stream="2")
    agent = register(cluster, port=1)
    launch(cluster, first, offers(cluster, "1")[0], a_task(agent.id), refuse=1000)
    register(cluster, port=2)
    assert len(offers(cluster, "2")) == 1
    assert offers(cluster, "1") == []
    assert second.allocated == {}


def test_a_task_takes_its_resources_and_gives_them_back_at_its_end() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    status = mesos.TaskStatus(state=mesos.TASK_FINISHED, uuid=b"u" * 16)
    status.task_id.value = "t"
    tasks.status_update(cluster, agent, link.Update(framework.id, status, mesos.TASK_FINISHED))
    assert [item.state for item in updates(cluster)] == [mesos.TASK_FINISHED]
    assert agent.free == agent.total
    assert framework.allocated == {}
    acknowledgement = scheduler.Call.Acknowledge(uuid=b"u" * 16)
    acknowledgement.agent_id.value, acknowledgement.task_id.value = agent.id, "t"
    tasks.acknowledge(cluster, framework, acknowledgement)
    assert framework.tasks == {}
    assert [task.id for task in framework.completed] == ["t"]


def test_an_operation_of_another_type_is_dropped_in_silence() -> None:
    cluster = new_cluster()
    framework = subscribe(cluster)
    register(cluster)
    call = scheduler.Call.Accept()
    call.offer_ids.add().CopyFrom(offers(cluster)[0].id)
    call.operations.add(type=mesos.Offer.Operation.RESERVE).reserve.SetInParent()
    accept.accept(cluster, framework, call, 0)
    assert events(cluster) == []
    sums_are_right(cluster)


def test_a_lost_link_rescinds_offers_and_keeps_tasks() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    frameworks.revive(cluster, framework, [], 1)
    assert len(offers(cluster)) == 1
    agents.disconnected(cluster, agent, 2)
    assert [event.type for event in events(cluster)] == [Event.RESCIND]
    assert set(framework.tasks) == {"t"}
    allocator.allocate(cluster, 3)
    assert offers(cluster) == []


def test_a_task_without_checkpoint_is_lost_with_the_link() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster, checkpoint=False)
    events(cluster)
    agents.disconnected(cluster, agent, 2)
    [status] = updates(cluster)
    assert status.state == mesos.TASK_LOST
    assert status.message == f"Agent {agent.hostname} disconnected"
    assert status.reason == mesos.TaskStatus.REASON_AGENT_DISCONNECTED
    assert not framework.tasks


def test_an_agent_that_does_not_answer_is_unreachable_after_all_its_pings() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    events(cluster)
    for when in range(0, 75, 15):
        cluster.deadlines.run(float(when))
        assert agent.id in cluster.agents
    cluster.deadlines.run(75.0)
    assert agent.id in cluster.unreachable
    lost, failure = events(cluster)[0:1], events(cluster)
    assert lost[0].update.status.state == mesos.TASK_UNREACHABLE
    assert not framework.tasks and set(framework.unreachable) == {"t"}
    assert failure == []


def test_a_pong_counts() -> None:
    cluster = new_cluster()
    agent = register(cluster)
    for when in range(15, 300, 15):
        agents.pong(agent)
        cluster.deadlines.run(float(when))
    assert agent.id in cluster.agents


def test_an_agent_that_says_goodbye_loses_its_tasks() -> None:
    cluster = new_cluster()
    _, agent = running(cluster)
    events(cluster)
    agents.unregister(cluster, agent, 1)
    update, failure = events(cluster)
    assert update.update.status.state == mesos.TASK_LOST
    assert failure.failure.agent_id.value == agent.id
    assert agent.id not in cluster.agents


def test_a_new_agent_at_the_same_address_replaces_the_old() -> None:
    cluster = new_cluster()
    _, old = running(cluster)
    events(cluster)
    new = register(cluster)
    assert new.id != old.id and old.id not in cluster.agents
    first = events(cluster)[0].update.status
    assert first.message == f"Agent {old.hostname} removed: a new agent registered at the same address"


def test_nothing_is_said_of_tasks_whose_agent_may_still_come_back() -> None:
    cluster = new_cluster()
    framework = subscribe(cluster)
    info = mesos.AgentInfo(hostname="h", port=9)
    info.id.value = "old-S0"
    agents.expect_recovered(cluster, [info], 0)
    events(cluster)
    tasks.reconcile_one(cluster, framework, "t", "old-S0", 1)
    tasks.reconcile_one(cluster, framework, "t", None, 1)
    assert events(cluster) == []
    cluster.deadlines.run(601)
    tasks.reconcile_one(cluster, framework, "t", "old-S0", 602)
    assert [status.state for status in updates(cluster)] == [mesos.TASK_UNREACHABLE]


def test_a_launch_that_never_reached_the_agent_is_dropped_when_it_is_back() -> None:
    cluster = new_cluster()
    _, agent = running(cluster)
    agents.disconnected(cluster, agent, 1)
    events(cluster)
    agents.register(cluster, link.Register(agent.info, agent.ip, "1"), 2)
    assert updates(cluster)[0].state == mesos.TASK_DROPPED
    sums_are_right(cluster)


def test_a_task_without_any_status_comes_back_as_staging() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    task = framework.tasks["t"].info
    agents.disconnected(cluster, agent, 1)
    events(cluster)
    known = link.AgentTask(framework.id, task, (), None)
    agents.register(cluster, link.Register(agent.info, agent.ip, "1", (framework.info,), (known,)), 2)
    tasks.reconcile_one(cluster, framework, "t", agent.id, 3)
    assert [status.state for status in updates(cluster)] == [mesos.TASK_STAGING]
    sums_are_right(cluster)


def test_tasks_of_a_framework_that_was_removed_meanwhile_end_with_the_agents_return() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    task = framework.tasks["t"].info
    agents.disconnected(cluster, agent, 1)
    frameworks.remove(cluster, framework, 2)
    cluster.outbox.agents.clear()
    known = link.AgentTask(framework.id, task, (), None)
    agents.register(cluster, link.Register(agent.info, agent.ip, "1", (framework.info,), (known,)), 3)
    assert (agent.id, link.ShutdownFramework(framework.id)) in cluster.outbox.agents
    assert framework.id not in cluster.frameworks
    sums_are_right(cluster)


def test_a_framework_that_does_not_come_back_in_time_is_removed() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    frameworks.disconnected(cluster, "s", 10)
    cluster.deadlines.run(109)
    assert framework.id in cluster.frameworks
    cluster.deadlines.run(111)
    assert framework.id in cluster.removed_frameworks
    assert agent.free == agent.total
    call = scheduler.Call.Subscribe()
    call.framework_info.CopyFrom(framework.info)
    frameworks.subscribe(cluster, call, "again", 112)
    assert events(cluster, "again")[0].error.message == "Framework has been removed"


def test_quotas_over_capacity_need_force() -> None:
    cluster = new_cluster()
    register(cluster)
    config = quota.QuotaConfig(role="a")
    config.guarantees["cpus"].value = 100
    assert "exceed cluster capacity 'cpus:4; mem:1024'" in (quotas.update(cluster, [config], False) or "")
    assert quotas.update(cluster, [config], True) is None
    assert [item.role for item in quotas.status(cluster).configs] == ["a"]
    config.limits["cpus"].value = 1
    assert "is not contained within" in (quotas.update(cluster, [config], True) or "")


def simulation() -> tuple[Simulation, link.Launch]:
    config = SimulationConfig(1, {}, task_seconds=5.0)
    framework = mesos.FrameworkInfo(user="u", name="n")
    framework.id.value = "f"
    framework.capabilities.add(type=CAPABILITY.TASK_KILLING_STATE)
    return Simulation(config), link.Launch(framework, a_task("a"))


def drive(
    simulated: Simulation, answers: list[tuple[str, link.AgentMessage]], now: float
) -> list[mesos.TaskState.ValueType]:
    """Acknowledge whatever comes; return the states."""
    states = []
    while answers:
        _, update = answers.pop(0)
        assert isinstance(update, link.Update)
        states.append(update.status.state)
        ack = link.Acknowledge("f", "t", update.status.uuid)
        answers += simulated.handle("a", ack, now)
    return states


@pytest.mark.parametrize(("exit_code", "end"), [("0", mesos.TASK_FINISHED), ("3", mesos.TASK_FAILED)])
def test_a_simulated_task_runs_its_time_and_ends_as_told(exit_code: str, end: int) -> None:
    simulated, message = simulation()
    message.task.labels.labels.add(key="peloton.simulated_seconds", value="2")
    message.task.labels.labels.add(key="peloton.simulated_exit", value=exit_code)
    states = drive(simulated, simulated.handle("a", message, 0), 0)
    assert states == [mesos.TASK_STARTING, mesos.TASK_RUNNING]
    assert simulated.due(1.9) == []
    assert drive(simulated, simulated.due(2.0), 2) == [end]


def test_a_simulated_task_can_be_killed() -> None:
    simulated, message = simulation()
    drive(simulated, simulated.handle("a", message, 0), 0)
    states = drive(simulated, simulated.handle("a", link.Kill("f", "t"), 1), 1)
    assert states == [mesos.TASK_KILLING, mesos.TASK_KILLED]
    assert simulated.due(100) == []
