"""What a resource manager may rely on about hosts: comparisons, claims, and hosts that drain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.services.claims import ClaimService
from hostmgr.services.feasibility import Feasibility
from hostmgr.services.offers import find_hosts
from peloton.calls.rpc import Caller
from peloton.clock import SystemClock
from peloton.errors import NotFound, PelotonError, Refused, Unavailable
from peloton.membership.interface import Role
from peloton.model.resources import Resources
from peloton.model.shortage import Lack
from peloton.model.states import TaskType
from peloton.private.hostmgr.claims.claims_pb2_grpc import add_ClaimServiceServicer_to_server
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import add_FeasibilityServiceServicer_to_server
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import add_InternalHostServiceServicer_to_server
from peloton.rpc.server import service
from resmgr.clients import HostmgrClient, HostmgrsClient
from resmgr.core.state.needs import Fit, Shape
from resmgr.core.state.placements import Handover
from resmgr.ports import ClaimRelease, DrainingHosts, EarlierClaims, Hosts
from tests.contract.ports.leading import leading
from tests.unit.hostmgr import served
from tests.unit.hostmgr.hosts import agent, offer
from tests.unit.hostmgr.test_maintenance import World as MaintainedHosts
from tests.unit.resmgr import test_claims, test_draining, test_infeasible

NONE_OPEN: frozenset[str] = frozenset()
WAIT = 0.02


def shape(cpu: float, tasks: int = 1, spread: bool = False) -> Shape:
    return Shape(frozenset({(Fit(Resources.of(cpu, 100), 0, False, b""), tasks)}), spread)


@asynccontextmanager
async def serving(made: served.Served) -> AsyncIterator[Caller]:
    await made.subscribe()
    manager = made.manager
    feasibility = Feasibility(manager.hosts.table, made.cluster.sight, partial(find_hosts, manager))
    services = [
        *made.services,
        service(add_FeasibilityServiceServicer_to_server, feasibility),
        service(add_ClaimServiceServicer_to_server, ClaimService(manager)),
    ]
    async with leading(Role.HOSTMGR, Role.RESMGR, services) as client:
        try:
            yield client
        finally:
            made.watches.close()


# Comparisons.


@dataclass
class Compared:
    """A cluster with host0 of 4 CPUs behind the port."""

    port: Hosts
    add: Callable[[Agent], object]


@pytest.fixture(params=["stand-in", "services"])
async def hosts(request: pytest.FixtureRequest) -> AsyncIterator[Compared]:
    if request.param == "stand-in":
        held = test_infeasible.Hostmgr()
        held.table.remove("S0")
        held.table.put(agent(0))
        yield Compared(HostmgrsClient(held), held.table.put)
        return
    made = served.Served()
    made.list_agents(agent(0))
    async with serving(made) as client:
        yield Compared(HostmgrsClient(client), lambda other: made.list_agents(agent(0), other))


async def test_each_shape_gets_its_verdict(hosts: Compared) -> None:
    shapes = [shape(4), shape(5), shape(1, tasks=4), shape(1, tasks=2, spread=True)]
    fits, large, four, apart = await hosts.port.check(shapes, NONE_OPEN)
    assert fits is None and four is None
    assert large is not None and (large.lack, large.needed, large.largest) == (Lack.RESOURCE, 5000, 4000)
    assert apart is not None
    hosts.add(agent(1, cpu=8))
    assert list(await hosts.port.check(shapes, NONE_OPEN)) == [None] * 4
    assert not await hosts.port.check([], NONE_OPEN)


async def test_gains_since_a_version(hosts: Compared) -> None:
    first = await hosts.port.gains("")
    assert first.gains is None, "of what no version is known"
    still = await hosts.port.gains(first.version)
    assert still.version == first.version
    assert still.gains is not None and still.gains.hosts == 0
    hosts.add(agent(1, cpu=8))
    gained = await hosts.port.gains(first.version)
    assert gained.version != first.version and gained.gains is not None
    assert (gained.gains.hosts, gained.gains.largest[0]) == (1, 8000)
    assert (await hosts.port.gains("of another leader-3")).gains is None


async def test_hosts_are_found_without_a_claim_and_named_up_to_a_number() -> None:
    made = served.Served()
    made.list_agents(*map(agent, range(3)))
    async with serving(made) as client:
        made.put(*(offer(number, number) for number in range(3)))
        port = HostmgrsClient(client)
        found = await port.find(shape(1), 2, 10.0)
        assert (found.total, len(found.names)) == (3, 2)
        assert (await port.find(shape(1), 2, 10.0)).total == 3
        assert await port.find(shape(9), 2, 10.0) == (0, [])


async def test_nothing_is_compared_before_the_hosts_are_known() -> None:
    async with serving(served.Served()) as client:
        with pytest.raises(Unavailable):
            await HostmgrsClient(client).check([shape(1)], NONE_OPEN, 0.05)


# Claims.


@dataclass
class Claimed:
    """A host that placement has claimed, behind the ports."""

    release: ClaimRelease
    earlier: EarlierClaims
    claim: Handover


@pytest.fixture(params=["stand-in", "services"])
async def claimed(request: pytest.FixtureRequest) -> AsyncIterator[Claimed]:
    if request.param == "stand-in":
        held = test_claims.Hostmgr()
        yield Claimed(held, held, _handover("c1"))
        return
    made = served.Served()
    async with serving(made) as client:
        made.put(offer(0, 0))
        made.clock.advance(100.0)
        [claim] = made.manager.acquire(HostFilter(), "placement/one").claims
        made.clock.advance(5.0)
        yield Claimed(HostmgrsClient(client), HostmgrClient(client), _handover(claim.id))


def _handover(claim: str) -> Handover:
    return Handover("host0", "S0", claim, TaskType.BATCH, (), (), ())


async def test_claims_of_placements_are_released_also_again(claimed: Claimed) -> None:
    await claimed.release.release([claimed.claim])
    await claimed.release.release([claimed.claim])


async def test_claims_from_before_a_term_are_shortened(claimed: Claimed) -> None:
    assert await claimed.earlier.shorten_claims(1.0) == 1


async def test_only_older_claims_of_daemons_are_shortened_and_only_once() -> None:
    made = served.Served()
    async with serving(made) as client:
        port: EarlierClaims = HostmgrClient(client)
        made.put(*(offer(number, number) for number in range(2)))
        made.clock.advance(100.0)
        made.manager.acquire(HostFilter(max_hosts=1), "placement/one")
        made.manager.acquire(HostFilter(max_hosts=1), "")
        made.clock.advance(5.0)
        assert await port.shorten_claims(6.0) == 0
        assert await port.shorten_claims(4.0) == 1, "that of a user is short already"
        assert await port.shorten_claims(4.0) == 0


# Hosts that drain.


@dataclass
class Drained:
    """Draining hosts host0, with a run, and host1 behind the port."""

    port: DrainingHosts
    end_run: Callable[[], object]


@pytest.fixture(params=["stand-in", "services"])
async def draining(request: pytest.FixtureRequest) -> AsyncIterator[Drained]:
    if request.param == "stand-in":
        held = test_draining.Hostmgr("host0", "host1")
        held.refused = {"host0"}
        yield Drained(held, held.refused.clear)
        return
    world = MaintainedHosts()
    clock: Any = SystemClock()
    world.clock = clock  # it waits by the time that passes here
    await world.restart()
    await world.maintenance.start(["host0", "host1"])
    world.runs.put("r-0-1", "S0")
    services = [service(add_InternalHostServiceServicer_to_server, world.internal)]
    async with leading(Role.HOSTMGR, Role.RESMGR, services) as client:
        yield Drained(HostmgrClient(client), lambda: world.runs.remove("r-0-1"))


async def test_a_host_is_drained_once_hostmgr_knows_of_nothing_there(draining: Drained) -> None:
    assert list(await draining.port.draining(WAIT)) == ["host0", "host1"]
    await draining.port.mark_drained("host1")
    with pytest.raises(Refused):
        await draining.port.mark_drained("host0")
    assert list(await draining.port.draining(WAIT)) == ["host0"]
    draining.end_run()
    await draining.port.mark_drained("host0")
    assert not await draining.port.draining(WAIT)


async def test_a_host_that_does_not_drain_is_not_drained() -> None:
    world = MaintainedHosts()
    await world.restart()
    services = [service(add_InternalHostServiceServicer_to_server, world.internal)]
    async with leading(Role.HOSTMGR, Role.RESMGR, services) as client:
        port: DrainingHosts = HostmgrClient(client)
        with pytest.raises(PelotonError) as refused:
            await port.mark_drained("host2")
        assert isinstance(refused.value, NotFound | Refused)
