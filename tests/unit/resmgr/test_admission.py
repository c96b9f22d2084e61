from __future__ import annotations

from dataclasses import replace

from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TaskType
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import Needs
from resmgr.core.state.pending_reasons import Common
from tests.unit.resmgr.world import JOB, World, kinds, needs


def ready(world: World) -> list[int]:
    """Instances of the admitted gangs in order."""
    world.admit()
    return [
        task.instance for queue in world.scheduler.ready.values() for gang in queue for task in gang.tasks
    ]


def queued(world: World, pool: str = "a") -> dict[str, list[int]]:
    return {
        queue.name: [task.instance for gang in queue for task in gang.tasks]
        for queue in world.queues(pool).all
        if queue
    }


def test_gangs_are_admitted_by_priority_until_the_entitlement_is_used() -> None:
    world = World()
    world.enqueue(0, of=needs(60))
    world.enqueue(1, of=needs(50, priority=3))
    world.enqueue(2, of=needs(30, priority=3))
    assert ready(world) == [1, 2]
    assert world.task(0).reason == "cpu: allocation 80 cores + gang 60 cores > entitlement 100 cores in /a"
    assert world.cpu() == 80


def test_each_kind_is_checked_and_the_reason_names_it() -> None:
    for amounts, reason in [
        (Resources.of(1, 1000), "memory: allocation 1 MB + gang 1,000 MB > entitlement 1,000 MB in /a"),
        (Resources.of(1, 1, 1000), "disk: allocation 1 MB + gang 1,000 MB > entitlement 1,000 MB in /a"),
        (Resources.of(gpu=10), "gpu: allocation 1 GPU + gang 10 GPUs > entitlement 10 GPUs in /a"),
        (Resources.of(99, 999, 999, 9), ""),
    ]:
        world = World()
        world.enqueue(9, of=Needs(Resources.of(1, 1, 1, 1), preemptible=True))
        world.enqueue(0, of=Needs(amounts, preemptible=True))
        world.admit()
        assert world.task(0).reason == reason


def test_the_head_blocks_the_gangs_behind_it_and_their_reason_says_so() -> None:
    world = World()
    world.enqueue(9)
    world.enqueue(0, of=needs(100))
    world.enqueue(1)
    assert ready(world) == [9]
    assert world.task(1).reason == "behind earlier gangs in queue pending of /a"
    world.scheduler.kill(JOB, 0)
    assert ready(world) == [9, 1]
    assert world.task(1).reason == ""


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    world = World()
    world.enqueue(9, of=needs(20))
    world.enqueue(0, 1, 2, of=needs(30))
    assert ready(world) == [9]
    assert world.task(2).reason == "cpu: allocation 20 cores + gang 90 cores > entitlement 100 cores in /a"
    world = World()
    world.enqueue(0, 1, 2, of=needs(30))
    assert ready(world) == [0, 1, 2]
    assert world.cpu() == 90


def test_parents_are_bounded_too() -> None:
    world = World(
        PoolConfig("p", "p", "root", kinds(0, 50)),
        PoolConfig("a", "a", "p", kinds(0, 40)),
        PoolConfig("b", "b", "p", kinds(0, 40)),
    )
    world.enqueue(0, of=needs(30))
    assert ready(world) == [0]
    world.scheduler.tree.replace(PoolConfig("p", "p", "root", kinds(0, 25)))
    world.scheduler.entitle()
    world.enqueue(1, of=needs(5), pool="b")
    assert ready(world) == [0]
    assert world.task(1).reason == "cpu: allocation 30 cores + gang 5 cores > entitlement 25 cores in /p"
    assert world.pool("p").allocation()["total"] == world.pool("a").allocation()["total"]


def test_pools_share_what_their_parent_has() -> None:
    world = World(
        PoolConfig("a", "a", "root", kinds()),
        PoolConfig("b", "b", "root", kinds()),
        limits=Limits(cycle_limit=1),
    )
    for instance in range(10):
        world.enqueue(instance, of=needs(20))
        world.enqueue(instance + 10, of=needs(20), pool="b")
    world.admit()
    assert (world.cpu("a"), world.cpu("b")) == (40, 40)


def test_demand_moves_entitlement_from_pool_to_pool() -> None:
    world = World(PoolConfig("a", "a", "root", kinds()), PoolConfig("b", "b", "root", kinds(20)))
    for instance in range(10):
        world.enqueue(instance, of=needs(10))
    world.admit()
    assert world.cpu("a") == 100
    for instance in range(10, 15):
        world.enqueue(instance, of=needs(10), pool="b")
    world.admit()
    assert [world.pool(pool).entitlement[0] for pool in "ab"] == [50_000, 50_000]
    assert world.task(10).reason == "cpu: allocation 100 cores + gang 10 cores > entitlement 100 cores in /"
    for instance in range(5):
        world.observe(instance, TaskState.KILLED)
    world.admit()
    assert (world.cpu("a"), world.cpu("b")) == (50, 50)


