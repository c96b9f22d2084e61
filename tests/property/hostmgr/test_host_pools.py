"""Host pools: each host is in exactly one, whatever operations, restarts and changes of agents come."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.host_pools import HostPools
from peloton.errors import PelotonError
from peloton.model.host_pool import in_pool
from tests.interpreted import interpreted
from tests.unit.hostmgr.hosts import agent
from tests.unit.hostmgr.pools import World

pytestmark = interpreted

HOSTS = range(4)
NAMES = ("default", "shared", "stateless", "a")
names = st.sampled_from(NAMES)
operations = st.one_of(
    st.tuples(st.just("create"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("change"), st.sampled_from(HOSTS), st.sampled_from(("", *NAMES)), names),
    st.tuples(st.just("begin_move"), st.sampled_from(HOSTS), names),
    st.tuples(st.just("arrive"), st.sampled_from(HOSTS)),
    st.tuples(st.just("finish_move"), st.sampled_from(HOSTS)),
    st.tuples(st.just("agents"), st.sets(st.sampled_from(HOSTS))),
    st.tuples(st.just("restart")),
    st.tuples(st.just("failures"), st.lists(st.floats(0, 1), max_size=2)),
)


class Model:
    """Pools and the pool of each host, in the simplest form."""

    def __init__(self) -> None:
        self.pools = {"default"}
        self.pool = dict.fromkeys((f"host{number}" for number in HOSTS), "default")
        self.desired = dict.fromkeys(self.pool, "")

    def apply(self, kind: str, *values: object) -> None:
        if kind == "create":
            self.pools.add(str(values[0]))
        elif kind == "delete":
            self.pools.discard(str(values[0]))
            for where in (self.pool, self.desired):
                where.update({host: "default" for host, pool in where.items() if pool == values[0]})
        elif kind == "change":
            host, pool = f"host{values[0]}", str(values[2])
            self.pool[host], self.desired[host] = pool, self.desired[host] and pool
        elif kind == "begin_move":
            self.desired[f"host{values[0]}"] = str(values[1])
        elif kind == "arrive":
            self.pool[f"host{values[0]}"] = self.desired[f"host{values[0]}"] or self.pool[f"host{values[0]}"]
        elif kind == "finish_move":
            self.desired[f"host{values[0]}"] = ""


def check(world: World) -> None:
    """The lists of pools are disjoint and whole, and constraints see the same."""
    members = world.manager.members()
    counts = Counter(host for hosts in members.values() for host in hosts)
    registered = {each.hostname for each in world.cluster.agents.values()}
    assert set(counts.values()) <= {1}
    assert registered <= set(counts)
    assert "default" in members and set(members) == {"default", *world.store.pools}
    matched = Counter[str]()
    for name in NAMES:
        mask, _ = world.hosts.table.match(HostFilter(constraint=in_pool(name)), offers_needed=False)
        found = {world.hosts.table.hostnames[row] for row in mask.nonzero()[0]}
        assert found == set(members.get(name, ())) & registered
        matched.update(found)
    assert matched == Counter(registered)


def _arguments(kind: str, values: list[Any]) -> list[Any]:
    if kind == "begin_move":

        def choose(pools: HostPools) -> list[str]:
            pools.require(values[1])
            return [f"host{values[0]}"]

        return [choose, values[1]]
    return [f"host{values[0]}", *values[1:]] if isinstance(values[0], int) else values


async def run(steps: list[tuple[object, ...]]) -> None:
    world, model = World(), Model()
    await world.manager.load()
    for kind, *values in steps:
        certain = not world.store.failures
        try:
            if kind == "agents":
                world.register([agent(number) for number in sorted(values[0])])  # type: ignore[call-overload]
            elif kind == "failures":
                world.store.failures = list(values[0])  # type: ignore[call-overload]
            elif kind == "restart":
                agents = list(world.cluster.agents.values())
                world.store.failures = []
                world = World(world.store)
                world.register(agents)
                await world.manager.load()
            else:
                await getattr(world.manager, str(kind))(*_arguments(str(kind), values))
                model.apply(str(kind), *values)
        except PelotonError:
            if not certain:
                world.store.failures = []
                await world.manager.load()
                model.pools = {"default", *world.store.pools}
                hosts = {host: world.manager.pools.host(host) for host in model.pool}
                model.pool = {name: host.pool for name, host in hosts.items()}
                model.desired = {name: host.desired for name, host in hosts.items()}
        if not world.store.failures:
            check(world)
            hosts = {host: world.manager.pools.host(host) for host in model.pool}
            assert {name: host.pool for name, host in hosts.items()} == model.pool
            assert {name: host.desired for name, host in hosts.items()} == model.desired
            assert set(world.manager.pools.names()) == model.pools


@given(st.lists(operations, max_size=30))
def test_each_host_is_in_exactly_one_pool(steps: list[tuple[object, ...]]) -> None:
    asyncio.run(run(steps))
