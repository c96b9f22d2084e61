"""The figures of pools and of the cluster, and the service that reports them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from peloton.api.v0.task import task_pb2
from peloton.clock import ManualClock
from peloton.errors import AlreadyExists, InvalidArgument, NotFound
from peloton.model.ids import Run
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.shortage import Lack, Shortage
from peloton.model.states import TaskState
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.wire.pool import pool_config_to
from resmgr.core.monitoring.figures import infeasible_jobs, oversized_jobs, pool_figures, queues
from resmgr.core.monitoring.shortfalls import Shortfalls
from resmgr.core.planning.pools import plan_pool
from resmgr.core.preemption.policy import Victim
from resmgr.drivers.sampling import Sampler
from resmgr.services.monitoring import MonitoringService
from tests.unit.resmgr.shell import CLIENT, Shell, wire_gang
from tests.unit.resmgr.world import JOB, World, kinds, needs

_S = TaskState
TWO = (
    PoolConfig("p", "p", "root", kinds(reservation=40, limit=90)),
    PoolConfig("a", "a", "p", kinds(limit=80)),
    PoolConfig("b", "b", "p", kinds(limit=80)),
)


def service_of(shell: Shell) -> MonitoringService:
    return MonitoringService(shell.driver, Sampler(shell.driver.scheduler, shell.driver.clock))


def victim(pool: str, benefits: str) -> Victim:
    runs = (Run(JOB, 3, 1), Run(JOB, 4, 1))
    nothing = Resources()
    return Victim(runs, (0, 1), pool, benefits, nothing, nothing, ("cpu",), "cross_pool", "over by 3")


def counted(world: World) -> dict[TaskState, int]:
    return {state: count for state in TaskState if (count := world.scheduler.registry.states[state])}


def test_tasks_are_counted_by_state_on_all_their_ways() -> None:
    world = World()
    registry = world.scheduler.registry

    def check() -> None:
        assert counted(world) == Counter(task.state for task in registry)

    world.launch(0, 1)
    check()
    world.enqueue(2, 3)
    world.enqueue(4, of=needs(cpu=200))
    check()
    world.admit()
    check()
    world.dequeue()
    world.fail(2, 3)
    check()
    world.later(1000)
    world.dequeue()
    world.place(2, 3)
    check()
    world.enqueue(0, run=2)  # the first run is an orphan now
    check()
    world.observe(0, _S.FAILED, run=1)
    world.observe(1, _S.SUCCEEDED)
    world.scheduler.kill(JOB, 4)
    check()
    assert counted(world)[_S.PLACED] == 2
    assert (registry.started, registry.ended) == (2, 2)


def test_a_pool_has_the_sums_of_those_below_it() -> None:
    world = World(*TWO)
    world.launch(0, of=needs(cpu=70))
    world.enqueue(1, of=needs(cpu=20))
    world.enqueue(2, of=needs(cpu=75), pool="b")
    world.admit()
    found = {each.pool.path: each for each in pool_figures(world.scheduler)}
    assert list(found) == ["/", "/p", "/p/a", "/p/b"]
    cpu = {path: (each.allocation[0], each.demand[0]) for path, each in found.items()}
    assert cpu == {
        "/": (70_000, 95_000),
        "/p": (70_000, 95_000),
        "/p/a": (70_000, 20_000),
        "/p/b": (0, 75_000),
    }
    assert {path: (each.tasks, each.waiting) for path, each in found.items()} == {
        "/": (3, 2), "/p": (3, 2), "/p/a": (2, 1), "/p/b": (1, 1),
    }  # fmt: skip


def test_queues_are_listed_in_order_with_the_reasons() -> None:
    world = World(*TWO)
    world.launch(0, of=needs(cpu=70))
    world.enqueue(1, of=needs(cpu=20))
    world.enqueue(2, 3, of=needs(cpu=2))
    world.enqueue(4, of=needs(cpu=1, priority=7))
    world.admit()
    *_, pending, aside = queues(world.scheduler, world.pool(), 0, 2)
    assert (pending.name, pending.length, aside.length) == ("pending", 2, 0)
    shown = [(each.position, each.gang.tasks[0].instance, len(each.gang.tasks)) for each in pending.gangs]
    assert shown == [(1, 1, 1), (2, 2, 2)]
    assert pending.gangs[0].why == "cpu: allocation 71 cores + gang 20 cores > entitlement 80 cores in /p/a"
    assert pending.gangs[1].why
    *_, further, _ = queues(world.scheduler, world.pool(), 1, 2)
    assert [each.position for each in further.gangs] == [2]


def test_gangs_that_are_set_aside_are_listed_last_with_what_they_lack() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    shortage = Shortage(Lack.CONSTRAINT, "no host has the label")
    world.fail(0, shortage=replace(shortage))
    *_, aside = queues(world.scheduler, world.pool(), 0, 10)
    assert (aside.name, aside.length) == ("infeasible", 1)
    assert "no host" in aside.gangs[0].why
    assert pool_figures(world.scheduler)[0].waiting == 1
    [job] = infeasible_jobs(world.scheduler, 20)
    assert (job.job_id, job.pool.path, job.gangs) == (JOB, "/a", 1) and "no host" in job.why


def test_a_gang_that_its_pool_can_never_take_is_listed_while_it_is_the_head() -> None:
    world = World(PoolConfig("p", "p", "root", kinds(reservation=40, limit=90)))
    world.enqueue(0, of=needs(cpu=30, preemptible=False), pool="p")
    world.enqueue(1, of=needs(cpu=39, preemptible=False), pool="p")
    world.admit()
    assert oversized_jobs(world.scheduler, 20) == [], "39 cores can run once 30 have ended"
    world.scheduler.kill(JOB, 1)
    world.enqueue(2, of=needs(cpu=41, preemptible=False), pool="p")
    world.admit()
    [job] = oversized_jobs(world.scheduler, 20)
    assert (job.job_id, job.pool.path) == (JOB, "/p")
    assert job.why == "cpu: non-preemptible allocation 30 cores + gang 41 cores > reservation 40 cores in /p"
    assert oversized_jobs(world.scheduler, 0) == []


async def test_the_service_answers_in_the_units_of_the_kinds(shell: Shell) -> None:
    service = service_of(shell)
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(9), wire_gang(0, cpu=100), wire_gang(1, cpu=0.5))
    cluster = await service.GetCluster(pb.GetClusterRequest(), CLIENT)
    assert (cluster.capacity.cpu, cluster.capacity.memory) == (100, 1000)
    assert [(each.state, each.count) for each in cluster.tasks] == [
        (task_pb2.PENDING, 2),
        (task_pb2.READY, 1),
    ]
    root, leaf = (await service.ListPools(pb.ListPoolsRequest(), CLIENT)).pools
    assert (root.path, root.parent, root.leaf) == ("/", "", False)
    assert (leaf.id, leaf.parent, leaf.leaf, leaf.waiting, leaf.demand.cpu) == (pool, root.id, True, 2, 100.5)
    found = await service.GetQueues(pb.GetQueuesRequest(pool_id=pool), CLIENT)
    [gang, _] = next(queue for queue in found.queues if queue.name == "pending").gangs
    assert (gang.position, gang.job_id.value, gang.asks.cpu) == (1, JOB, 100)
    assert gang.since.startswith("20") and gang.why


async def test_history_is_empty_until_the_first_sample(shell: Shell) -> None:
    pool = await shell.pool()
    sampler = Sampler(shell.driver.scheduler, shell.driver.clock)
    service = MonitoringService(shell.driver, sampler)
    assert not (await service.GetHistory(pb.GetHistoryRequest(pool_id=pool), CLIENT)).series
    await shell.enqueue(pool, wire_gang(9), wire_gang(0, cpu=100))
    sampler.sample()
    answer = await service.GetHistory(pb.GetHistoryRequest(pool_id=pool, hour=True), CLIENT)
    values = {(each.name, each.kind): each.values for each in answer.series}
    assert answer.step == 60 and len(values) == 16
    assert values["demand", "cpu"][-1] == 100 and len(values["demand", "cpu"]) == 60
    day = await service.GetHistory(pb.GetHistoryRequest(), CLIENT)
    newest = {(each.name, each.kind): each.values[-1] for each in day.series}
    assert day.step == 300 and newest["capacity", "cpu"] == 100 and newest["waiting", ""] == 2


async def test_the_rates_are_those_of_the_last_seconds(shell: Shell) -> None:
    clock = ManualClock()
    sampler = Sampler(shell.driver.scheduler, clock)
    service = MonitoringService(shell.driver, sampler)
    registry = shell.driver.scheduler.registry
    for _ in range(20):
        clock.advance(1)
        registry.started += 5
        registry.ended += 2
        sampler.count()
    found = await service.GetCluster(pb.GetClusterRequest(), CLIENT)
    assert (found.started_per_second, found.ended_per_second) == (5, 2)
    clock.advance(40)
    later = await service.GetCluster(pb.GetClusterRequest(), CLIENT)
    assert (later.started_per_second, later.ended_per_second) == (1, 0.4)


async def test_preemptions_are_listed_for_the_victims_pool_and_for_the_one_that_gains(shell: Shell) -> None:
    pool = await shell.pool()
    service = service_of(shell)
    for number, each in enumerate([victim("/a", "/b"), victim("/ab", ""), victim("/c", "/a/x")], 1):
        shell.driver.preempted.note([each], number * 10**9)
    found = await service.GetPreemptions(pb.GetPreemptionsRequest(pool_id=pool), CLIENT)
    assert [(each.pool, each.benefits) for each in found.preemptions] == [("/c", "/a/x"), ("/a", "/b")]
    newest = found.preemptions[0]
    assert (newest.job_id.value, list(newest.instances), newest.size) == (JOB, [3, 4], 2)
    assert newest.time.startswith("1970-01-01T00:00:03") and newest.reason == "over by 3"
    everything = await service.GetPreemptions(pb.GetPreemptionsRequest(limit=2), CLIENT)
    assert [each.pool for each in everything.preemptions] == ["/c", "/ab"]


async def test_unknown_pools_and_large_limits_are_refused(shell: Shell) -> None:
    service = service_of(shell)
    with pytest.raises(NotFound, match="no resource pool has the id 'x'"):
        await service.GetHistory(pb.GetHistoryRequest(pool_id="x"), CLIENT)
    with pytest.raises(InvalidArgument, match="at most 500"):
        await service.GetQueues(pb.GetQueuesRequest(pool_id="x", limit=501), CLIENT)


def test_a_pool_is_short_while_a_gang_waits_that_fits_into_its_reservation() -> None:
    owed = PoolConfig("b", "b", "p", kinds(reservation=20, limit=80))
    world = World(TWO[0], TWO[1], owed)
    world.launch(0, of=needs(cpu=80))
    short = Shortfalls()

    def looked(after: float) -> float:
        short.look(world.scheduler, after)
        return short.seconds("b", after)

    world.enqueue(1, of=needs(cpu=25), pool="b")
    assert looked(1.0) == 0, "more than its reservation is promised to nobody"
    world.enqueue(2, of=needs(cpu=15), pool="b")
    assert looked(2.0) == 0, "the head is what waits"
    world.enqueue(3, of=needs(cpu=15, priority=9), pool="b")
    assert [looked(3.0), looked(13.0), short.seconds("b", 23.0)] == [0, 10, 20]
    assert short.seconds("a", 23.0) == 0
    world.observe(0, _S.SUCCEEDED)
    world.admit()
    assert looked(24.0) == 0
    world.enqueue(4, of=needs(cpu=15, priority=9), pool="b")
    assert looked(25.0) == 0, "15 of 20 cores are held"


async def test_the_service_tells_for_how_long_a_pool_is_short(shell: Shell) -> None:
    clock = ManualClock()
    sampler = Sampler(shell.driver.scheduler, clock)
    service = MonitoringService(shell.driver, sampler)
    everything, owed = await shell.pool(), await shell.pool("b")
    await shell.enqueue(everything, wire_gang(0, cpu=100))
    await shell.enqueue(owed, wire_gang(1, cpu=5))
    for _ in range(3):
        sampler.count()
        clock.advance(1)
    found = (await service.ListPools(pb.ListPoolsRequest(), CLIENT)).pools
    assert {each.path: each.short_seconds for each in found} == {"/": 0, "/a": 0, "/b": 3}


def test_a_plan_of_a_pool_tells_whose_entitlement_changes_and_changes_nothing() -> None:
    world = World(*TWO)
    for pool, instance in (("a", 0), ("b", 1)):
        world.enqueue(instance, of=needs(cpu=70), pool=pool)
    tree = world.scheduler.tree
    world.scheduler.entitle()
    before = {pool.id: pool.entitlement for pool in tree}
    shrunk = replace(tree.get("a").config, kinds=kinds(limit=10))
    found = {each.id: each for each in plan_pool(tree, shrunk)}
    assert set(found) == {"a", "b"}
    amounts = [(found[each].before, found[each].after) for each in ("a", "b")]
    assert [(was and was[0], then[0]) for was, then in amounts] == [(45_000, 10_000), (45_000, 80_000)]
    assert {pool.id: pool.entitlement for pool in tree} == before
    assert tree.get("a").config.kinds["cpu"].limit == 80_000


def test_a_planned_pool_that_is_not_there_yet_is_among_the_effects() -> None:
    world = World(*TWO)
    tree = world.scheduler.tree
    new = PoolConfig("n", "n", "p", kinds(reservation=5, limit=80))
    [effect] = [each for each in plan_pool(tree, new) if each.id == "n"]
    assert (effect.path, effect.before) == ("/p/n", None)
    assert tree.find("n") is None and "n" not in tree.get("p").children
    with pytest.raises(AlreadyExists):
        plan_pool(tree, PoolConfig("n", "a", "p", kinds(limit=80)))
    with pytest.raises(InvalidArgument, match="limit"):
        plan_pool(tree, PoolConfig("n", "n", "p", kinds(limit=91)))


async def test_the_service_plans_pools_in_the_units_of_the_kinds(shell: Shell) -> None:
    service = service_of(shell)
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(9), wire_gang(0, cpu=100))
    wire = pool_config_to(shell.driver.scheduler.tree.get(pool).config)
    wire.resources[0].reservation, wire.resources[0].limit = 0, 30
    [changed] = (await service.PlanPool(pb.PlanPoolRequest(pool_id=pool, config=wire), CLIENT)).pools
    assert (changed.id, changed.after.cpu) == (pool, 30) and changed.before.cpu > 30
    wire.name = "other"
    new = (await service.PlanPool(pb.PlanPoolRequest(config=wire), CLIENT)).pools
    [other] = [each for each in new if not each.id]
    assert other.path == "/other" and not other.HasField("before")
    with pytest.raises(NotFound):
        await service.PlanPool(pb.PlanPoolRequest(pool_id="nobody", config=wire), CLIENT)
    wire.resources[0].kind = "tape"
    with pytest.raises(InvalidArgument, match="tape"):
        await service.PlanPool(pb.PlanPoolRequest(config=wire), CLIENT)
