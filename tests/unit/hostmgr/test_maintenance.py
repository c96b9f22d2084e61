"""Maintenance of hosts between a master and a store that are stood in for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from hostmgr.core.agents.draining import Machine, MasterStatus, Occupancy, Plan, occupied, plan
from hostmgr.core.agents.maintained_hosts import RETURN_SECONDS
from hostmgr.core.cluster_manager.events import Address, Registration
from hostmgr.core.pools.pooled_hosts import PooledHosts
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.states import LifeCause
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.maintenance import Maintenance
from hostmgr.drivers.records import HostRecords
from hostmgr.services.hosts import HostService, HostServiceV1Alpha
from hostmgr.services.internal import InternalHosts
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v1alpha.host import host_pb2 as host_v1alpha
from peloton.api.v1alpha.host.svc import host_svc_pb2 as svc_v1alpha
from peloton.clock import ManualClock
from peloton.errors import Conflict, InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.model.host import HostInfo
from peloton.model.resources import ZERO, Resources
from peloton.model.states import HostState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.waking import Signal
from tests.interpreted import interpreted
from tests.unit.hostmgr.answers import parsed
from tests.unit.hostmgr.hosts import ids, offer
from tests.unit.hostmgr.sight import Shown

pytestmark = interpreted

S, L = HostState, LifeCause
HOST = Machine("host0", "10.0.0.0")
NOTHING: Any = None
STEPS: dict[tuple[HostState, HostState, HostState], Plan] = {
    (S.DRAINING, S.DOWN, S.UP): Plan(schedule=(HOST,)),
    (S.DRAINED, S.DOWN, S.UP): Plan(schedule=(HOST,)),
    (S.DOWN, S.DOWN, S.UP): Plan(schedule=(HOST,)),
    (S.DRAINED, S.DOWN, S.DRAINING): Plan(take_down=(HOST,)),
    (S.DOWN, S.DOWN, S.DRAINING): Plan(take_down=(HOST,)),
    (S.DRAINED, S.DOWN, S.DOWN): Plan(confirmed=(("host0", L.TAKE_DOWN),)),
    (S.DOWN, S.UP, S.DOWN): Plan(bring_up=(HOST,)),
    (S.DOWN, S.UP, S.DRAINING): Plan(unschedule=(HOST,)),
    (S.DOWN, S.UP, S.UP): Plan(confirmed=(("host0", L.COMPLETE_MAINTENANCE),)),
}
"""By the record's state and goal, and by the machine's state in the master; else there is no step."""


@pytest.mark.parametrize(
    ("state", "goal", "machine"), list(product(S, (S.UP, S.DOWN), (S.UP, S.DRAINING, S.DOWN)))
)
def test_the_next_step_for_every_state(state: HostState, goal: HostState, machine: HostState) -> None:
    status = {
        S.UP: MasterStatus(),
        S.DRAINING: MasterStatus(draining=(Machine("HOST0", HOST.ip),)),
        S.DOWN: MasterStatus(down=(HOST,)),
    }[machine]
    assert plan([HostInfo(*HOST, state, goal)], status) == STEPS.get((state, goal, machine), Plan())


def test_machines_of_others_are_left_alone() -> None:
    others = (Machine("host0", "10.0.0.9"), Machine("other", "10.0.0.0"))
    found = plan([HostInfo(*HOST, S.DRAINING, S.DOWN)], MasterStatus(draining=others, down=others))
    assert found == Plan(schedule=(HOST,))
    assert not plan([], MasterStatus(draining=others, down=others))


@pytest.mark.parametrize(
    ("occupancy", "text"),
    [
        (Occupancy(0, ZERO, 0, True), ""),
        (Occupancy(0, ZERO, 0, False), "Mesos has not told yet what runs there"),
        (Occupancy(1, ZERO, 0, True), "1 task is left"),
        (Occupancy(2, Resources.of(1), 0, False), "2 tasks are left"),
        (
            Occupancy(0, Resources.of(0.5, 64), 250, True),
            "Mesos has 0.5 cores, 64 MB memory, 0.25 revocable cores allocated there",
        ),
    ],
)
def test_what_is_left_on_a_host(occupancy: Occupancy, text: str) -> None:
    assert occupied(occupancy) == text


class Master:
    """The maintenance calls of a Mesos master."""

    def __init__(self) -> None:
        self.machines: dict[Machine, bool] = {}
        """The scheduled machines; True for those that are down."""
        self.calls: list[str] = []
        self.away = 0
        """How many of the next calls fail, after they had their effect."""

    def _called(self, name: str, machines: Sequence[Machine]) -> None:
        self.calls += [f"{name} {machine.hostname}" for machine in machines]
        if self.away:
            self.away -= 1
            raise Unavailable("the master is away")

    async def maintenance(self) -> MasterStatus:
        self._called("", ())
        down = tuple(machine for machine, is_down in self.machines.items() if is_down)
        return MasterStatus(tuple(set(self.machines) - set(down)), down)

    async def change_schedule(self, add: Sequence[Machine], remove: Sequence[Machine]) -> None:
        self.machines = {
            **{m: d for m, d in self.machines.items() if m not in remove},
            **dict.fromkeys(add, False),
        }
        self._called("schedule", add)
        self._called("unschedule", remove)

    async def take_down(self, machines: Sequence[Machine]) -> None:
        self.machines.update(dict.fromkeys(machines, True))
        self._called("down", machines)

    async def bring_up(self, machines: Sequence[Machine]) -> None:
        for machine in machines:
            del self.machines[machine]
        self._called("up", machines)


class Store:
    """The stored records."""

    def __init__(self) -> None:
        self.rows: dict[str, HostInfo] = {}

    async def all(self) -> list[HostInfo]:
        return list(self.rows.values())

    async def write(self, host: HostInfo) -> None:
        self.rows[host.hostname] = host

    async def delete(self, hostname: str) -> None:
        self.rows.pop(hostname, None)


class World:
    """A term of hostmgr; `restart` begins another one."""

    def __init__(self, hosts: int = 3) -> None:
        self.master, self.store, self.clock = Master(), Store(), ManualClock()
        self.agents = {
            f"S{n}": Agent(f"S{n}", f"host{n}", (("rack", "r"),), ip=f"10.0.0.{n}") for n in range(hosts)
        }
        self.registering: dict[str, Agent] = {}
        """Agents that the map has at its next reading."""

        async def read() -> None:
            self.agents.update(self.registering)

        shown: Any = Shown(self.agents, unhealthy="not read yet")
        shown.read = read
        self.cluster = shown

    async def restart(self) -> None:
        self.core = Term(HostTable(), framework_id="f1")
        self.core.connected(Registration("f1", Address("m", 5050), "m1"), 0.0)
        self.hosts, self.runs = self.core.hosts, self.core.runs
        self.hosts.set_agents(self.agents.values())
        for agent_id in self.agents:
            self.hosts.add_offer(offer(int(agent_id[1:]), int(agent_id[1:])), 0.0)
        self.manager: Any = SimpleNamespace(
            host_states=Signal(),
            core=self.core,
            hosts=self.hosts,
            runs=self.runs,
            backend=self.master,
            clock=self.clock,
        )
        store: Any = self.store
        manager: Any = self.manager
        records = HostRecords(store)
        await records.load()
        self.maintenance = Maintenance(records, manager, self.cluster, self.clock, 60.0)
        self.pools = HostPoolManager(
            "f",
            NOTHING,
            PooledHosts(None, self.hosts, self.cluster, self.maintenance.hosts),
            self.clock.monotonic,
        )
        self.service = HostService(self.cluster, self.maintenance, self.pools, NOTHING)
        self.internal = InternalHosts(manager, self.cluster, NOTHING, NOTHING, self.maintenance)

    async def step(self) -> bool:
        return await self.maintenance._try_step()

    async def query(self, *states: host_pb2.HostState.ValueType) -> dict[str, str]:
        encoded = await self.service.QueryHosts(host_svc_pb2.QueryHostsRequest(host_states=states), NOTHING)
        answer = parsed(host_svc_pb2.QueryHostsResponse, encoded)
        name = host_pb2.HostState.Name
        return {
            each.hostname: f"{name(each.state)} {name(each.goal_state)}".replace("HOST_STATE_", "")
            for each in answer.host_infos
        }

    def stored(self) -> dict[str, HostState]:
        return {name: row.state for name, row in self.store.rows.items()}


@pytest.fixture
async def world() -> World:
    made = World()
    await made.restart()
    return made


async def test_a_host_goes_down_and_comes_back(world: World) -> None:
    maintenance = world.maintenance
    (begun,) = await maintenance.start(["host0"])
    assert begun.new and (begun.record.ip, begun.record.labels) == ("10.0.0.0", (("rack", "r"),))
    assert world.stored() == {"host0": S.DRAINING}
    assert await world.query() == {"host0": "DRAINING DOWN", "host1": "UP UP", "host2": "UP UP"}
    assert await world.step() and world.master.calls == ["schedule host0"]
    assert [claim.hostname for claim in world.hosts.claims.acquire(HostFilter(), ids(), 0.0).claims] == [
        "host1",
        "host2",
    ]
    assert list((await world.internal.GetDrainingHosts(pb.GetDrainingHostsRequest(), NOTHING)).hostnames) == [
        "host0"
    ]
    await world.internal.MarkHostDrained(pb.MarkHostDrainedRequest(hostname="host0"), NOTHING)
    assert (await world.query())["host0"] == "DRAINED DOWN"
    assert await world.step()
    assert world.master.calls == ["schedule host0", "down host0"] and world.stored() == {"host0": S.DOWN}
    del world.agents["S0"]
    world.hosts.set_agents(world.agents.values())
    assert await world.query(host_pb2.HOST_STATE_DOWN) == {"host0": "DOWN DOWN"}, "it is not registered"
    await maintenance.complete(["host0"])
    assert world.master.calls[2:] == ["up host0"] and not world.master.machines and not world.store.rows
    assert (await world.query())["host0"] == "UP UP", "its agent has not registered yet"
    world.clock.advance(RETURN_SECONDS)
    assert "host0" not in await world.query()


async def test_claims_on_the_host_end(world: World) -> None:
    claims = {claim.hostname: claim for claim in world.hosts.claims.acquire(HostFilter(), ids(), 0.0).claims}
    await world.maintenance.start(["host0"])
    assert (
        world.hosts.claims.get(claims["host0"].id) is None
        and world.hosts.claims.get(claims["host1"].id) is not None
    )


async def test_two_requests_at_once_change_a_host_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write = world.store.write

    async def slow_write(host: HostInfo) -> None:
        await asyncio.sleep(0)
        await write(host)

    monkeypatch.setattr(world.store, "write", slow_write)
    begun = await asyncio.gather(*(world.maintenance.start(["host0"]) for _ in range(3)))
    assert sorted(each.new for (each,) in begun) == [False, False, True]
    request = pb.MarkHostDrainedRequest(hostname="host0")
    await asyncio.gather(*(world.internal.MarkHostDrained(request, NOTHING) for _ in range(3)))
    assert world.stored() == {"host0": S.DRAINED}
    await world.internal.MarkHostDrained(request, NOTHING)


async def test_a_host_with_tasks_is_not_drained(world: World) -> None:
    await world.maintenance.start(["host0"])
    world.runs.put("r-0-1", "S0")
    request = pb.GetTasksByHostStateRequest(host_state=host_pb2.HOST_STATE_DRAINING)
    assert [each.value for each in (await world.internal.GetTasksByHostState(request, NOTHING)).task_ids] == [
        "r-0-1"
    ]
    with pytest.raises(Refused, match="host host0 is not drained: 1 task is left"):
        await world.maintenance.mark_drained("host0")
    world.runs.remove("r-0-1")
    world.agents["S0"] = replace(world.agents["S0"], allocated=Resources.of(2))
    with pytest.raises(Refused, match="host host0 is not drained: Mesos has 2 cores allocated there"):
        await world.maintenance.mark_drained("host0")
    world.agents["S0"] = replace(world.agents["S0"], allocated=ZERO)
    world.core.connection.since = 5.0
    with pytest.raises(Refused, match="Mesos has not told yet"):
        await world.maintenance.mark_drained("host0")
    world.cluster.read_began = 5.0
    await world.maintenance.mark_drained("host0")
    await world.maintenance.mark_drained("host0")
    assert world.stored() == {"host0": S.DRAINED}
    with pytest.raises(NotFound, match="host host1 is not in maintenance"):
        await world.maintenance.mark_drained("host1")


async def test_a_host_whose_agent_is_gone_is_drained(world: World) -> None:
    await world.maintenance.start(["host0"])
    del world.agents["S0"]
    world.cluster.disconnected = frozenset({"host0"})
    with pytest.raises(Refused, match="Mesos has not told yet"):
        await world.maintenance.mark_drained("host0")
    world.cluster.disconnected, world.cluster.complete = frozenset(), False
    with pytest.raises(Refused, match="Mesos has not told yet"):
        await world.maintenance.mark_drained("host0")
    world.cluster.complete = True
    await world.maintenance.mark_drained("host0")
    assert await world.step() and world.stored() == {"host0": S.DOWN}


@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_every_step_survives_lost_answers_and_a_new_leader(world: World, failures: int) -> None:
    async def settle() -> None:
        world.master.away = failures
        for _ in range(failures + 1):
            if await world.step():
                break
            await world.restart()
        assert await world.step()

    await world.maintenance.start(["host0", "host1"])
    await settle()
    assert world.hosts.table.life_of("host0") is S.DRAINING
    await world.maintenance.mark_drained("host0")
    await world.restart()
    await settle()
    assert world.stored() == {"host0": S.DOWN, "host1": S.DRAINING}
    assert world.master.machines == {HOST: True, Machine("host1", "10.0.0.1"): False}
    world.master.away = failures
    await world.maintenance.complete(["host0"])
    await world.restart()
    await settle()
    assert world.stored() == {"host1": S.DRAINING}
    assert world.master.machines == {Machine("host1", "10.0.0.1"): False}


async def test_a_master_that_has_forgotten_is_brought_to_the_records(world: World) -> None:
    await world.maintenance.start(["host0", "host1"])
    await world.maintenance.mark_drained("host0")
    await world.step()
    world.master.machines.clear()
    assert await world.step()
    assert world.master.machines == {HOST: True, Machine("host1", "10.0.0.1"): False}


async def test_a_repeated_start_changes_nothing(world: World) -> None:
    await world.maintenance.start(["host0"])
    before = world.store.rows["host0"]
    world.clock.advance(5.0)
    first, second = await world.maintenance.start(["host0", "host1"])
    assert (first.new, first.record, second.new) == (False, before, True)


@pytest.mark.parametrize(
    ("hostnames", "error", "text"),
    [
        (["nosuch"], Conflict, "host nosuch is unknown: .* 3 hosts are, such as host0, host1, host2"),
        (["host0", "nosuch"], Conflict, "host nosuch is unknown"),
        (["away"], Conflict, "host away is not connected to the Mesos master at the moment"),
        (["host0", ""], InvalidArgument, "hostname: '' is not the name of a host"),
        ([], InvalidArgument, "hostname: '' is not the name of a host"),
    ],
)
async def test_hosts_that_cannot_start(
    world: World, hostnames: list[str], error: type[PelotonError], text: str
) -> None:
    world.cluster.disconnected = frozenset({"away"})
    with pytest.raises(error, match=text):
        await world.service.StartMaintenance(
            host_svc_pb2.StartMaintenanceRequest(hostnames=hostnames), NOTHING
        )
    assert not world.store.rows, "of several hosts, none starts"


async def test_a_host_that_has_just_registered_is_known(world: World) -> None:
    world.registering["S9"] = Agent("S9", "host9", ip="10.0.0.9")
    await world.maintenance.start(["host9"])
    assert world.stored() == {"host9": S.DRAINING}


async def test_nothing_starts_before_the_hosts_are_known(world: World) -> None:
    world.cluster.known = False
    with pytest.raises(Unavailable, match="not read yet"):
        await world.maintenance.start(["host0"])


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (S.UNKNOWN, "host nosuch is unknown"),
        (S.UP, "host host0 is UP, not DOWN"),
        (S.DRAINING, "host host0 is DRAINING, not DOWN: 1 task is left"),
        (S.DRAINED, "host host0 is DRAINED, not DOWN"),
    ],
)
async def test_only_a_host_that_is_down_comes_back(world: World, state: HostState, text: str) -> None:
    name = "nosuch" if state is S.UNKNOWN else "host0"
    if state in (S.DRAINING, S.DRAINED):
        await world.maintenance.start(["host0"])
    if state is S.DRAINED:
        await world.maintenance.mark_drained("host0")
    if state is S.DRAINING:
        world.runs.put("r-0-1", "S0")
    with pytest.raises(NotFound, match=text):
        await world.service.CompleteMaintenance(
            host_svc_pb2.CompleteMaintenanceRequest(hostname=name), NOTHING
        )


async def test_a_host_that_is_being_brought_up(world: World) -> None:
    await world.maintenance.start(["host0"])
    await world.maintenance.mark_drained("host0")
    await world.step()
    world.master.away = 1
    await world.maintenance.complete(["host0"])
    assert (await world.query())["host0"] == "DOWN UP"
    with pytest.raises(Conflict, match="host host0 is being brought up at the moment"):
        await world.maintenance.start(["host0"])
    await world.maintenance.complete(["host0"])
    assert (await world.query())["host0"] == "UP UP"


async def test_v1alpha_serves_the_same(world: World) -> None:
    service = HostServiceV1Alpha(world.cluster, world.maintenance, world.pools)
    answer = await service.StartMaintenance(svc_v1alpha.StartMaintenanceRequest(hostname="host0"), NOTHING)
    assert answer.hostname == "host0"
    draining = svc_v1alpha.QueryHostsRequest(host_states=[host_v1alpha.HOST_STATE_DRAINING])
    found = await service.QueryHosts(draining, NOTHING)
    (host,) = found.host_infos
    assert (host.hostname, host.ip, host.state, host.goal_state) == ("host0", "10.0.0.0", 3, 5)
    assert [(label.key, label.value) for label in host.labels] == [("rack", "r")]
    with pytest.raises(NotFound):
        await service.CompleteMaintenance(svc_v1alpha.CompleteMaintenanceRequest(hostname="host0"), NOTHING)


async def test_draining_hosts_in_the_order_in_which_they_began(world: World) -> None:
    for name in ("host2", "host0"):
        await world.maintenance.start([name])
        world.clock.advance(1.0)
    assert world.maintenance.hosts.hosts_in(S.DRAINING) == ["host2", "host0"]
    assert world.maintenance.hosts.hosts_in(S.DRAINING, 1) == ["host2"]
