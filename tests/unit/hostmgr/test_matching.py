"""The hosts that match constraints, as they come and go."""

from __future__ import annotations

import asyncio

import pytest

from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.services.matching import MAX_WAIT_MILLISECONDS, Matching
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import SystemClock
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.constraint import AndConstraint, Condition, Kind, LabelConstraint
from peloton.model.states import HostState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.matching import matching_pb2 as pb
from peloton.wire.constraint import constraint_to
from peloton.wire.feasibility import host_filter
from tests.unit.hostmgr.hosts import agent as host
from tests.unit.hostmgr.test_cluster import Operator, agent, made

RACK = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)
EXCLUSIVE = LabelConstraint(Kind.HOST, Condition.EQUAL, ("peloton/exclusive", "web"), 1)


def wanting(constraint: object = None, cpu: float = 1, gpu: float = 0) -> hostsvc_pb2.HostFilter:
    wire = None if constraint is None else constraint_to(constraint)  # type: ignore[arg-type]
    return host_filter(task_pb2.ResourceConfig(cpuLimit=cpu, gpuLimit=gpu), 0, False, wire)


class World:
    """Four hosts: one in rack r1, one of them with GPUs, one exclusive."""

    def __init__(self) -> None:
        self.operator = Operator()
        self.cluster, self.hosts = made(self.operator)
        self.service = Matching(self.hosts.table, self.cluster.sight, SystemClock())

    async def read(self) -> None:
        await self.cluster.read()

    async def match(
        self, *filters: hostsvc_pb2.HostFilter, version: str = "", wait: int = 0
    ) -> pb.MatchHostsResponse:
        request = pb.MatchHostsRequest(filters=filters, hosts_version=version, wait_milliseconds=wait)
        return await self.service.MatchHosts(request, None)

    async def names(self, *filters: hostsvc_pb2.HostFilter) -> list[list[str]]:
        return [sorted(each.hostnames) for each in (await self.match(*filters)).matches]


def fill(hosts: Hosts) -> None:
    hosts.set_agents(
        [
            host(0),
            host(1, [("rack", "r1")]),
            host(2, gpu=2),
            host(3, [("peloton/exclusive", "web")]),
        ]
    )


async def test_hosts_match_by_constraint_gpus_and_exclusiveness_not_by_size() -> None:
    world = World()
    await world.read()
    fill(world.hosts)
    found = await world.names(
        wanting(),
        wanting(RACK),
        wanting(EXCLUSIVE),
        wanting(gpu=1),
        wanting(cpu=1000),
        wanting(AndConstraint((RACK, EXCLUSIVE))),
    )
    assert found == [["host0", "host1"], ["host1"], ["host3"], ["host2"], ["host0", "host1"], []]


async def test_a_host_in_maintenance_does_not_match() -> None:
    world = World()
    await world.read()
    fill(world.hosts)
    before = (await world.match(wanting())).hosts_version
    world.hosts.table.set_life("host0", HostState.DRAINING)
    answer = await world.match(wanting(), version=before)
    assert not answer.unchanged
    assert list(answer.matches[0].hostnames) == ["host1"]


async def test_the_answer_is_short_while_the_hosts_are_the_same() -> None:
    world = World()
    world.operator.listed = [agent(0), agent(1)]
    await world.read()
    first = await world.match(wanting())
    again = await world.match(wanting(), version=first.hosts_version)
    assert again == pb.MatchHostsResponse(hosts_version=first.hosts_version, unchanged=True)


async def test_a_call_waits_for_a_change() -> None:
    world = World()
    world.operator.listed = [agent(0)]
    await world.read()
    first = await world.match(wanting())
    call = asyncio.create_task(
        world.match(wanting(), version=first.hosts_version, wait=MAX_WAIT_MILLISECONDS)
    )
    await asyncio.sleep(0)
    assert not call.done()
    world.operator.listed.append(agent(1))
    await world.read()
    assert sorted((await asyncio.wait_for(call, 60)).matches[0].hostnames) == ["host0", "host1"]


async def test_disconnected_agents_and_those_of_a_new_master_are_not_taken_for_gone() -> None:
    world = World()
    world.operator.listed = [agent(0), agent(1)]
    await world.read()
    first = await world.match(wanting())
    assert first.complete and not first.disconnected
    world.operator.listed = [agent(0), agent(1, active=False)]
    await world.read()
    second = await world.match(wanting(), version=first.hosts_version)
    assert second.complete and list(second.disconnected) == ["host1"]
    world.operator.listed = [agent(0)]
    world.operator.recovered = [mesos_pb2.AgentInfo(hostname="host1")]
    await world.read()
    assert not (await world.match(wanting(), version=second.hosts_version)).complete


async def test_what_is_wrong_is_refused() -> None:
    world = World()
    with pytest.raises(Unavailable, match="map of agents has not been read"):
        await world.match(wanting())
    await world.read()
    with pytest.raises(InvalidArgument, match="wait_milliseconds"):
        await world.match(wanting(), wait=MAX_WAIT_MILLISECONDS + 1)
    with pytest.raises(InvalidArgument, match="filters"):
        await world.match(*[wanting()] * 1001)
    broken = wanting()
    broken.schedulingConstraint.type = 99  # type: ignore[assignment]
    with pytest.raises(InvalidArgument, match=r"filters\[1\]\.schedulingConstraint"):
        await world.match(wanting(), broken)


async def test_hosts_that_are_not_asked_about_are_not_named() -> None:
    world = World()
    await world.read()
    fill(world.hosts)
    request = pb.MatchHostsRequest(
        filters=[wanting(), wanting(RACK), wanting(gpu=1)], among=["host1", "gone"]
    )
    answer = await world.service.MatchHosts(request, None)
    assert [(list(each.hostnames), each.elsewhere) for each in answer.matches] == [
        (["host1"], True),
        (["host1"], False),
        ([], True),
    ]