def test_entitlement_follows_demand_but_not_at_every_step() -> None:
    world = World(PoolConfig("a", "a", "root", kinds()), PoolConfig("b", "b", "root", kinds()))
    scheduler = world.scheduler
    scheduler.lifecycle.limits = replace(scheduler.limits, sharing_interval=1.0)
    world.enqueue(0, of=needs(60))
    assert ready(world) == [0]
    world.enqueue(1, of=needs(30))
    assert ready(world) == [0]
    world.later(0.9)
    assert ready(world) == [0]
    world.later(0.1)
    assert ready(world) == [0, 1]


def test_non_preemptible_gangs_keep_to_the_reservation_and_step_aside() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(10, 100)))
    world.enqueue(0, of=needs(8, preemptible=False))
    world.enqueue(1, of=needs(8, preemptible=False))
    world.enqueue(2, of=needs(8))
    assert ready(world) == [0, 2]
    assert queued(world) == {"non-preemptible": [1]}
    assert (
        world.task(1).reason
        == "cpu: non-preemptible allocation 8 cores + gang 8 cores > reservation 10 cores in /a"
    )
    world.observe(0, TaskState.KILLED)
    assert ready(world) == [2, 1]


def test_without_preemption_non_preemptible_gangs_may_have_the_whole_entitlement() -> None:
    world = World(limits=Limits(preemption=False))
    world.enqueue(0, of=needs(80, preemptible=False))
    assert ready(world) == [0]


def test_controllers_keep_to_their_limit_and_step_aside() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(50, 100), controller_limit_percent=10))
    world.enqueue(0, of=needs(4, controller=True))
    world.enqueue(1, of=needs(2, controller=True))
    world.enqueue(2, of=needs(2))
    assert ready(world) == [0, 2]
    assert queued(world) == {"controller": [1]}
    assert (
        world.task(1).reason
        == "cpu: controller allocation 4 cores + gang 2 cores > controller limit 5 cores in /a"
    )


def test_a_controller_does_not_block_other_non_preemptible_gangs() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(50, 100), controller_limit_percent=10))
    world.enqueue(0, of=needs(49, preemptible=False))
    world.enqueue(1, of=needs(6, preemptible=False, controller=True))
    world.enqueue(2, of=needs(2, preemptible=False))
    assert ready(world) == [0]
    assert queued(world) == {"controller": [1], "non-preemptible": [2]}
    world.observe(0, TaskState.FAILED)
    assert ready(world) == [2]
    world = World(PoolConfig("a", "a", "root", kinds(50, 100)))
    world.enqueue(0, of=needs(60, preemptible=False, controller=True))
    world.enqueue(1, of=needs(60, preemptible=False))
    world.admit()
    assert queued(world) == {"non-preemptible": [0, 1]}


def test_revocable_tasks_take_slack_cpu_and_a_share_of_the_rest() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(50, 100)), slack=Resources.of(30))
    world.enqueue(0, of=needs(20, memory=60, revocable=True))
    world.enqueue(1, of=needs(20, memory=30, revocable=True))
    world.enqueue(2, of=needs(100))
    assert sorted(ready(world)) == [0, 2]
    assert (
        world.task(1).reason
        == "cpu: slack allocation 20 cores + gang 20 cores > slack entitlement 30 cores in /a"
    )
    assert queued(world) == {"revocable": [1]}
    allocation = {name: amounts.units() for name, amounts in world.pool().allocation().items()}
    assert allocation["slack"]["cpu"] == 20
    assert allocation["non-slack"]["cpu"] == 100
    assert allocation["total"]["memory"] == 61
    world.enqueue(3, of=needs(1, memory=41, revocable=True))
    world.admit()
    world.scheduler.kill(JOB, 1)
    world.admit()
    assert (
        world.task(3).reason == "memory: slack allocation 60 MB + gang 41 MB > slack entitlement 100 MB in /a"
    )


def test_resources_for_revocable_tasks_are_not_available_to_others() -> None:
    """Others would be preempted for it; once it is not requested any more, they may have it."""
    world = World(PoolConfig("a", "a", "root", kinds(50, 100)), slack=Resources.of(30))
    world.scheduler.lifecycle.limits = replace(world.scheduler.limits, sharing_interval=1e9)
    world.enqueue(0, of=needs(100, memory=100, revocable=True))
    world.admit()
    world.enqueue(1, of=needs(1, memory=901))
    assert ready(world) == []
    assert (
        world.task(0).reason
        == "cpu: slack allocation 0 cores + gang 100 cores > slack entitlement 30 cores in /a"
    )
    refused = "memory: non-slack allocation 0 MB + gang 901 MB > non-slack entitlement 900 MB in /a"
    assert world.task(1).reason == refused
    world.scheduler.kill(JOB, 0)
    assert ready(world) == []
    world.scheduler.entitle()
    assert ready(world) == [1]


