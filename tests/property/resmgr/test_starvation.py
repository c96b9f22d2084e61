"""A large gang is placed in bounded time while small ones keep coming, also more and more of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st

from peloton.model.ids import Run
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from resmgr.core.state.entities import Gang
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import NewTask
from resmgr.core.state.placements import PlacementFailure, Proposal
from tests.unit.resmgr.world import World, kinds, needs

HOSTS, CPUS = 4, 4
BIG = "99999999-9999-4999-8999-999999999999"
LONGEST_TASK = 8
BOUND = 400
"""Simulated seconds: some passes of the queue, tries with their pauses, and the longest small task."""


@dataclass
class Engine:
    """An engine that fills hosts first fit, and keeps hosts free for gangs that ask for a reservation."""

    world: World
    lives: dict[int, int]
    """Seconds that each small instance runs."""
    free: list[int] = field(default_factory=lambda: [CPUS] * HOSTS)
    ends: list[tuple[float, Run, int, int]] = field(default_factory=list)
    held: dict[int, Run] = field(default_factory=dict)
    """Hosts that are kept free, each for a gang, by its first run."""

    def turn(self) -> None:
        """End tasks whose time is over, then place what is ready."""
        world = self.world
        for at, run, host, cpus in [end for end in self.ends if end[0] <= world.now]:
            self.ends.remove((at, run, host, cpus))
            self.free[host] += cpus
            world.scheduler.observe(run, TaskState.SUCCEEDED, world.now)
        world.scheduler.expire(world.now)
        world.admit()
        for gang in sorted(world.dequeue(), key=self._order):
            self._place(gang)
        world.hand_over()

    def _order(self, gang: Gang) -> tuple[bool, float]:
        """Gangs that ask for a reservation come first, the one that waits longest before the others."""
        return not self.world.scheduler.wants_reserved_host(gang), gang.attempts.failed_at

    def _place(self, gang: Gang) -> None:
        world, size = self.world, len(gang.tasks)
        cpus = gang.tasks[0].needs.resources.cpu // 1000
        runs = tuple(task.key for task in gang.tasks)
        wants = world.scheduler.wants_reserved_host(gang)
        if wants and runs[0] not in self.held.values():
            others = [host for host in range(HOSTS) if host not in self.held]
            emptiest = sorted(others, key=lambda host: -self.free[host])[:size]
            self.held.update(dict.fromkeys(emptiest, runs[0]) if len(emptiest) == size else {})
        usable = [h for h in range(HOSTS) if self.free[h] >= cpus and self.held.get(h, runs[0]) == runs[0]]
        chosen = usable[:size] if size > 1 else usable[:1]
        if len(chosen) < size:
            failure = PlacementFailure(runs, "no host fits")
            world.scheduler.propose(world.engine, [], [failure], world.now)
            return
        proposals = [
            Proposal(f"h{host}", f"a{host}", f"o{run}", gang.type, (run,))
            for host, run in zip(chosen, runs, strict=True)
        ]
        assert world.scheduler.propose(world.engine, proposals, [], world.now) == []
        for host, run in zip(chosen, runs, strict=True):
            self.free[host] -= cpus
            life = self.lives.get(run.instance, 1) if run.job_id != BIG else 10**6
            self.ends.append((world.now + life, run, host, cpus))
        self.held = {host: run for host, run in self.held.items() if run != runs[0]}


@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(1, 2),
    lives=st.lists(st.integers(4, LONGEST_TASK), min_size=5, max_size=5),
    backlog=st.integers(8, 30),
)
def test_a_busy_gang_is_placed_in_bounded_time(size: int, lives: list[int], backlog: int) -> None:
    # More than the hosts have: admission does not keep any of them free.
    capacity = Resources.of(HOSTS * CPUS * 3, 10_000, 10_000)
    world = World(limits=Limits(host_reservation=True), capacity=capacity)
    engine = Engine(world, {})
    small = 0
    for second in range(BOUND):
        for _ in range(backlog - sum(map(len, world.queues().all))):
            engine.lives[small] = lives[small % len(lives)]
            world.enqueue(small)
            small += 1
        if second == 10:
            big = [NewTask(BIG, i, 1, needs(CPUS), gang_size=size) for i in range(size)]
            world.scheduler.enqueue(world.pool(), big, world.now)
        world.now += 1
        engine.turn()
        placed = world.scheduler.registry.current(BIG, 0)
        if placed is not None and placed.host:
            event(f"placed after {(second - 10) // 20 * 20} s or a little more")
            return
    raise AssertionError(f"not placed in {BOUND} s: {placed!r}, {placed and placed.reason}")


@settings(max_examples=25, deadline=None)
@given(
    growth=st.integers(13, 25),
    passes=st.sampled_from((0, 1, 7, 40)),
    seconds=st.sampled_from((5.0, 20.0, 1e6)),
    tries=st.integers(1, 3),
    preemptible=st.booleans(),
)
def test_few_others_pass_a_gang_in_a_backlog_that_grows(
    growth: int, passes: int, seconds: float, tries: int, preemptible: bool
) -> None:
    """The pool admits 12 gangs a second at most, and more come; the large one finds no place for long."""
    limits = Limits(passes=passes, passes_seconds=seconds, tries=tries, retry_longest=2.0)
    reserved = World(limits=limits, capacity=Resources.of(12, 10_000, 10_000))
    world = reserved if preemptible else _all_reserved(limits)
    small, admitted, returned_at = 0, 0, 0.0
    passed: list[int] = []
    """How many others were admitted before it, after each return."""
    for second in range(200):
        for _ in range(growth):
            world.enqueue(small, of=needs(1, preemptible=preemptible))
            small += 1
        if second == 5:
            big = NewTask(BIG, 0, 1, needs(1, preemptible=preemptible))
            [large] = world.scheduler.enqueue(world.pool(), [big], world.now)
        world.now += 1
        world.scheduler.expire(world.now)
        world.admit()
        for gang in world.dequeue():
            runs = tuple(task.key for task in gang.tasks)
            if gang.tasks[0].key.job_id == BIG:
                if gang.attempts.tries == 0 and gang.attempts.returns:
                    others, longest = limits.passed_by(gang.attempts.returns)
                    # Others of the same cycle of admission may count, and those that come back.
                    assert admitted <= others + 12, f"{admitted} passed it, {others} may"
                    assert world.now <= returned_at + longest + 2 or not admitted
                    passed.append(admitted)
                world.scheduler.propose(world.engine, [], [PlacementFailure(runs, "no host fits")], world.now)
                if large.state is TaskState.PENDING:
                    admitted, returned_at = 0, world.now
                if world.scheduler.wants_reserved_host(gang):
                    event(f"{len(passed)} returns, {max(passed, default=0) // 20 * 20} passed it or more")
                    return
                continue
            admitted += 1
            placement = Proposal("h", "a", f"o{runs[0]}", gang.type, runs)
            assert world.scheduler.propose(world.engine, [placement], [], world.now) == []
            world.hand_over()
            for run in runs:
                world.scheduler.observe(run, TaskState.SUCCEEDED, world.now)
    raise AssertionError(f"it starves: {large.reason}, {len(passed)} returns, {admitted} passed it since")


def _all_reserved(limits: Limits) -> World:
    pool = PoolConfig("a", "a", "root", kinds(reservation=12))
    return World(pool, limits=limits, capacity=Resources.of(12, 10_000, 10_000))
