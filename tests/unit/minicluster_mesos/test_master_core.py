"""The master's core: offers, filters, tasks and agents, on a clock of the tests' own."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.quota import quota_pb2 as quota
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import agent_link, resource_notation
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core import accept, allocator, frameworks, tasks
from minicluster.mesos.master.core import quota as quotas
from minicluster.mesos.master.core.simulated_agents import Simulation, SimulationConfig
from minicluster.mesos.master.core.state import CAPABILITY
from tests.unit.minicluster_mesos.clusters import (
    ALL,
    a_task,
    decline,
    events,
    launch,
    new_cluster,
    offers,
    register,
    running,
    subscribe,
    sums_are_right,
    updates,
)


def test_an_agent_is_offered_whole_and_once() -> None:
    cluster = new_cluster()
    subscribe(cluster)
    register(cluster)
    [offer] = offers(cluster)
    assert res.from_messages(offer.resources) == resource_notation.parse_resources("cpus:4;mem:1024")
    allocator.allocate(cluster, 1)
    assert offers(cluster) == []
    sums_are_right(cluster)


def test_filtered_resources_are_not_offered_until_the_filter_ends() -> None:
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
    assert res.from_messages(offer.resources) == resource_notation.parse_resources("cpus(a):1;mem(a):64")


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
    tasks.status_update(cluster, agent, agent_link.Update(framework.id, status, mesos.TASK_FINISHED))
    assert [item.state for item in updates(cluster)] == [mesos.TASK_FINISHED]
    assert agent.free == agent.total
    assert not any(framework.allocated.values())
    acknowledgement = scheduler.Call.Acknowledge(uuid=b"u" * 16)
    acknowledgement.agent_id.value, acknowledgement.task_id.value = agent.id, "t"
    tasks.acknowledge(cluster, framework, acknowledgement)
    assert framework.tasks == {}
    assert [task.id for task in framework.completed] == ["t"]


def test_an_unknown_operation_is_dropped_silently() -> None:
    cluster = new_cluster()
    framework = subscribe(cluster)
    register(cluster)
    call = scheduler.Call.Accept()
    call.offer_ids.add().CopyFrom(offers(cluster)[0].id)
    call.operations.add(type=mesos.Offer.Operation.RESERVE).reserve.SetInParent()
    accept.accept(cluster, framework, call, 0)
    assert events(cluster) == []
    sums_are_right(cluster)


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


def simulation() -> tuple[Simulation, agent_link.Launch]:
    config = SimulationConfig(1, {}, task_seconds=5.0)
    framework = mesos.FrameworkInfo(user="u", name="n")
    framework.id.value = "f"
    framework.capabilities.add(type=CAPABILITY.TASK_KILLING_STATE)
    return Simulation(config), agent_link.Launch(framework, a_task("a"))


def drive(
    simulated: Simulation, answers: list[tuple[str, agent_link.AgentMessage]], now: float
) -> list[mesos.TaskState.ValueType]:
    """Acknowledge whatever comes; return the states."""
    states = []
    while answers:
        _, update = answers.pop(0)
        assert isinstance(update, agent_link.Update)
        states.append(update.status.state)
        ack = agent_link.Acknowledge("f", "t", update.status.uuid)
        answers += simulated.handle("a", ack, now)
    return states


@pytest.mark.parametrize(("exit_code", "end"), [("0", mesos.TASK_FINISHED), ("3", mesos.TASK_FAILED)])
def test_a_simulated_task_runs_for_its_time_and_ends_with_its_exit_code(exit_code: str, end: int) -> None:
    simulated, message = simulation()
    message.task.labels.labels.add(key="simulated.seconds", value="2")
    message.task.labels.labels.add(key="simulated.exit", value=exit_code)
    states = drive(simulated, simulated.handle("a", message, 0), 0)
    assert states == [mesos.TASK_STARTING, mesos.TASK_RUNNING]
    assert simulated.due(1.9) == []
    assert drive(simulated, simulated.due(2.0), 2) == [end]


def test_a_simulated_task_can_be_killed() -> None:
    simulated, message = simulation()
    drive(simulated, simulated.handle("a", message, 0), 0)
    states = drive(simulated, simulated.handle("a", agent_link.Kill("f", "t"), 1), 1)
    assert states == [mesos.TASK_KILLING, mesos.TASK_KILLED]
    assert simulated.due(100) == []
