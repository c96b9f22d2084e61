"""What a job manager may rely on about hosts: which match, their volumes and their agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hostmgr.core.state.columns import Agent
from hostmgr.services.matching import Matching
from jobmgr.clients.hostmgr import HostmgrClient
from jobmgr.clients.matching import AgentsClient, MatchingClient
from jobmgr.ports.hostmgr import (
    AgentAddress,
    Agents,
    HostMatches,
    HostNeeds,
    LeavingHosts,
    PooledNeeds,
    Volumes,
)
from mesos.v1 import mesos_pb2
from peloton.calls.rpc import Caller
from peloton.clock import SystemClock
from peloton.errors import NotFound, Refused, Unavailable
from peloton.membership.interface import Role
from peloton.mesos.stream import Event
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.model.resources import Resources
from peloton.model.volume import volume_id
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.matching.matching_pb2_grpc import add_MatchingServiceServicer_to_server
from peloton.rpc.server import service
from peloton.wire.hosts import Agent as WireAgent
from tests.contract.ports.leading import leading
from tests.unit.hostmgr import served
from tests.unit.hostmgr.hosts import agent
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.test_daemon_hosts import Hosts
from tests.unit.jobmgr_core.test_volume_destroyer import Hostmgr as VolumeHost
from tests.unit.jobmgr_services import test_maintenance
from tests.unit.jobmgr_services.fakes import FakeHostmgr

WAIT = 0.05
SMALL = HostNeeds(Resources.of(1, 100), 0, False, None)
ANY = PooledNeeds(SMALL, "")
VOLUME = volume_id(JOB, 0, 1)


@asynccontextmanager
async def serving(made: served.Served) -> AsyncIterator[Caller]:
    await made.subscribe()
    matching = Matching(made.manager.hosts.table, made.cluster.sight, SystemClock())
    services = [*made.services, service(add_MatchingServiceServicer_to_server, matching)]
    async with leading(Role.HOSTMGR, Role.JOBMGR, services) as client:
        try:
            yield client
        finally:
            made.watches.close()


def known(*numbers: int) -> served.Served:
    """Return hostmgr with the agents of these hosts."""
    made = served.Served()
    made.list_agents(*map(agent, numbers))
    return made


@dataclass
class Followed:
    """Hosts host0 and host1 behind the port."""

    port: HostMatches
    add: Callable[[], object]
    """Add host2."""


@pytest.fixture(params=["stand-in", "services"])
async def hosts(request: pytest.FixtureRequest) -> AsyncIterator[Followed]:
    if request.param == "stand-in":
        held = Hosts("host0", "host1")
        yield Followed(MatchingClient(held), lambda: held.change("host0", "host1", "host2"))
        return
    made = known(0, 1)
    async with serving(made) as client:
        yield Followed(MatchingClient(client), lambda: made.list_agents(*map(agent, range(3))))


async def test_hosts_are_told_for_each_need_and_again_when_they_change(hosts: Followed) -> None:
    found = await hosts.port.matches([SMALL, SMALL._replace(ports=0)], "", WAIT)
    assert found is not None
    version, matches = found
    assert [match.hosts for match in matches] == [{"host0", "host1"}] * 2
    assert not any(match.disconnected for match in matches)
    assert await hosts.port.matches([SMALL], version, WAIT) is None
    hosts.add()
    again = await hosts.port.matches([SMALL], version, WAIT)
    assert again is not None and again[0] != version
    assert [match.hosts for match in again[1]] == [{"host0", "host1", "host2"}]


async def test_only_hosts_that_meet_a_constraint_match_and_only_large_ones_are_last() -> None:
    rack = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)
    large = ANY._replace(needs=SMALL._replace(resources=Resources.of(8, 100)))
    made = served.Served()
    made.list_agents(agent(0, [("rack", "r1")]), agent(1, [("rack", "r2")], cpu=16))
    async with serving(made) as client:
        port = MatchingClient(client)
        found = await port.matches([SMALL._replace(constraint=rack), SMALL], "", 0.0)
        assert found is not None
        assert [match.hosts for match in found[1]] == [{"host0"}, {"host0", "host1"}]
        assert await port.last_hosts([ANY, large], ["host1"]) == {large: frozenset({"host1"})}


@pytest.fixture(params=["stand-in", "services"])
async def leaving(request: pytest.FixtureRequest) -> AsyncIterator[LeavingHosts]:
    if request.param == "stand-in":
        yield MatchingClient(test_maintenance.Matching(["host0", "host1"]))
        return
    async with serving(known(0, 1)) as client:
        yield MatchingClient(client)


async def test_hosts_that_leave_are_the_last_ones_only_together(leaving: LeavingHosts) -> None:
    assert await leaving.last_hosts([ANY], ["host0"]) == {}
    assert await leaving.last_hosts([ANY], ["nosuch"]) == {}
    assert await leaving.last_hosts([ANY], ["host1", "host0", "nosuch"]) == {
        ANY: frozenset({"host0", "host1"})
    }
    assert await leaving.last_hosts([], ["host0"]) == {}


@dataclass
class Disks:
    """Hosts with a volume behind the port."""

    port: Volumes
    host: str
    """A host that is registered."""
    end: Callable[[], object]
    """Let Mesos destroy the volume."""


@pytest.fixture(params=["stand-in", "services"])
async def disks(request: pytest.FixtureRequest) -> AsyncIterator[Disks]:
    if request.param == "stand-in":
        held = VolumeHost(None)
        yield Disks(held, "host", lambda: None)
        return
    made = served.Served()
    made.list_agents(replace(_registered(0), volumes=frozenset({VOLUME})))
    async with serving(made) as client:
        _offer_volume(made)
        yield Disks(
            HostmgrClient(client),
            "host0",
            lambda: made.list_agents(_registered(0)),
        )


def _registered(number: int) -> Agent:
    wire = WireAgent(active=True, version="1", pid=f"slave(1)@10.0.0.{number}:5051")
    wire.agent_info.hostname, wire.agent_info.port = f"host{number}", 5051
    wire.agent_info.id.value = f"S{number}"
    return replace(agent(number), wire=wire)


def _offer_volume(made: served.Served) -> None:
    event = Event(type=Event.OFFERS)
    offer = event.offers.offers.add(hostname="host0")
    offer.id.value, offer.agent_id.value, offer.framework_id.value = "O1", "S0", "f-0000"
    disk = offer.resources.add(name="disk", type=mesos_pb2.Value.SCALAR)
    disk.scalar.value = 100.0
    disk.reservations.add(type=mesos_pb2.Resource.ReservationInfo.DYNAMIC, role="peloton")
    disk.disk.persistence.id = VOLUME
    disk.disk.volume.container_path, disk.disk.volume.mode = "data", mesos_pb2.Volume.RW
    made.backend.on_events([event])


async def test_a_volume_is_destroyed_and_then_unknown(disks: Disks) -> None:
    assert await disks.port.is_host_known(disks.host)
    await disks.port.destroy_volume(VOLUME)
    disks.end()
    with pytest.raises(NotFound):
        await disks.port.destroy_volume(VOLUME)


async def test_a_volume_that_is_not_offered_is_in_use() -> None:
    made = served.Served()
    made.list_agents(replace(_registered(0), volumes=frozenset({VOLUME})))
    async with serving(made) as client:
        port: Volumes = HostmgrClient(client)
        with pytest.raises(Refused, match="in use"):
            await port.destroy_volume(VOLUME)
        assert not await port.is_host_known("nosuch")
        _offer_volume(made)
        made.claim()
        with pytest.raises(Unavailable, match="claimed"):
            await port.destroy_volume(VOLUME)


@pytest.fixture(params=["stand-in", "services"])
async def agents(request: pytest.FixtureRequest) -> AsyncIterator[Agents]:
    if request.param == "stand-in":
        held = FakeHostmgr()
        held.answers = _answers()
        yield AgentsClient(held)
        return
    made = served.Served()
    made.list_agents(_registered(0))
    async with serving(made) as client:
        yield AgentsClient(client)


def _answers() -> dict[str, Any]:
    info = hostsvc_pb2.GetMesosAgentInfoResponse(agents=[_registered(0).wire])  # type: ignore[list-item]
    return {
        "GetMesosAgentInfo": info,
        "GetMesosMasterHostPort": hostsvc_pb2.MesosMasterHostPortResponse(hostname="m", port="5050"),
    }


async def test_where_agents_and_the_master_answer(agents: Agents) -> None:
    [found] = await agents.agents("host0")
    assert found == AgentAddress("S0", "slave(1)@10.0.0.0:5051", "host0", 5051)
    assert await agents.master() == ("m", "5050")


async def test_an_unknown_host_has_no_agents() -> None:
    async with serving(known(0)) as client:
        with pytest.raises(NotFound, match="nosuch"):
            await AgentsClient(client).agents("nosuch")
