"""Host pools: requests, what is stored of them, and their effect on hosts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from hostmgr.core.state.feasibility import shortage
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.services.feasibility import shape_from
from hostmgr.services.host_pools import HostPoolMethods
from hostmgr.services.hosts import HostService, HostServiceV1Alpha
from hostmgr.services.matching import Matching
from peloton.api.v0.host.svc import host_svc_pb2 as v0
from peloton.api.v1alpha.host.svc import host_svc_pb2 as v1alpha
from peloton.clock import SystemClock
from peloton.errors import AlreadyExists, InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.model.constraint import Constraint
from peloton.model.host import HostInfo
from peloton.model.host_pool import in_pool
from peloton.model.resources import Resources
from peloton.model.states import HostState
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.hostmgr.hostsvc.hostsvc_pb2 import HostFilter as HostFilterMessage
from peloton.private.hostmgr.matching import matching_pb2
from peloton.wire.constraint import constraint_to
from tests.interpreted import interpreted
from tests.unit.hostmgr.answers import parsed
from tests.unit.hostmgr.hosts import agent, ids, offer
from tests.unit.hostmgr.pools import World

pytestmark = interpreted


def world(count: int = 3, **more: Any) -> World:
    made = World(**more)
    made.register([agent(number) for number in range(count)])
    for number in range(count):
        made.hosts.add_offer(offer(number, number), 0.0)
    return made


def matching(made: World, constraint: Constraint | None) -> list[str]:
    """The hosts that are claimed with a constraint; the claims are released again."""
    acquired = made.hosts.claims.acquire(HostFilter(constraint=constraint), ids(), 0.0)
    for claim in acquired.claims:
        made.hosts.claims.release(claim.id)
    return sorted(claim.hostname for claim in acquired.claims)


async def test_hosts_are_in_default_at_first_and_in_the_pool_they_are_put_in() -> None:
    made = world()
    assert made.manager.members() == {"default": ["host0", "host1", "host2"]}
    await made.manager.create("shared")
    await made.manager.change("host1", "default", "shared")
    assert made.manager.members() == {"default": ["host0", "host2"], "shared": ["host1"]}
    assert matching(made, in_pool("shared")) == ["host1"]
    assert matching(made, in_pool("default")) == ["host0", "host2"]
    assert matching(made, None) == ["host0", "host1", "host2"]
    await made.manager.delete("shared")
    assert made.manager.members() == {"default": ["host0", "host1", "host2"]}
    assert matching(made, in_pool("default")) == ["host0", "host1", "host2"]
    assert not made.store.hosts


async def test_an_attribute_of_the_agent_is_no_pool() -> None:
    made = World()
    made.register([agent(0, [("host_pool", "shared"), ("rack", "r1")])])
    made.hosts.add_offer(offer(0, 0), 0.0)
    assert matching(made, in_pool("shared")) == []
    assert matching(made, in_pool("default")) == ["host0"]
    off = World(enabled=False)
    off.register([agent(0, [("host_pool", "shared")])])
    off.hosts.add_offer(offer(0, 0), 0.0)
    assert matching(off, in_pool("shared")) == ["host0"], "without pools it is a label like others"


async def test_a_change_ends_the_claims_on_the_host() -> None:
    made = world(2)
    await made.manager.create("shared")
    first, second = made.hosts.claims.acquire(HostFilter(), ids(), 0.0).claims
    await made.manager.change(first.hostname, "", "shared")
    assert made.hosts.claims.get(first.id) is None
    assert made.hosts.claims.get(second.id) == second
    await made.manager.change(first.hostname, "default", "shared")  # it is there already
    assert made.hosts.claims.acquire(HostFilter(), ids("d"), 0.0).counts == {
        Result.MISMATCH_STATUS: 1,
        Result.MATCH: 1,
    }


async def test_a_change_makes_a_new_version_of_the_hosts() -> None:
    made = world()
    await made.manager.create("shared")
    before = made.hosts.table.version
    await made.manager.change("host0", "", "shared")
    assert made.hosts.table.version > before


async def test_a_host_that_comes_back_is_in_its_pool() -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager.change("host1", "", "shared")
    made.hosts.offers.remove("O1")
    made.register([agent(0)])
    assert made.manager.members() == {"default": ["host0"], "shared": ["host1"]}, "it keeps its place"
    made.register([agent(0), agent(1), agent(3)])
    made.hosts.add_offer(offer(10, 1), 0.0)
    assert matching(made, in_pool("shared")) == ["host1"]
    assert made.manager.members()["default"] == ["host0", "host3"]
    made.register([agent(0)])
    await made.manager.change("host1", "shared", "default")
    assert made.manager.members() == {"default": ["host0"], "shared": []}, "one that is gone can be removed"


async def test_a_host_in_maintenance_is_in_its_pool() -> None:
    made = world()
    made.maintained = [HostInfo("host2", "", HostState.DOWN, HostState.DOWN)]
    made.hosts.remove_agent("S2")
    made.register([agent(0), agent(1)])
    assert made.manager.members() == {"default": ["host0", "host1", "host2"]}
    await made.manager.create("shared")
    await made.manager.change("host2", "default", "shared")
    assert made.manager.members()["shared"] == ["host2"]


async def test_a_new_leader_has_the_pools() -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager.create("empty")
    await made.manager.change("host2", "", "shared")
    after = world(store=made.store)
    await after.manager.load()
    assert after.manager.members() == {"default": ["host0", "host1"], "empty": [], "shared": ["host2"]}
    assert matching(after, in_pool("shared")) == ["host2"]


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (lambda m: m.create("shared"), AlreadyExists, "host pool shared exists already"),
        (lambda m: m.create("default"), AlreadyExists, "host pool default exists already"),
        (
            lambda m: m.create("a b"),
            InvalidArgument,
            "name: 'a b' is not 1 to 100 letters, digits, dots, - and _",
        ),
        (lambda m: m.create(""), InvalidArgument, "name: '' is not 1 to 100 letters"),
        (
            lambda m: m.delete("other"),
            NotFound,
            "host pool other does not exist; there are default, shared",
        ),
        (lambda m: m.delete("default"), InvalidArgument, "name: 'default' is not a pool that can be deleted"),
        (lambda m: m.change("host0", "default", "x"), NotFound, "host pool x does not exist"),
        (lambda m: m.change("host0", "x", "shared"), NotFound, "host pool x does not exist"),
        (lambda m: m.change("host0", "", ""), NotFound, "host pool (empty) does not exist"),
        (
            lambda m: m.change("host9", "default", "shared"),
            NotFound,
            "host host9 is unknown: no agent of this name is registered or in maintenance",
        ),
        (
            lambda m: m.change("host0", "default", "default"),
            InvalidArgument,
            "destinationPool: 'default' is not another pool than sourcePool",
        ),
        (
            lambda m: m.change("host1", "default", "third"),
            Refused,
            "host host1 is in host pool shared, not in default",
        ),
    ],
)
async def test_refusals(request_: Any, error: type[PelotonError], said: str) -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager.change("host1", "", "shared")
    if "third" in said or error is Refused:
        await made.manager.create("third")
    before = made.manager.members()
    with pytest.raises(error) as refused:
        await request_(made.manager)
    assert said in str(refused.value)
    assert made.manager.members() == before


async def test_pools_are_managed_and_read_while_they_are_not_in_use() -> None:
    made = world(enabled=False)
    manager = made.manager
    await manager.load()
    assert not manager.hosts.in_use and manager.hosts.pool_of("host0") == "", (
        "as before, while there are no pools"
    )
    await manager.create("shared")
    await manager.change("host0", "", "shared")
    assert manager.members() == {"default": ["host1", "host2"], "shared": ["host0"]}
    assert manager.hosts.pool_of("host0") == "shared" and set(manager.hosts.capacities()) == {
        "default",
        "shared",
    }
    assert made.hosts.table.pool_of("host0") is None, "no constraint sees it"
    service = HostPoolMethods(manager, cast(Any, None))
    listed = await service.ListHostPools(v0.ListHostPoolsRequest(), None)
    assert listed.not_in_use and [pool.name for pool in listed.pools] == ["default", "shared"]


async def test_kinds_of_jobs_without_hosts_are_told(caplog: pytest.LogCaptureFixture) -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager._look()
    assert made.manager.hosts.without_hosts() == [
        "preemptible batch jobs run on hosts of shared, which has none",
        "other batch jobs run on hosts of batch_reserved, which does not exist",
        "services run on hosts of stateless, which does not exist",
    ]
    assert "host pools are in use, and some jobs have no place" in caplog.text
    await made.manager.change("host0", "", "shared")
    assert len(made.manager.hosts.without_hosts()) == 2


async def test_a_write_with_an_unknown_outcome_is_read_again() -> None:
    made = world()
    await made.manager.create("shared")
    made.store.failures = [1.0]
    with pytest.raises(Unavailable):
        await made.manager.change("host1", "", "shared")
    await made.manager.create("next")  # any request, or the next look
    assert made.manager.members()["shared"] == ["host1"]
    assert matching(made, in_pool("shared")) == ["host1"]


async def test_what_a_deletion_left_in_part_is_repaired() -> None:
    made = world()
    await made.manager.create("shared")
    for name in ("host0", "host1"):
        await made.manager.change(name, "", "shared")
    made.store.failures = [0.5]
    with pytest.raises(Unavailable):
        await made.manager.delete("shared")
    assert made.store.pools == set() and made.store.hosts, "the pool is deleted, its hosts are not"
    after = world(store=made.store)
    await after.manager.load()
    assert after.manager.members() == {"default": ["host0", "host1", "host2"]}
    await after.manager.create("shared")
    assert after.manager.members()["shared"] == [], "its hosts do not return"
    assert not made.store.hosts


async def test_a_cancelled_request_takes_effect_as_a_whole() -> None:
    made = world()
    await made.manager.create("shared")
    request = asyncio.ensure_future(made.manager.change("host0", "", "shared"))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    await made.manager.create("next")
    assert made.manager.members()["shared"] == ["host0"] and "host0" in made.store.hosts


async def test_the_metrics_of_each_pool() -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager.change("host1", "", "shared")
    running = asyncio.ensure_future(made.manager.run())
    await asyncio.sleep(0)
    running.cancel()

    def value(name: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(f"hostmgr_host_pool_{name}", labels)

    assert (value("hosts", pool="default"), value("hosts", pool="shared")) == (2, 1)
    assert value("capacity", pool="default", kind="cpu") == 8
    assert value("capacity", pool="shared", kind="memory") == 1024
    assert value("allocation", pool="shared", kind="cpu") == 0


async def test_capacity_by_pool() -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager.change("host1", "", "shared")
    found = {name: (count, each.total) for name, (count, each) in made.manager.hosts.capacities().items()}
    assert found == {"default": (2, Resources.of(8, 2048, 2000)), "shared": (1, Resources.of(4, 1024, 1000))}


async def test_the_services() -> None:
    made = world()
    nothing: Any = None
    service = HostService(cast(Any, made.cluster), cast(Any, made.maintenance), made.manager, nothing)
    await service.CreateHostPool(v0.CreateHostPoolRequest(name="shared"), nothing)
    newer = HostServiceV1Alpha(cast(Any, made.cluster), cast(Any, made.maintenance), made.manager)
    await newer.CreateHostPool(v1alpha.CreateHostPoolRequest(name="other"), nothing)
    await newer.ChangeHostPool(
        v1alpha.ChangeHostPoolRequest(hostname="host0", destinationPool="shared"), nothing
    )
    await service.ChangeHostPool(
        v0.ChangeHostPoolRequest(hostname="host1", sourcePool="default", destinationPool="shared"), nothing
    )
    await newer.DeleteHostPool(v1alpha.DeleteHostPoolRequest(name="other"), nothing)
    listed = await service.ListHostPools(v0.ListHostPoolsRequest(), nothing)
    assert [(each.name, list(each.hosts)) for each in listed.pools] == [
        ("default", ["host2"]),
        ("shared", ["host0", "host1"]),
    ]
    assert (await newer.ListHostPools(v1alpha.ListHostPoolsRequest(), nothing)).pools[1].name == "shared"
    encoded = await service.QueryHosts(v0.QueryHostsRequest(), nothing)
    hosts = parsed(v0.QueryHostsResponse, encoded)
    assert [(each.hostname, each.current_pool, each.desired_pool) for each in hosts.host_infos] == [
        ("host0", "shared", "shared"),
        ("host1", "shared", "shared"),
        ("host2", "default", "default"),
    ]
    await service.DeleteHostPool(v0.DeleteHostPoolRequest(name="shared"), nothing)
    assert made.manager.members() == {"default": ["host0", "host1", "host2"]}


async def test_hosts_match_by_their_pool() -> None:
    made = world()
    await made.manager.create("shared")
    await made.manager.change("host0", "", "shared")
    made.cluster.complete = True
    service = Matching(made.hosts.table, cast(Any, made.cluster), SystemClock())

    async def match(*pools: str) -> list[list[str]]:
        request = matching_pb2.MatchHostsRequest(filters=[HostFilterMessage()] * 2, host_pools=pools)
        return [sorted(each.hostnames) for each in (await service.MatchHosts(request, None)).matches]

    everywhere = ["host0", "host1", "host2"]
    assert await match() == [everywhere, everywhere]
    assert await match("shared", "") == [["host0"], everywhere]
    with pytest.raises(InvalidArgument, match="host_pools: '1 pool' is not one for each filter"):
        await match("shared")


async def test_gangs_are_compared_with_the_hosts_of_their_pool() -> None:
    made = world()
    await made.manager.create("shared")
    wire = feasibility_pb2.GangShape()
    wire.members.add(count=1, host_pool="shared")
    assert shortage(made.hosts.table, shape_from(wire, "g")) is None, "pools are off"
    lacking = shortage(made.hosts.table, shape_from(wire, "g", pooled=True))
    assert lacking is not None
    await made.manager.change("host0", "", "shared")
    assert shortage(made.hosts.table, shape_from(wire, "g", pooled=True)) is None
    own = wire.members[0].filter.schedulingConstraint
    own.CopyFrom(constraint_to(in_pool("nowhere")))
    assert shortage(made.hosts.table, shape_from(wire, "g", pooled=True)) is not None
    own.CopyFrom(constraint_to(in_pool("default")))
    assert shortage(made.hosts.table, shape_from(wire, "g", pooled=True)) is None, "its own pool counts"
