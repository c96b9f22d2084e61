"""No gang waits for ever in an idle cluster, and none takes what others can use."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import event, given, settings
from hypothesis import strategies as st

from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, ZERO, Resources
from peloton.model.states import TaskState
from resmgr.core.entitlement.sharing import entitle
from tests.unit.resmgr.world import World, needs

CORES = 24
FULL = Resources.of(CORES, 1000, 1000, 1)


@dataclass(frozen=True)
class Gang:
    pool: str
    cores: int
    """Of each member."""
    members: int
    priority: int


def tree(draw: st.DrawFn) -> tuple[PoolConfig, ...]:
    """Two pools, the first of them with two below it. All of them elastic, with limits of at least half."""
    first = draw(st.integers(0, CORES))
    cuts = [first, draw(st.integers(0, CORES - first))]
    below = [draw(st.integers(0, cuts[0]))]
    below.append(draw(st.integers(0, cuts[0] - below[0])))
    return (
        _pool(draw, "p", "root", cuts[0], CORES),
        _pool(draw, "b", "root", cuts[1]),
        _pool(draw, "c", "p", below[0]),
        _pool(draw, "d", "p", below[1]),
    )


def _pool(draw: st.DrawFn, name: str, parent: str, reserved: int, limit: int = 0) -> PoolConfig:
    most = limit or draw(st.integers(max(reserved, CORES // 2), CORES))
    share = draw(st.sampled_from([1.0, 1.0, 2.0]))
    kinds = {kind: KindConfig(0, 10**9) for kind in KINDS}
    return PoolConfig(name, name, parent, {**kinds, "cpu": KindConfig(1000 * reserved, 1000 * most, share)})


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[PoolConfig, ...], list[Gang]]:
    pools = tree(draw)
    gangs = st.builds(Gang, st.sampled_from("bcd"), st.integers(1, 6), st.integers(1, 4), st.integers(0, 3))
    return pools, draw(st.lists(gangs, min_size=1, max_size=12))


def build(pools: tuple[PoolConfig, ...], gangs: list[Gang]) -> tuple[World, dict[int, str]]:
    world = World(*pools, capacity=None)
    jobs = {}
    for number, gang in enumerate(gangs):
        jobs[number] = job = f"{number:08d}-1111-4111-8111-111111111111"
        world.now += 1
        pool = world.pool(gang.pool)
        most = min(each.limit[0] for each in pool.ancestors[:-1])
        if 1000 * gang.cores * gang.members <= most:
            of = needs(gang.cores, priority=gang.priority)
            world.enqueue(*range(gang.members), of=of, pool=gang.pool, job=job)
    world.scheduler.set_capacity(FULL, ZERO)
    settle(world)
    return world, jobs


def settle(world: World) -> None:
    for _ in range(30):
        world.later(1.0)


def check_progress(world: World) -> None:
    """No first gang fits what is idle where nobody waits for tasks of its own."""
    scheduler = world.scheduler
    idle = 1000 * CORES - scheduler.tree.root.used[0]
    waiting = [
        (pool, gang)
        for pool, queues in scheduler.pending.active.items()
        for queue in queues.all
        if (gang := queue.head()) is not None
    ]
    entitle(scheduler.tree)
    too_large = [
        any(gang.charge.entitled[0] > each.entitlement[0] for each in pool.ancestors)
        for pool, gang in waiting
    ]
    scheduler.entitle()
    if not all(too_large):
        event("some pool waits for its own tasks")
        return
    for pool, gang in waiting:
        wanted = gang.charge.entitled[0]
        room = min(each.limit[0] - each.used[0] for each in pool.ancestors[:-1])
        assert wanted > min(idle, room), f"{gang.charge} waits in {pool.path}, and {idle} is idle"


@settings(max_examples=60, deadline=None)
@given(cases())
def test_no_gang_waits_while_what_is_idle_is_enough_and_nobody_can_use_it(
    case: tuple[tuple[PoolConfig, ...], list[Gang]],
) -> None:
    world, _ = build(*case)
    for pool in world.scheduler.tree.leaves():
        assert pool.used[0] <= pool.limit[0]
    check_progress(world)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_all_gangs_run_in_the_end(case: tuple[tuple[PoolConfig, ...], list[Gang]]) -> None:
    world, _ = build(*case)
    rounds = 0
    while len(world.scheduler.registry):
        rounds += 1
        assert rounds <= 13, "some gang never runs"
        for task in list(world.scheduler.registry):
            if task.state is not TaskState.PENDING:
                world.scheduler.observe(task.key, TaskState.SUCCEEDED, world.now)
        settle(world)
    event(f"rounds: {rounds}")


@settings(max_examples=60, deadline=None)
@given(cases())
def test_usable_demand_is_given_as_much_as_without_the_rule(
    case: tuple[tuple[PoolConfig, ...], list[Gang]],
) -> None:
    world, _ = build(*case)
    scheduler = world.scheduler
    scheduler.entitle()
    after = {pool.id: pool.entitlement[0] for pool in scheduler.tree.leaves()}
    entitle(scheduler.tree)
    for leaf in scheduler.tree.leaves():
        queues = scheduler.pending.active.get(leaf)
        heads = [gang for queue in queues.all if (gang := queue.head())] if queues else []
        usable = not heads or any(
            all(gang.charge.entitled[0] <= pool.entitlement[0] for pool in leaf.ancestors) for gang in heads
        )
        if usable:
            wanted = leaf.used[0] + leaf.demand[0]
            assert after[leaf.id] >= min(wanted, leaf.entitlement[0]) - 4, leaf
