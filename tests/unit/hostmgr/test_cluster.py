"""The map of agents and the quota as hostmgr reads them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostmgr.core.cluster_manager.reconciliation import Reconciler, ReconciliationLimits
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import Offer
from hostmgr.core.state.table import HostTable
from hostmgr.drivers.agents import FollowedAgents
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.services.internal import filter_from
from hostmgr.services.query import hosts_by_query
from mesos.v1 import mesos_pb2
from mesos.v1.quota import quota_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, Unavailable
from peloton.mesos.connection import MesosDriver
from peloton.mesos.operator import Agent, Agents, OperatorClient
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.model.resources import Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.launch import launch_from

NO_AMOUNTS = (-1.0, math.nan, math.inf, -math.inf, 1e300)


class Operator:
    def __init__(self) -> None:
        self.listed: list[Agent] = []
        self.recovered: list[mesos_pb2.AgentInfo] = []
        """Agents that a new master expects back."""
        self.quota: list[quota_pb2.QuotaConfig] = []
        self.away = False
        self.on_request: Callable[[], None] = lambda: None
        """Called during a request to the master."""

    async def agents(self) -> Agents:
        if self.away:
            raise Unavailable("away")
        self.on_request()
        return Agents(agents=self.listed, recovered_agents=self.recovered)

    async def quotas(self) -> Sequence[quota_pb2.QuotaConfig]:
        return self.quota


def agent(number: int, cpus: float = 4, active: bool = True) -> Agent:
    wire = Agent(active=active, version="1")
    wire.agent_info.hostname = f"host{number}"
    wire.agent_info.id.value = f"S{number}"
    wire.total_resources.add(
        name="cpus", type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=cpus)
    )
    return wire


def made(
    operator: Operator, reconciler: Reconciler | None = None, now: Callable[[], float] = lambda: 0.0
) -> tuple[FollowedAgents, Hosts]:
    """Subscribed for so long that all agents are back that will come back."""
    if reconciler is None:
        reconciler = Reconciler(ReconciliationLimits())
        reconciler.subscribed("m", -1000)
    hosts = Hosts(HostTable())
    reader = AgentReader(cast(OperatorClient, operator), "peloton")
    backend = MesosBackend(lambda handler: cast(MesosDriver, None), reader, cast(Any, None))
    return FollowedAgents(backend, hosts, reconciler, 10.0, now), hosts


async def test_active_agents_count_and_changes_are_seen() -> None:
    operator = Operator()
    operator.listed = [agent(0), agent(1), agent(2, active=False)]
    cluster, hosts = made(operator)
    assert cluster.sight.unhealthy
    await cluster.read()
    assert not cluster.sight.unhealthy and sorted(cluster.sight.agents) == ["S0", "S1"]
    assert hosts.agents.capacity.total == Resources.of(8)
    operator.listed = [agent(0, cpus=6)]
    await cluster.read()
    assert hosts.agents.capacity.total == Resources.of(6) and len(hosts.table) == 1


async def test_changed_attributes_count_from_the_next_read_on() -> None:
    operator = Operator()
    operator.listed = [agent(0), agent(1)]
    cluster, hosts = made(operator)
    await cluster.read()
    rack = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "b"), 1)

    def matching() -> set[str]:
        mask, _ = hosts.table.match(HostFilter(constraint=rack), offers_needed=False)
        return {hosts.table.hostnames[int(row)] for row in mask.nonzero()[0]}

    assert matching() == set()
    version = hosts.table.version
    changed = agent(1)
    text = mesos_pb2.Value.Text(value="b")
    changed.agent_info.attributes.add(name="rack", type=mesos_pb2.Value.TEXT, text=text)
    operator.listed = [agent(0), changed]
    await cluster.read()
    assert matching() == {"host1"} and hosts.table.version > version
    operator.listed = [agent(0), agent(1)]
    await cluster.read()
    assert matching() == set()


async def test_an_agent_that_is_unreachable_leaves_and_comes_back() -> None:
    operator = Operator()
    operator.listed = [agent(0), agent(1)]
    cluster, hosts = made(operator)
    await cluster.read()
    operator.listed = [agent(0), agent(1, active=False)]
    await cluster.read()
    assert sorted(cluster.sight.agents) == ["S0"] and cluster.sight.disconnected == {"host1"}
    assert hosts.agents.capacity.total == Resources.of(4) and hosts.table.row("S1") is None
    operator.listed = [agent(0), agent(1)]
    await cluster.read()
    assert sorted(cluster.sight.agents) == ["S0", "S1"] and not cluster.sight.disconnected
    assert hosts.agents.capacity.total == Resources.of(8) and hosts.table.row("S1") is not None


async def test_the_map_of_a_new_master_removes_no_host() -> None:
    """It may be read before hostmgr has noticed that there is a new master."""
    operator, reconciler = Operator(), Reconciler(ReconciliationLimits())
    reconciler.subscribed("m", -1000)
    cluster, hosts = made(operator, reconciler)
    operator.listed = [agent(0), agent(1)]
    await cluster.read()
    whole = hosts.agents.capacity

    operator.listed, operator.recovered = [agent(0)], [agent(1).agent_info]
    await cluster.read()
    assert len(hosts.table) == 2 and hosts.agents.capacity == whole, "the master waits for one agent"
    operator.recovered = []

    operator.on_request = reconciler.disconnected
    await cluster.read()
    assert len(hosts.table) == 2 and hosts.agents.capacity == whole, "the old master went meanwhile"
    operator.on_request = lambda: None
    await cluster.read()
    assert len(hosts.table) == 2 and hosts.agents.capacity == whole, "the master of the map is not known"

    operator.on_request = lambda: reconciler.subscribed("m", -1000)
    await cluster.read()
    assert len(hosts.table) == 2, "it was requested before"
    await cluster.read()
    assert len(hosts.table) == 1 and hosts.agents.capacity.total == Resources.of(4)


async def test_a_master_that_cannot_answer_changes_nothing() -> None:
    operator = Operator()
    operator.listed = [agent(0)]
    cluster, hosts = made(operator)
    await cluster.read()
    operator.away = True
    with pytest.raises(Unavailable):
        await cluster.read()
    assert sorted(cluster.sight.agents) == ["S0"] and hosts.agents.capacity.total == Resources.of(4)


async def test_a_master_that_cannot_answer_is_asked_less_often() -> None:
    operator = Operator()
    cluster, _ = made(operator)
    operator.away = True
    assert [await cluster.try_to_read() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    operator.away = False
    assert await cluster.try_to_read() == 10.0
    operator.away = True
    assert await cluster.try_to_read() == 1.0


@pytest.mark.parametrize(("count", "pause"), [(3, 10.0), (10_001, 10.001)])
async def test_a_large_map_is_read_less_often(count: int, pause: float) -> None:
    operator = Operator()
    operator.listed = [agent(number) for number in range(count)]
    cluster, _ = made(operator)
    assert await cluster.try_to_read() == pytest.approx(pause)


async def test_an_offer_of_an_agent_that_the_map_lacks_is_noticed_until_it_is_read() -> None:
    operator = Operator()
    operator.listed = [agent(0)]
    cluster, hosts = made(operator)
    await cluster.read()
    hosts.add_offer(Offer("o0", "S0", "host0", ()), 0.0)
    assert not hosts.unlisted
    hosts.add_offer(Offer("o1", "S1", "host1", ()), 0.0)
    assert hosts.unlisted
    operator.listed = [agent(0), agent(1)]
    await cluster.read()
    assert not hosts.unlisted


async def test_an_agent_that_the_map_lacks_is_read_long_before_the_interval_is_over() -> None:
    operator, again = Operator(), asyncio.Event()
    hosts = Hosts(HostTable())
    hosts.add_offer(Offer("o1", "S1", "host1", ()), 0.0)
    reader = AgentReader(cast(OperatorClient, operator), "peloton")
    backend = MesosBackend(lambda handler: cast(MesosDriver, None), reader, cast(Any, None))
    cluster = FollowedAgents(backend, hosts, Reconciler(ReconciliationLimits()), 1e6, time.monotonic)
    await cluster.read()
    assert hosts.unlisted, "the map does not have it yet"
    reads = 0

    def asked() -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            again.set()

    operator.on_request = asked
    following = asyncio.create_task(cluster.follow())
    async with asyncio.timeout(60):
        await again.wait()
    following.cancel()


async def test_the_quota_of_our_role_is_the_limit() -> None:
    operator = Operator()
    ours = quota_pb2.QuotaConfig(role="peloton")
    ours.limits["cpus"].value = 2.5
    ours.limits["widgets"].value = 1
    other = quota_pb2.QuotaConfig(role="other")
    other.limits["mem"].value = 1
    operator.quota = [other, ours]
    cluster, _ = made(operator)
    await cluster.read()
    assert cluster.sight.quota == {"cpu": 2500}


@pytest.mark.parametrize("amount", NO_AMOUNTS)
def test_a_filter_with_amounts_that_are_none_is_refused(amount: float) -> None:
    wire = hostsvc_pb2.HostFilter()
    wire.resourceConstraint.minimum.memLimitMb = amount
    message = (
        f"filter.resourceConstraint.minimum.memLimitMb: {amount!r} is not a number from 0 to 1000000000000"
    )
    with pytest.raises(InvalidArgument) as refused:
        filter_from(wire)
    assert str(refused.value) == message


@pytest.mark.parametrize("amount", NO_AMOUNTS)
def test_a_query_of_hosts_with_amounts_that_are_none_is_refused(amount: float) -> None:
    _, hosts = made(Operator())
    manager: Any = SimpleNamespace(hosts=hosts)
    request = hostsvc_pb2.GetHostsByQueryRequest(resource=task_pb2.ResourceConfig(cpuLimit=amount))
    with pytest.raises(InvalidArgument, match=r"resource\.cpuLimit: \S+ is not a number from 0 to"):
        hosts_by_query(manager, request)


@pytest.mark.parametrize("amount", NO_AMOUNTS)
def test_a_launch_of_amounts_that_are_none_is_refused(amount: float) -> None:
    task = hostsvc_pb2.LaunchableTask(config=task_pb2.TaskConfig())
    task.taskId.value, task.config.resource.gpuLimit = "run", amount
    with pytest.raises(InvalidArgument, match=r"tasks\[run\]\.config\.resource\.gpuLimit: "):
        launch_from(task)


@pytest.mark.parametrize("amount", [math.nan, math.inf])
async def test_amounts_of_an_agent_that_are_none_leave_the_map_as_it_was(amount: float) -> None:
    operator = Operator()
    cluster, _ = made(operator)
    operator.listed = [agent(0)]
    await cluster.read()
    operator.listed = [agent(0), agent(1, cpus=amount)]
    with pytest.raises(InvalidArgument, match="is not a number from"):
        await cluster.read()
    assert set(cluster.sight.agents) == {"S0"}


def test_a_filter_with_half_a_constraint_is_refused() -> None:
    wire = hostsvc_pb2.HostFilter()
    wire.schedulingConstraint.SetInParent()
    with pytest.raises(InvalidArgument, match="schedulingConstraint"):
        filter_from(wire)
