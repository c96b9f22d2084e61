"""Moves of hosts between pools: which hosts go, the steps of each, and the death of a leader between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.pools.moves import HostFacts, MoveRequest, Step, next_step, plan_move
from hostmgr.core.pools.moving_hosts import MovingHosts
from hostmgr.core.state.host_pools import HostPools
from hostmgr.drivers.host_mover import HostMover
from hostmgr.drivers.maintenance import Maintenance
from peloton.errors import Conflict, InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.model.host import HostInfo
from peloton.model.host_pool import PooledHost, StoredHostPools
from peloton.model.states import HostState
from tests.interpreted import interpreted
from tests.unit.hostmgr.hosts import agent
from tests.unit.hostmgr.pools import PoolStore, World

pytestmark = interpreted

S = HostState
IDLE = HostFacts(S.UP, registered=True, busy=False)
BUSY = replace(IDLE, busy=True)


def stored(**hosts: str) -> HostPools:
    """Pools a and b; each host in the pool given, or in two where it is being moved: `a>b`."""
    rows = [PooledHost(name, *pool.split(">")) for name, pool in hosts.items()]
    return HostPools(StoredHostPools(("a", "b"), tuple(rows)))


def planned(
    pools: HostPools, hosts: dict[str, HostFacts], by_cost: list[str], left: int, right: int
) -> list[str]:
    return plan_move(MoveRequest("a", left, "b", right), pools, hosts, by_cost)


def test_the_cheapest_hosts_go_and_those_without_runs_first() -> None:
    pools = stored(h1="a", h2="a", h3="a", h4="b")
    hosts = {"h1": BUSY, "h2": BUSY, "h3": IDLE, "h4": IDLE}
    cost = ["h2", "h1", "h3"]
    assert planned(pools, hosts, cost, 2, 2) == ["h3"]
    assert planned(pools, hosts, cost, 1, 3) == ["h3", "h2"]
    assert planned(pools, hosts, cost, 0, 4) == ["h3", "h2", "h1"]
    assert planned(pools, hosts, cost, 3, 1) == []


def test_hosts_with_tasks_that_are_not_preemptible_or_out_of_service_stay() -> None:
    pools = stored(h1="a", h2="a", h3="a", h4="a", h5="a")
    hosts = {
        "h1": BUSY,
        "h2": replace(IDLE, state=S.DRAINING),
        "h3": replace(IDLE, registered=False),
        "h4": BUSY,
        "h5": IDLE,
    }
    assert planned(pools, hosts, ["h5", "h4", "h3", "h2"], 3, 2) == ["h5", "h4"]
    with pytest.raises(Refused) as refused:
        planned(pools, hosts, ["h5", "h4", "h3", "h2"], 2, 3)
    assert str(refused.value) == (
        "3 hosts would have to move from a to b, but 2 of 5 can: 1 has tasks that are not preemptible, "
        "1 has maintenance, 1 has no agent at the moment"
    )


def test_hosts_on_their_way_count_where_they_go() -> None:
    pools = stored(h1="a>b", h2="a", h3="b>b")
    hosts = {"h1": replace(IDLE, state=S.DRAINING), "h2": IDLE, "h3": replace(IDLE, state=S.DOWN)}
    assert planned(pools, hosts, ["h2"], 1, 2) == [], "the same request again moves no more"
    assert planned(pools, hosts, ["h2"], 0, 3) == ["h2"]


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (("x", 0, "b", 1), NotFound, "host pool x does not exist; there are default, a, b"),
        (("a", 0, "x", 1), NotFound, "host pool x does not exist"),
        (("a", 1, "a", 1), InvalidArgument, "destinationPool: 'a' is not another pool than sourcePool"),
        (("a", -1, "b", 4), InvalidArgument, "srcPoolDesiredHosts: -1 is not 0 or more"),
        (("a", 4, "b", -1), InvalidArgument, "destPoolDesiredHosts: -1 is not 0 or more"),
        (
            ("a", 1, "b", 3),
            Refused,
            "not enough hosts: host pools a and b have 2 and 1, 3 together; 1 and 3 are wanted, 4 together",
        ),
        (("a", 0, "b", 2), Refused, "hosts are left over: host pools a and b have 2 and 1, 3 together"),
        (("a", 3, "b", 0), Refused, "host pool b has 1 and 0 are wanted: move from b to a instead"),
        (
            ("a", 1, "b", 2),
            Refused,
            "1 host would have to move from a to b, but none of 2 can: 2 have tasks that are not preemptible",
        ),
    ],
)
def test_refusals(request_: tuple[Any, ...], error: type[PelotonError], said: str) -> None:
    hosts = dict.fromkeys(("h1", "h2", "h3"), BUSY)
    with pytest.raises(error) as refused:
        plan_move(MoveRequest(*request_), stored(h1="a", h2="a", h3="b"), hosts, [])
    assert said in str(refused.value)


@given(
    st.dictionaries(st.sampled_from([f"h{n}" for n in range(8)]), st.sampled_from(["a", "b", "a>b", "b>a"])),
    st.data(),
)
def test_a_plan_moves_as_many_as_are_wanted_and_never_a_host_that_must_stay(
    rows: dict[str, str], data: st.DataObject
) -> None:
    pools = stored(**rows)
    facts = st.builds(HostFacts, st.sampled_from([S.UP, S.DOWN]), st.booleans(), st.booleans())
    hosts = {name: data.draw(facts) for name in rows}
    by_cost = data.draw(st.permutations(sorted(rows)))[: data.draw(st.integers(0, len(rows)))]
    there = sum(pools.destination_of(name) == "b" for name in hosts)
    wanted = data.draw(st.integers(0, len(rows)))
    try:
        chosen = planned(pools, hosts, by_cost, len(rows) - wanted, wanted)
    except Refused:
        can = [name for name in by_cost if rows[name] == "a" and hosts[name].registered]
        assert len([name for name in can if hosts[name].state is S.UP]) < wanted - there or wanted < there
        return
    assert len(chosen) == len(set(chosen)) == wanted - there
    for name in chosen:
        assert rows[name] == "a" and name in by_cost
        assert (hosts[name].state, hosts[name].registered) == (S.UP, True)
    left = [name for name in by_cost if name not in chosen and rows[name] == "a"]
    assert not any(hosts[name].busy for name in chosen) or all(
        hosts[name].busy or not hosts[name].registered or hosts[name].state is not S.UP for name in left
    ), "no busy host goes while one without runs could"


@pytest.mark.parametrize(
    ("pool", "state", "goal", "step"),
    [
        ("a", S.UP, S.UP, Step.DRAIN),
        ("a", S.DRAINING, S.DOWN, Step.WAIT),
        ("a", S.DRAINED, S.DOWN, Step.CHANGE_POOL),
        ("a", S.DOWN, S.DOWN, Step.CHANGE_POOL),
        ("a", S.DOWN, S.UP, Step.CHANGE_POOL),
        ("b", S.DRAINING, S.DOWN, Step.WAIT),
        ("b", S.DRAINED, S.DOWN, Step.WAIT),
        ("b", S.DOWN, S.DOWN, Step.BRING_UP),
        ("b", S.DOWN, S.UP, Step.WAIT),
        ("b", S.UP, S.UP, Step.FINISH),
    ],
)
def test_steps(pool: str, state: HostState, goal: HostState, step: Step) -> None:
    assert next_step(PooledHost("h", pool, "b"), state, goal) is step


class Hosts(dict[str, HostInfo]):
    """Maintenance of hosts, as the mover sees it: it is done at once, as far as `limit` allows."""

    def __init__(self) -> None:
        self.records = self
        self.runs: dict[str, list[str]] = {}
        self.started: list[str] = []
        self.unknown: set[str] = set()

    def listed(self, now: float) -> list[HostInfo]:
        return list(self.values())

    def runs_on(self, hostname: str) -> list[str]:
        return list(self.runs.get(hostname, ()))

    def put(self, hostname: str, state: HostState, goal: HostState) -> None:
        self[hostname] = HostInfo(hostname, "", state, goal)

    async def start(self, hostnames: list[str]) -> None:
        for name in hostnames:
            if name in self.unknown:
                raise Conflict(f"host {name} is unknown")
            self.started.append(name)
            self.put(name, S.DRAINING, S.DOWN)

    async def complete(self, hostnames: list[str]) -> None:
        for name in hostnames:
            assert self[name].state is S.DOWN
            del self[name]


class Moving:
    """A leader that moves hosts; `takeover` begins the next one."""

    def __init__(self) -> None:
        self.store, self.maintenance = PoolStore(), Hosts()
        self.by_cost = ["host0", "host1", "host2"]
        self.away = False
        self.takeover()

    def takeover(self) -> None:
        self.world = World(self.store)
        self.world.maintenance.listed = self.maintenance.listed
        self.world.register([agent(number) for number in range(3)])
        self.pools = self.world.manager
        self.mover = HostMover(
            self.pools,
            cast(Maintenance, self.maintenance),
            MovingHosts(cast(Any, self.maintenance), cast(Any, self.world.cluster), score_seconds=0.0),
            self.scores,
        )

    async def scores(self) -> list[str]:
        if self.away:
            raise Unavailable("resmgr is away")
        return self.by_cost

    async def prepare(self) -> None:
        for name in ("a", "b"):
            await self.pools.create(name)
        for number in range(3):
            await self.pools.change(f"host{number}", "", "a")

    def pool(self, hostname: str = "host0") -> tuple[str, str]:
        host = self.pools.pools.host(hostname)
        return host.pool, host.desired


@pytest.fixture
async def moving() -> Moving:
    made = Moving()
    await made.prepare()
    return made


async def test_a_host_is_drained_moved_and_brought_up(moving: Moving) -> None:
    assert await moving.mover.move(MoveRequest("a", 2, "b", 1)) == ["host0"]
    assert moving.pool() == ("a", "b")
    await moving.mover.step()
    await moving.mover.step()
    assert moving.maintenance.started == ["host0"] and moving.pool() == ("a", "b")
    assert await moving.mover.move(MoveRequest("a", 2, "b", 1)) == [], "it is under way"
    moving.maintenance.put("host0", S.DRAINED, S.DOWN)
    await moving.mover.step()
    assert moving.pool() == ("b", "b")
    await moving.mover.step()
    assert moving.maintenance["host0"].state is S.DRAINED, "it is not down yet"
    moving.maintenance.put("host0", S.DOWN, S.DOWN)
    await moving.mover.step()
    assert "host0" not in moving.maintenance
    await moving.mover.step()
    assert moving.pool() == ("b", "")
    assert moving.pools.members() == {"default": [], "a": ["host1", "host2"], "b": ["host0"]}


async def test_the_next_leader_goes_on_after_every_step(moving: Moving) -> None:
    await moving.mover.move(MoveRequest("a", 2, "b", 1))
    for state in (None, S.DRAINED, S.DOWN, S.DOWN, None):
        moving.takeover()
        await moving.pools.load()
        if state is not None and "host0" in moving.maintenance:
            moving.maintenance.put("host0", state, S.DOWN)
        await moving.mover.step()
    assert moving.pool() == ("b", "") and not moving.maintenance
    assert moving.maintenance.started == ["host0"], "it is drained once"


async def test_a_host_on_which_a_task_was_launched_meanwhile_is_not_chosen(moving: Moving) -> None:
    scores = moving.scores

    async def late() -> list[str]:
        found = await scores()
        moving.maintenance.runs["host0"] = ["not preemptible"]
        return found

    moving.mover._scores = late
    assert await moving.mover.move(MoveRequest("a", 2, "b", 1)) == ["host1"]


async def test_a_host_that_cannot_be_drained_now_waits(moving: Moving) -> None:
    moving.maintenance.unknown = {"host0"}
    await moving.mover.move(MoveRequest("a", 1, "b", 2))
    await moving.mover.step()
    assert moving.maintenance.started == ["host1"], "the others go on"
    moving.maintenance.unknown = set()
    await moving.mover.step()
    assert moving.maintenance.started == ["host1", "host0"]


async def test_a_chosen_host_that_got_a_task_that_is_not_preemptible_waits_until_it_has_ended(
    moving: Moving, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader that chose the host died before it was drained."""
    await moving.mover.move(MoveRequest("a", 1, "b", 2))
    moving.takeover()
    await moving.pools.load()
    moving.by_cost = ["host1", "host2"]
    await moving.mover.step()
    await moving.mover.step()
    assert moving.maintenance.started == ["host1"]
    assert caplog.text.count("host0 waits on its way to b: a task there is not preemptible") == 1
    moving.by_cost = ["host1", "host2", "host0"]
    await moving.mover.step()
    assert moving.maintenance.started == ["host1", "host0"]


