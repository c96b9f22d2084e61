"""Gangs among a stream of small tasks: each starts within a bound, and backfill delays none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostmgr.core.claims.claim import Claim
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.reservations.queue import Progress, ReservationLimits, Reservations
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.runs.run_info import RunInfo, vector
from hostmgr.core.state.feasibility import GangShape, Members
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.states import ClaimState
from hostmgr.core.state.table import HostTable
from peloton.model.resources import Resources
from tests.property.hostmgr import invariants
from tests.unit.hostmgr.hosts import agent, offer

CPUS = 4
LONGEST = 12
"""Seconds that a small task runs at most."""
MARGIN = 1.0
SMALL = HostFilter(Resources.of(1, 10))
WHOLE = HostFilter(Resources.of(CPUS, 10))


@dataclass
class World:
    """Hosts that are offered again after each change, and tasks that end by themselves."""

    size: int
    seed: int
    honest: float
    """The share of small tasks whose longest time is known."""
    now: float = 0.0
    ends: dict[str, tuple[float, str, int]] = field(default_factory=dict)
    """By run: when it ends, its agent and cpus."""
    placed: dict[str, float] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)
    expected: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    in_steps: bool = False
    """Whether plans are made in steps, as between other work."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.hosts, self.runs = Hosts(HostTable(room=1)), Runs()
        self.it = Reservations(self.hosts, self.runs, ReservationLimits(backfill_margin=MARGIN, lease=3))
        self.hosts.set_agents([agent(number, cpu=CPUS) for number in range(self.size)])
        for number in range(self.size):
            self.offer(f"S{number}")

    def ids(self) -> Iterator[str]:
        return (f"c{number}" for number in self.numbers)

    def offer(self, agent_id: str) -> None:
        for old in self.hosts.offers.of(agent_id):
            self.hosts.offers.remove(old.id)
        cpu = CPUS - sum(used for _, where, used in self.ends.values() if where == agent_id)
        assert cpu >= 0, "no host is over its capacity"
        if cpu:
            self.hosts.add_offer(offer(next(self.numbers), int(agent_id[1:]), cpu=cpu), self.now)

    def launch(self, claim: Claim, cpu: int, lasts: float, info: RunInfo | None) -> None:
        run = f"run-{next(self.numbers)}"
        self.runs.launched(run, claim.agent_id)
        if info is not None:
            self.runs.learn(run, info)
        self.ends[run] = (self.now + lasts, claim.agent_id, cpu)
        self.hosts.claims.release(claim.id)
        self.offer(claim.agent_id)

    def small(self) -> bool:
        """Place a small task, on a reserved host if it ends in time; return whether there was room."""
        lasts = self.random.randint(1, LONGEST)
        longest = lasts + self.random.randint(0, LONGEST - lasts)
        honest = self.random.random() < self.honest
        opened = self.it.open_for(longest, self.now) if honest else frozenset()
        want = HostFilter(SMALL.minimum, max_hosts=1, opened=opened)
        claims = self.hosts.claims.acquire(
            want, self.ids(), self.now, "", self.now + longest if honest else None
        ).claims
        info = RunInfo(vector(SMALL.minimum, False), self.now + longest) if honest else None
        for claim in claims:
            self.launch(claim, 1, lasts, info)
        return bool(claims)

    def end_tasks(self) -> None:
        for run, (end, agent_id, _) in list(self.ends.items()):
            if end <= self.now:
                del self.ends[run]
                self.runs.remove(run)
                self.offer(agent_id)

    def gang(self, name: str, size: int) -> Progress:
        """Renew the reservation of a gang of tasks that take a host each; place it once it has its hosts."""
        self.it.renew(name, GangShape((Members(WHOLE, size),)), self.now)
        if self.in_steps:
            for _ in self.it.replan_steps(self.now):
                pass
        else:
            self.it.replan(self.now)
        progress = self.it.progress(name, self.ids(), self.now)
        if progress.claims:
            assert len(progress.claims) == size, "all or none"
            self.placed[name] = self.now
            for claim in progress.claims:
                self.launch(claim, CPUS, LONGEST, RunInfo(vector(WHOLE.minimum, False), self.now + LONGEST))
        return progress

    def check(self) -> None:
        """Each reservation has hosts for its whole gang or none, and no host is reserved for two."""
        held: dict[str, set[str]] = {}
        for row in self.hosts.table.rows():
            agent_id = self.hosts.table.agent_ids[row]
            name = self.hosts.reserved.holder(agent_id)
            assert (self.hosts.table.claim(row) is ClaimState.RESERVED) == bool(name)
            if name:
                held.setdefault(name, set()).add(agent_id)
        invariants.check(self.hosts)
        assert {name: len(agents) for name, agents in held.items()} == {
            name: self.sizes[name] for name in held
        }

    def step(self, gangs: dict[str, int]) -> None:
        """Go on by a second: tasks end, gangs ask, and small tasks take all that they can get."""
        self.now += 1
        self.sizes.update(gangs)
        self.end_tasks()
        self.it.expire(self.now)
        for name, size in gangs.items():
            if name not in self.placed:
                progress = self.gang(name, size)
                if progress.start is not None:
                    before = self.expected.setdefault(name, progress.start)
                    self.expected[name] = min(before, progress.start)
        while self.small():
            pass
        self.check()


worlds = st.builds(
    World, size=st.integers(1, 5), seed=st.integers(0, 10**6), honest=st.sampled_from((0.0, 0.5, 1.0))
)


