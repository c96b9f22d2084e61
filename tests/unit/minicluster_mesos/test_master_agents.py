"""The master's core: agents and frameworks that go and come back, and what the next master knows."""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.quota import quota_pb2 as quota
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import agent_link
from minicluster.mesos.master.core import agents, allocator, frameworks, tasks
from minicluster.mesos.master.core import quota as quotas
from minicluster.mesos.master.registry import recover, snapshot
from tests.unit.minicluster_mesos.clusters import (
    Event,
    events,
    new_cluster,
    offers,
    register,
    running,
    subscribe,
    sums_are_right,
    updates,
)


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


def test_an_agent_that_unregisters_loses_its_tasks() -> None:
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


def test_tasks_of_an_agent_that_may_return_are_not_reported() -> None:
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


def test_a_launch_that_did_not_reach_the_agent_is_dropped_at_its_return() -> None:
    cluster = new_cluster()
    _, agent = running(cluster)
    agents.disconnected(cluster, agent, 1)
    events(cluster)
    agents.register(cluster, agent_link.Register(agent.info, agent.ip, "1"), 2)
    assert updates(cluster)[0].state == mesos.TASK_DROPPED
    sums_are_right(cluster)


def test_a_task_without_any_status_comes_back_as_staging() -> None:
    cluster = new_cluster()
    framework, agent = running(cluster)
    task = framework.tasks["t"].info
    agents.disconnected(cluster, agent, 1)
    events(cluster)
    known = agent_link.AgentTask(framework.id, task, (), None)
    agents.register(cluster, agent_link.Register(agent.info, agent.ip, "1", (framework.info,), (known,)), 2)
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
    known = agent_link.AgentTask(framework.id, task, (), None)
    agents.register(cluster, agent_link.Register(agent.info, agent.ip, "1", (framework.info,), (known,)), 3)
    assert (agent.id, agent_link.ShutdownFramework(framework.id)) in cluster.outbox.agents
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


def test_quotas_survive_a_master_failover() -> None:
    cluster, successor = new_cluster(), new_cluster()
    config = quota.QuotaConfig(role="peloton")
    config.limits["cpus"].value = 2
    assert quotas.update(cluster, [config], force=False) is None
    assert cluster.registry_changed
    recover(successor, snapshot(cluster), 1)
    assert list(quotas.status(successor).configs) == [config]