async def test_a_chosen_host_is_not_drained_while_its_tasks_are_not_known(
    moving: Moving, caplog: pytest.LogCaptureFixture
) -> None:
    await moving.mover.move(MoveRequest("a", 2, "b", 1))
    moving.away = True
    await moving.mover.step()
    assert not moving.maintenance.started
    assert "host0 waits on its way to b: its tasks are not known: resmgr is away" in caplog.text
    moving.away = False
    await moving.mover.step()
    assert moving.maintenance.started == ["host0"]


async def test_without_scores_nothing_moves(moving: Moving) -> None:
    moving.away = True
    with pytest.raises(Unavailable, match="resmgr is away"):
        await moving.mover.move(MoveRequest("a", 2, "b", 1))
    assert not moving.pools.pools.moving()


async def test_a_pool_that_is_deleted_under_a_move(moving: Moving) -> None:
    await moving.mover.move(MoveRequest("a", 2, "b", 1))
    await moving.mover.step()
    await moving.pools.delete("b")
    assert moving.pool() == ("a", "default")
    moving.maintenance.put("host0", S.DOWN, S.DOWN)
    for _ in range(3):
        await moving.mover.step()
    assert moving.pool() == ("default", "") and not moving.maintenance


async def test_a_change_at_once_of_a_host_under_way(moving: Moving) -> None:
    await moving.mover.move(MoveRequest("a", 2, "b", 1))
    await moving.mover.step()
    await moving.pools.change("host0", "a", "b")
    assert moving.pool() == ("b", "b"), "it is still to be brought up"
    moving.maintenance.put("host0", S.DOWN, S.DOWN)
    await moving.mover.step()
    await moving.mover.step()
    assert moving.pool() == ("b", "") and not moving.maintenance


async def test_hosts_are_moved_while_pools_are_not_in_use() -> None:
    world = World(enabled=False)
    moving = MovingHosts(cast(Any, Hosts()), cast(Any, world.cluster))
    mover = HostMover(world.manager, cast(Any, None), moving, cast(Any, None))
    with pytest.raises(NotFound, match="host pool a does not exist; there are default"):
        await mover.move(MoveRequest("a", 2, "b", 1))