@settings(max_examples=60, deadline=None)
@given(worlds, st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_gangs_start_within_a_bound_among_small_tasks_without_end(world: World, sizes: list[int]) -> None:
    gangs = {f"g{number}": min(size, world.size) for number, size in enumerate(sizes)}
    for _ in range(LONGEST):
        world.step({})
    asked = world.now
    while len(world.placed) < len(gangs):
        world.step(gangs)
        # Each gang waits for the tasks that ran when its hosts were reserved, or for the gang before it.
        assert world.now <= asked + (len(gangs) + 1) * (LONGEST + 2), world.placed
    world.step({})
    assert not any(world.hosts.reserved.holder(f"S{number}") for number in range(world.size))


@settings(max_examples=60, deadline=None)
@given(worlds, st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_plans_that_are_made_at_once_are_those_that_are_made_in_steps(world: World, sizes: list[int]) -> None:
    gangs = {f"g{number}": min(size, world.size) for number, size in enumerate(sizes)}
    other = World(world.size, world.seed, world.honest, in_steps=True)
    for second in range(2 * LONGEST):
        for each in (world, other):
            each.step(gangs if second > 3 else {})
        holders = [
            [each.hosts.reserved.holder(f"S{number}") for number in range(each.size)]
            for each in (world, other)
        ]
        assert holders[0] == holders[1] and world.placed == other.placed and world.expected == other.expected


@settings(max_examples=60, deadline=None)
@given(worlds, st.integers(1, 5))
def test_backfill_never_delays_the_expected_start(world: World, size: int) -> None:
    world.honest, gangs = 1.0, {"g": min(size, world.size)}
    for _ in range(LONGEST):
        world.step({})
    while not world.placed:
        world.step(gangs)
        assert "g" in world.placed or world.now <= world.expected["g"]
    assert world.placed["g"] <= world.expected.get("g", world.now)


def test_without_reservations_the_gang_starves() -> None:
    """The stream alone keeps the gang away: the other tests can fail."""
    world = World(2, 1, 0.0)
    for _ in range(200):
        world.step({})
        assert not world.hosts.claims.acquire(WHOLE, world.ids(), world.now).claims


@given(worlds, st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_a_gang_that_goes_away_frees_its_hosts_at_once(world: World, size: int) -> None:
    for _ in range(LONGEST):
        world.step({})
    world.step({"g": min(size, world.size)})
    world.it.cancel(["g"])
    assert not len(world.it)
    assert not any(world.hosts.reserved.holder(f"S{number}") for number in range(world.size))
    world.check()


def test_a_reservation_that_is_not_renewed_ends() -> None:
    world = World(2, 7, 0.0)
    for _ in range(LONGEST):
        world.step({})
    world.step({"g": 2})
    assert len(world.it) == 1
    for _ in range(3):
        world.step({})
    assert not len(world.it)
    world.check()


def test_reserved_hosts_are_used_until_the_gang_starts() -> None:
    """One host is busy for long; the others are reserved, and tasks that end in time go on there."""
    world = World(3, 3, 1.0)
    (claim, *others) = world.hosts.claims.acquire(WHOLE, world.ids(), 0.0).claims
    for other in others:
        world.hosts.claims.release(other.id)
    world.launch(claim, CPUS, 100, RunInfo(vector(WHOLE.minimum, False), 100))
    world.step({"g": 3})
    assert world.expected["g"] == 100
    used = []
    while not world.placed:
        world.step({"g": 3})
        used.append(len(world.ends))
    assert world.placed["g"] == 100
    assert used[10] == 1 + 2 * CPUS, "both free hosts are full of small tasks"


@pytest.mark.parametrize("sizes", [(2, 2), (2, 1)])
def test_the_older_of_two_gangs_comes_first(sizes: tuple[int, int]) -> None:
    world = World(2, 5, 0.5)
    for _ in range(LONGEST):
        world.step({})
    world.step({"older": sizes[0]})
    while len(world.placed) < 2:
        world.step({"younger": sizes[1], "older": sizes[0]})
    assert world.placed["older"] < world.placed["younger"]


def test_small_reservations_leave_half_of_the_hosts_to_others() -> None:
    world = World(6, 9, 0.0)
    for _ in range(LONGEST):
        world.step({})
    for name in ("a", "b", "c", "d", "e"):
        world.it.renew(name, GangShape((Members(WHOLE, 1),)), world.now)
    world.it.replan(world.now)
    assert sum(bool(world.hosts.reserved.holder(f"S{number}")) for number in range(6)) == 3
    assert world.it.progress("e", world.ids(), world.now).parts == ()


def test_a_gang_is_claimed_whole_or_not_at_all_when_a_host_is_lost_after_the_plan() -> None:
    world = World(3, 1, 0.0)
    world.it.renew("g", GangShape((Members(WHOLE, 2),)), world.now)
    world.it.replan(world.now)
    reserved = [f"S{number}" for number in range(3) if world.hosts.reserved.holder(f"S{number}")]
    assert len(reserved) == 2
    world.hosts.remove_agent(reserved[0])
    assert world.it.progress("g", world.ids(), world.now).claims == ()
    assert reserved[1] not in world.hosts.claims
    world.it.replan(world.now)
    claims = world.it.progress("g", world.ids(), world.now).claims
    assert len(claims) == 2 and reserved[0] not in {claim.agent_id for claim in claims}
    invariants.check(world.hosts)
