"""Several classes of hosts: what some hosts have is no capacity for the tasks that may not go there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from peloton.model.host_class import HostClass
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, ZERO, Resources
from peloton.model.states import TaskState, TaskType
from resmgr.core.explain.queue_reasons import explain
from resmgr.core.monitoring.figures import queues
from resmgr.core.planning.admission import PlannedGangs, plan_admission
from resmgr.core.preemption.decide import Rules
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.state.classes import ClassCapacities, ClassCapacity
from resmgr.core.state.entities import Task
from resmgr.core.state.needs import Needs, NewTask
from resmgr.core.state.placements import Proposal
from tests.unit.resmgr.world import JOB, World, needs, whole

S = TaskState
PLAIN, GPU = HostClass(), HostClass(gpu=True)
MANY = 10**9


def host(cpu: float, gpu: float = 0) -> Resources:
    return Resources.of(cpu, 1000 * cpu, 1000 * cpu, gpu)


def pool(name: str, reservation: float = 0, limit: float = 1000, gpus: float = 0) -> PoolConfig:
    """Of cpu as given, of gpu as much as `gpus` reserved; memory and disk without bounds."""
    kinds = {kind: KindConfig(0, MANY) for kind in KINDS}
    kinds["cpu"] = KindConfig(round(1000 * reservation), round(1000 * limit))
    kinds["gpu"] = KindConfig(round(1000 * gpus), MANY)
    return PoolConfig(name, name, "root", kinds)


def capacities(**hosts: Resources) -> dict[HostClass, ClassCapacity]:
    of = {"plain": PLAIN, "gpu": GPU}
    return {of[name]: ClassCapacity(amounts) for name, amounts in hosts.items()}


def set_capacity(world: World, classes: ClassCapacities) -> None:
    whole_cluster = Resources()
    for has in classes.values():
        whole_cluster += has.normal
    world.scheduler.set_capacity(whole_cluster, ZERO, classes)


def made(classes: ClassCapacities, *pools: PoolConfig) -> World:
    world = World(*pools, capacity=None)
    set_capacity(world, classes)
    return world


def gpu_task(cpu: float = 1, gpus: float = 1) -> Needs:
    return Needs(Resources.of(cpu, 1, 1, gpus), preemptible=True)


def queue(world: World, pool_id: str, count: int, of: Needs) -> None:
    job = f"{pool_id} {of.resources.gpu}"
    for instance in range(count):
        world.enqueue(instance, of=of, pool=pool_id, job=job)


def fill(world: World, pool_id: str, count: int, of: Needs) -> None:
    queue(world, pool_id, count, of)
    world.admit()


def admitted(world: World, pool_id: str) -> int:
    return sum(task.state is not S.PENDING for task in world.scheduler.registry if task.pool.id == pool_id)


def two_hosts() -> World:
    """A host of 8 cpus and one of 8 cpus with 4 GPUs; pools with 8 cpus reserved each."""
    return made(capacities(plain=host(8), gpu=host(8, 4)), pool("a", 8), pool("b", 8))


def test_cpu_of_gpu_hosts_is_no_capacity_for_other_tasks() -> None:
    world = two_hosts()
    queue(world, "a", 16, needs())
    queue(world, "b", 8, needs())
    world.scheduler.entitle()
    world.admit()
    assert (admitted(world, "a"), admitted(world, "b")) == (4, 4), "each has half of what both could use"
    assert [world.pool(name).usable()[0] for name in "ab"] == [4000, 4000], "shown as it can be used"
    fill(world, "b", 4, gpu_task(cpu=2))
    assert world.cpu("b") == 12
    assert [world.pool(name).usable()[0] for name in "ab"] == [8000, 8000], "b has its reservation with GPUs"


def test_a_gang_that_waits_for_gpu_hosts_blocks_no_other_one() -> None:
    world = two_hosts()
    fill(world, "a", 3, gpu_task(cpu=3))
    assert admitted(world, "a") == 2
    fill(world, "a", 4, needs())
    assert admitted(world, "a") == 6
    [waiting] = [task for task in world.scheduler.registry if task.state is S.PENDING]
    assert (
        waiting.reason
        == "cpu: allocation 6 cores + gang 3 cores > entitlement 8 cores in /a on hosts with GPUs"
    )
    [explained] = explain(world.scheduler, [waiting])
    assert explained.check is not None
    assert explained.check.hosts == "hosts with GPUs"
    assert {(share.hosts, share.pool, share.entitlement) for share in explained.shares} == {
        ("hosts with GPUs", "/a", 8000),
        ("hosts with GPUs", "/", 8000),
    }
    [pending] = [each for each in queues(world.scheduler, world.pool("a"), 0, 10) if each.length]
    assert [each.gang.tasks[0] for each in pending.gangs] == [waiting]


def test_the_first_gang_in_line_gets_the_reservation_of_its_pool() -> None:
    """Another pool is entitled to the rest of both classes."""
    world = made(capacities(plain=host(8), gpu=host(8, 8)), pool("a", 4), pool("b", 12))
    fill(world, "b", 8, needs())
    fill(world, "b", 8, gpu_task())
    world.enqueue(0, of=gpu_task(cpu=4), pool="a", job="first")
    world.now += 1
    fill(world, "a", 8, needs())
    world.scheduler.entitle()
    [of_gpu, plain] = (world.pool("a").in_class(of).entitlement[0] for of in (GPU, PLAIN))
    assert (of_gpu, plain) == (4000, 0)


def test_a_limit_holds_over_all_classes() -> None:
    world = made(capacities(plain=host(8), gpu=host(8, 8)), pool("a", 0, limit=6), pool("b"))
    fill(world, "a", 8, gpu_task())
    fill(world, "a", 8, needs())
    assert world.cpu("a") == 6


def test_a_gang_larger_than_the_hosts_that_it_may_use_is_set_aside() -> None:
    world = two_hosts()
    [task] = world.enqueue(0, of=needs(9))
    world.admit()
    assert task.reason == (
        "needs 9 cores at a time; hosts without GPUs have 8 cores; waits for a cluster with at least 9 cores"
    )
    set_capacity(world, capacities(plain=host(16), gpu=host(8, 4)))
    world.admit()
    assert task.state is S.READY


def test_a_gang_of_several_classes_counts_in_each() -> None:
    world = two_hosts()
    gang = [NewTask(JOB, 0, 1, needs(2)), NewTask(JOB, 1, 1, gpu_task(cpu=3))]
    world.scheduler.enqueue(world.pool("a"), gang, world.now)
    world.admit()
    parts = {of: part.used[0] for of, part in world.pool("a").parts.items()}
    assert parts == {PLAIN: 2000, GPU: 3000}
    assert world.task(0).state is world.task(1).state is S.READY


def test_tasks_are_counted_anew_when_the_first_gpu_host_comes_and_the_last_goes() -> None:
    world = made(capacities(plain=host(16)), pool("a", 8), pool("b", 8))
    assert world.scheduler.tree.classes is None
    fill(world, "a", 20, needs())
    fill(world, "b", 3, gpu_task())
    set_capacity(world, capacities(plain=host(16), gpu=host(8, 2)))
    world.admit()
    assert Counter(task.state for task in world.scheduler.registry if task.pool.id == "b") == {
        S.READY: 2,
        S.PENDING: 1,
    }
    check_sums(world)
    set_capacity(world, capacities(plain=host(16)))
    world.admit()
    assert world.scheduler.tree.classes is None
    assert world.pool("a").parts == {}
    assert all(task.gang is not None for task in world.scheduler.registry)


def test_a_class_without_tasks_comes_and_goes() -> None:
    world = two_hosts()
    fill(world, "a", 4, needs())
    more = HostClass(exclusive="x")
    set_capacity(world, {**capacities(plain=host(8), gpu=host(8, 4)), more: ClassCapacity(host(4))})
    assert world.pool("a").parts.keys() == {PLAIN, GPU, more}
    set_capacity(world, {**capacities(plain=host(8)), more: ClassCapacity(host(4))})
    assert world.pool("a").parts.keys() == {PLAIN, more}
    fill(world, "b", 1, gpu_task())
    world.admit()
    check_sums(world)


def check_sums(world: World) -> None:
    """The parts of each pool add up to the pool."""
    for each in world.scheduler.tree:
        for name in ("used", "slack", "demand", "slack_demand"):
            summed = [sum(getattr(part, name)[i] for part in each.parts.values()) for i in range(4)]
            assert summed == getattr(each, name), (each.path, name)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (HostClass(), HostClass(pool="stateless")),
        (HostClass(pool="shared"), HostClass(pool="shared")),
        (HostClass(gpu=True, pool="shared"), HostClass(gpu=True, pool="shared")),
        (HostClass(exclusive="x", pool="shared"), HostClass(exclusive="x,y", pool="shared")),
        (HostClass(pool="nowhere"), HostClass(pool="stateless")),
    ],
)
def test_the_class_of_a_task(asked: HostClass, expected: HostClass) -> None:
    hosts = {
        HostClass(pool="stateless"): 9,
        HostClass(pool="shared"): 4,
        HostClass(gpu=True, pool="shared"): 20,
        HostClass(exclusive="x,y", pool="shared"): 30,
    }
    world = World(capacity=None)
    set_capacity(world, {of: ClassCapacity(host(cpu, 4 * of.gpu)) for of, cpu in hosts.items()})
    classes = world.scheduler.tree.classes
    assert classes is not None
    assert classes.of(asked) == expected
    assert classes.name(HostClass(gpu=True, pool="shared")) == "hosts in host pool shared with GPUs"


def test_a_plan_counts_with_the_hosts_that_tasks_may_use() -> None:
    world = two_hosts()
    fill(world, "b", 8, needs())
    of_plain = PlannedGangs(needs().charge, 0, TaskType.BATCH, 10)
    of_gpu = PlannedGangs(gpu_task().charge, 0, TaskType.BATCH, 10)
    plain, gpu = plan_admission(world.scheduler, world.pool("a"), [of_plain, of_gpu]).groups
    assert (plain.count, gpu.count) == (0, 4)
    assert plain.reason.endswith("in /a on hosts without GPUs")


# The world of the acceptance: under full demand each pool gets its reservation of what its tasks can use.


def twelve_hosts() -> World:
    """Three of twelve hosts have 4 GPUs; two of eight pools are for GPUs. All has been given to one pool."""
    return made(
        capacities(plain=host(72), gpu=host(24, 12)),
        pool("greedy"),
        *(pool(f"cpu{i}", reservation) for i, reservation in enumerate((20, 12, 8, 8, 4))),
        pool("gpu0", 12, gpus=6),
        pool("gpu1", 6, gpus=3),
    )


RESERVED = {"cpu0": 20, "cpu1": 12, "cpu2": 8, "cpu3": 8, "cpu4": 4, "gpu0": 6, "gpu1": 3}
"""Tasks of one cpu each, or of two cpus and a GPU."""


def run_admitted(world: World) -> None:
    """Let all admitted gangs run, each on a host of its class. The hosts must have room."""
    while gangs := world.dequeue(1000):
        for gang in gangs:
            for task in gang.tasks:
                at = f"{task.key.job_id}-{task.instance}"
                world.scheduler.propose(world.engine, [proposal_of(task, at)], [], world.now)
        world.hand_over(1000)
        for task in tasks_in(world, S.LAUNCHING):
            world.scheduler.observe(task.key, S.RUNNING, world.now)
    held = Counter[HostClass]()
    for task in world.scheduler.registry:
        if task.state is not S.PENDING:
            held[HostClass(gpu=task.needs.resources.gpu > 0)] += task.needs.resources.cpu
    assert held[PLAIN] <= 72_000
    assert held[GPU] <= 24_000, "placement would find no host"


def proposal_of(task: Task, at: str) -> Proposal:
    return Proposal(at, f"agent-{at}", f"offer-{at}", TaskType.BATCH, (task.key,))


def tasks_in(world: World, state: TaskState) -> Iterator[Task]:
    return iter([task for task in world.scheduler.registry if task.state is state])


def test_each_pool_runs_its_reservation_within_two_preemption_periods() -> None:
    world = twelve_hosts()
    rules = Rules(strikes=2)
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, rules)
    fill(world, "greedy", 100, needs())
    fill(world, "greedy", 20, gpu_task(cpu=2))
    run_admitted(world)
    assert world.cpu("greedy") == 96
    for name, count in RESERVED.items():
        fill(world, name, 2 * count, gpu_task(cpu=2) if name.startswith("gpu") else needs())
    for _ in range(2 * rules.strikes):
        world.later(60.0)
        whole(preemptor.steps(world.now))
        for task in preemptor.take(1000):
            world.scheduler.observe(task.key, S.KILLED, world.now)
        world.admit()
        run_admitted(world)
    running = Counter(task.pool.id for task in tasks_in(world, S.RUNNING))
    assert {name: min(count, running[name]) for name, count in RESERVED.items()} == RESERVED
    check_sums(world)