def test_without_capacity_nothing_is_admitted_and_the_reason_names_it() -> None:
    world = World(capacity=None)
    world.enqueue(0)
    world.enqueue(1, of=needs(100))
    world.enqueue(2)
    assert ready(world) == []
    assert {world.task(i).reason for i in range(3)} == {Common.CAPACITY_UNKNOWN}
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000), Resources())
    assert ready(world) == [0]
    assert world.task(1).reason == "cpu: allocation 1 core + gang 100 cores > entitlement 100 cores in /a"
    assert world.task(2).reason == "behind earlier gangs in queue pending of /a"


def test_a_cluster_that_shrinks_keeps_what_runs_and_admits_nothing() -> None:
    world = World()
    world.enqueue(0, of=needs(60))
    world.admit()
    world.scheduler.set_capacity(Resources.of(50, 1000, 1000), Resources())
    world.enqueue(1)
    assert ready(world) == [0]
    assert world.task(1).reason == "cpu: allocation 60 cores + gang 1 core > entitlement 50 cores in /a"


def test_a_kind_over_its_bound_does_not_block_gangs_that_request_none_of_it() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(gpu=KindConfig(0, 0))))
    world.enqueue(0)
    assert ready(world) == [0]


def test_a_full_ready_queue_holds_admission_up() -> None:
    world = World(limits=Limits(ready_limit=1))
    world.enqueue(0)
    world.enqueue(1)
    assert ready(world) == [0]
    assert world.task(1).reason == "the ready queue of BATCH tasks is full with 1 gang"
    world.dequeue()
    assert ready(world) == [1]


def test_a_full_ready_queue_holds_up_one_queue_and_not_the_others_of_the_pool() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(10, 100)), limits=Limits(ready_limit=1))
    world.enqueue(0, of=needs(8, preemptible=False))
    world.enqueue(1, of=needs(8, preemptible=False))
    assert ready(world) == [0]
    world.scheduler.tree.replace(PoolConfig("a", "a", "root", kinds(20, 100)))
    world.scheduler.entitle()
    world.enqueue(2, of=needs(1, type=TaskType.STATELESS))
    assert ready(world) == [0, 2]
    assert queued(world) == {"non-preemptible": [1]}
    assert world.task(1).reason == "the ready queue of BATCH tasks is full with 1 gang"


def test_one_cycle_admits_no_more_than_its_limit() -> None:
    world = World(limits=Limits(cycle_limit=3))
    for instance in range(5):
        world.enqueue(instance)
    assert world.scheduler.admit(world.now)
    assert len(world.queues()) == 2
    assert not world.scheduler.admit(world.now)
    assert len(world.queues()) == 0


def test_allocation_is_counted_by_what_tasks_are() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(50, 100)), slack=Resources.of(10))
    world.enqueue(0, of=needs(1, preemptible=False))
    world.enqueue(1, of=needs(2, preemptible=False, controller=True))
    world.enqueue(2, of=needs(4))
    world.enqueue(3, of=needs(8, revocable=True))
    world.enqueue(4, of=needs(94))
    world.admit()
    cpu = {name: amounts.cpu / 1000 for name, amounts in world.pool().allocation().items()}
    assert cpu == {
        "total": 15,
        "non-preemptible": 3,
        "preemptible": 12,
        "controller": 2,
        "slack": 8,
        "non-slack": 7,
    }
    assert world.scheduler.tree.root.allocation() == world.pool().allocation()
    assert world.scheduler.tree.root.total_demand().cpu == 94_000


def test_daemon_tasks_go_before_all_others_of_their_pool() -> None:
    """Whatever their priority and their time: they are placed first."""
    world = World(PoolConfig("a", "a", "root", kinds(reservation=100)))
    daemon = Needs(Resources.of(cpu=30), type=TaskType.DAEMON)
    world.enqueue(0, of=needs(30, priority=9))
    world.enqueue(1, of=replace(needs(30, priority=9), preemptible=False))
    world.enqueue(2, of=daemon)
    world.enqueue(3, of=replace(daemon, priority=1))
    assert queued(world) == {"non-preemptible": [3, 2], "pending": [0, 1]}
    world.admit()
    ready = world.scheduler.ready
    assert [gang.tasks[0].instance for gang in ready[TaskType.DAEMON]] == [3, 2]
    assert [gang.tasks[0].instance for gang in ready[TaskType.BATCH]] == [0]


def test_a_daemon_task_waits_for_the_reservation_and_does_not_block_preemptible_ones() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(reservation=10)))
    world.enqueue(0, of=Needs(Resources.of(cpu=11), type=TaskType.DAEMON))
    world.enqueue(1, of=needs(20))
    assert ready(world) == [1]
    assert (
        world.task(0).reason
        == "cpu: non-preemptible allocation 0 cores + gang 11 cores > reservation 10 cores in /a"
    )
