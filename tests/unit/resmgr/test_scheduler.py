from __future__ import annotations

from collections.abc import Callable

import pytest

from peloton.errors import NotFound, Refused
from peloton.model.ids import Run
from peloton.model.pool import PoolConfig
from peloton.model.states import TaskState, TaskType
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import NewTask
from resmgr.core.state.task_states import Event
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, kinds, needs, proposal

S = TaskState


def test_a_task_passes_all_states_and_frees_its_allocation() -> None:
    world = World()
    world.enqueue(0, of=needs(10))
    assert world.state(0) is S.PENDING
    assert world.pool().total_demand().cpu == 10_000
    world.admit()
    assert world.state(0) is S.READY
    assert (world.cpu(), world.pool().total_demand().cpu) == (10, 0)
    assert [len(gang.tasks) for gang in world.dequeue()] == [1]
    assert world.state(0) is S.PLACING
    assert world.place(0) == []
    assert (world.state(0), world.task(0).host) == (S.PLACED, "h1")
    assert world.hand_over() == [Run(JOB, 0, 1)]
    assert world.state(0) is S.LAUNCHING
    for state in (S.LAUNCHED, S.STARTING, S.RUNNING):
        assert world.observe(0, state)
        assert world.state(0) is state
        assert world.cpu() == 10
    assert world.observe(0, S.SUCCEEDED)
    assert world.cpu() == 0
    assert world.scheduler.registry.current(JOB, 0) is None
    assert len(world.scheduler.deadlines) == len(world.scheduler.leases) == world.pool().tasks == 0


def test_a_placement_is_handed_over_with_the_ports_of_its_tasks() -> None:
    world = World()
    world.enqueue(0, of=needs(ports=2))
    world.enqueue(1, of=needs())
    world.enqueue(2, of=needs(ports=1))
    world.admit()
    world.dequeue()
    world.place(0, 1, 2, ports=[31000, 31001, 31002])
    world.scheduler.kill(JOB, 0)
    [given] = world.scheduler.hand_over(10, world.jobmgr, world.now)
    assert (given.runs, given.ports) == ((Run(JOB, 1, 1), Run(JOB, 2, 1)), (31002,))
    assert (given.host, given.agent_id, given.offer_id) == ("h1", "agent-h1", "offer-h1")


def test_a_placement_without_tasks_is_not_handed_over() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.place(0)
    world.scheduler.kill(JOB, 0)
    assert world.hand_over() == []


def test_an_instance_given_twice_in_a_gang_counts_once() -> None:
    world = World()
    assert len(world.enqueue(0, 1, 0, of=needs(10))) == 2
    world.admit()
    assert (world.cpu(), world.pool().tasks) == (20, 2)
    assert [[task.instance for task in gang.tasks] for gang in world.dequeue()] == [[0, 1]]


def test_a_known_run_is_left_as_it_is_and_an_older_one_too() -> None:
    world = World()
    assert len(world.enqueue(0, run=2)) == 1
    world.admit()
    assert world.enqueue(0, run=2) == []
    assert world.enqueue(0, run=1) == []
    assert (world.state(0), world.pool().tasks) == (S.READY, 1)


def test_a_newer_run_replaces_a_waiting_one() -> None:
    world = World()
    world.enqueue(0, of=needs(10))
    world.admit()
    world.enqueue(0, of=needs(20), run=2)
    assert (world.cpu(), world.pool().tasks, world.task(0).run) == (0, 1, 2)
    assert not world.scheduler.registry.orphans
    world.admit()
    assert world.cpu() == 20


def test_a_newer_run_makes_a_running_one_an_orphan_until_it_ends() -> None:
    world = World()
    world.launch(0, of=needs(10))
    world.enqueue(0, of=needs(20), run=2)
    assert list(world.scheduler.registry.orphans) == [Run(JOB, 0, 1)]
    world.admit()
    assert world.cpu() == 30
    assert world.observe(0, S.RUNNING, run=1)
    assert world.observe(0, S.KILLED, run=1)
    assert world.cpu() == 20
    assert not world.scheduler.registry.orphans
    assert world.state(0) is S.READY


@pytest.mark.parametrize("state", [S.RUNNING, S.PREEMPTING])
@pytest.mark.parametrize("withdrawn", [True, False])
def test_the_run_before_one_that_ends_counts_again(withdrawn: bool, state: TaskState) -> None:
    """A lost run came back and was kept, and a message that came late enqueued its replacement again."""
    world = World()
    world.launch(0, of=needs(10))
    if state is S.PREEMPTING:
        world.scheduler.lifecycle.step(world.task(0), Event.PREEMPT, world.now)
    world.enqueue(0, of=needs(20), run=2)
    world.admit()
    if withdrawn:
        world.scheduler.kill(JOB, 0, 2)
    else:
        assert world.observe(0, S.KILLED, run=2)
    assert not world.scheduler.registry.orphans
    assert (world.task(0).run, world.state(0), world.cpu()) == (1, state, 10)
    assert (len(world.scheduler.registry), world.pool().tasks) == (1, 1)
    world.later(700)
    assert world.state(0) is S.RUNNING, "a preemption that nobody carries out is given up"
    assert world.observe(0, S.KILLED, run=1)
    assert (len(world.scheduler.registry), world.pool().tasks, world.cpu()) == (0, 0, 0)


def test_the_end_of_an_orphan_leaves_the_current_run() -> None:
    world = World()
    world.launch(0)
    world.enqueue(0, run=2)
    world.admit()
    assert world.observe(0, S.LOST, run=1)
    assert (world.task(0).run, world.state(0)) == (2, S.READY)


def test_a_withdrawal_that_comes_late_leaves_a_newer_run() -> None:
    world = World()
    world.enqueue(0, run=2)
    with pytest.raises(NotFound, match=f"run 1 of task {JOB}-0 is not known here, but run 2"):
        world.scheduler.kill(JOB, 0, 1)
    assert world.task(0).run == 2
    world.scheduler.kill(JOB, 0, 3)
    assert world.scheduler.registry.current(JOB, 0) is None, "a newer run would replace it"


def test_an_orphan_that_was_never_launched_is_given_up_in_time() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.place(0)
    world.hand_over()
    world.enqueue(0, run=2)
    assert len(world.scheduler.registry.orphans) == 1
    world.later(1199)
    assert len(world.scheduler.registry.orphans) == 1
    world.later(2)
    assert not world.scheduler.registry.orphans
    assert (world.cpu(), world.pool().tasks) == (1, 1)


def test_an_orphan_that_shows_life_is_kept() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.place(0)
    world.hand_over()
    world.enqueue(0, run=2)
    world.observe(0, S.RUNNING, run=1)
    world.later(5000)
    assert len(world.scheduler.registry.orphans) == 1


def test_a_gang_is_handed_over_whole_even_beyond_the_limit() -> None:
    world = World()
    world.enqueue(0, 1)
    world.enqueue(2)
    world.admit()
    world.dequeue()
    proposals = [proposal([0], "h1"), proposal([2], "h2"), proposal([1], "h3")]
    world.scheduler.propose(world.engine, proposals, [], world.now)
    assert world.hand_over(1) == [Run(JOB, 0, 1), Run(JOB, 2, 1), Run(JOB, 1, 1)]
    assert world.hand_over() == []


def test_an_orphan_that_is_the_current_run_again_is_charged_once() -> None:
    """Its replacement was taken back, because it lives on (simulator/faults, seed 660)."""
    world = World()
    world.launch(0)
    world.enqueue(0, run=2)
    world.scheduler.kill(JOB, 0)
    world.scheduler.enqueue(world.pool(), [NewTask(JOB, 0, 1, needs(), host="h1")], world.now)
    assert not world.scheduler.registry.orphans
    assert world.cpu() == 1
    assert world.observe(0, S.SUCCEEDED)
    assert world.cpu() == 0
    assert list(world.scheduler.registry) == []


def test_an_orphan_that_was_being_preempted_holds_its_allocation_until_it_ends() -> None:
    world = World()
    world.scheduler.restore(world.pool(), NewTask(JOB, 0, 1, needs(10)), S.PREEMPTING, "h1", world.now)
    world.enqueue(0, of=needs(1), run=2)
    world.later(5000)
    assert list(world.scheduler.registry.orphans) == [Run(JOB, 0, 1)]
    assert world.cpu() == 11
    assert world.observe(0, S.KILLED, run=1)
    assert world.cpu() == 1


def test_statuses_of_unknown_runs_are_ignored() -> None:
    world = World()
    world.enqueue(0)
    assert not world.observe(0, S.RUNNING, run=7)
    assert not world.observe(5, S.FAILED)
    assert not world.scheduler.observe(Run(OTHER_JOB, 0, 1), S.RUNNING, world.now)
    assert not world.observe(0, S.INITIALIZED)
    assert world.state(0) is S.PENDING


@pytest.mark.parametrize("steps", range(5))
def test_a_status_takes_a_queued_task_out_of_its_queue(steps: int) -> None:
    world = World()
    world.enqueue(0, of=needs(10))
    ways: list[Callable[[], object]] = [world.admit, world.dequeue, lambda: world.place(0), world.hand_over]
    for way in ways[:steps]:
        way()
    assert world.observe(0, S.RUNNING)
    assert (world.state(0), world.cpu(), world.pool().total_demand().cpu) == (S.RUNNING, 10, 0)
    assert len(world.queues()) == 0
    assert not world.scheduler.ready[TaskType.BATCH]
    assert not world.scheduler.placements
    assert len(world.scheduler.deadlines) == len(world.scheduler.leases) == 0
    assert world.hand_over() == []
    assert world.dequeue() == []
    world.observe(0, S.LOST)
    assert world.cpu() == 0


def test_no_step_back() -> None:
    world = World()
    world.launch(0)
    assert world.observe(0, S.LAUNCHED)
    assert world.state(0) is S.RUNNING
    assert world.observe(0, S.KILLING)
    assert world.observe(0, S.RUNNING)
    assert world.state(0) is S.KILLING


@pytest.mark.parametrize("steps", range(5))
def test_a_task_may_be_killed_in_every_state_before_launch(steps: int) -> None:
    world = World()
    world.enqueue(0, of=needs(10))
    ways: list[Callable[[], object]] = [world.admit, world.dequeue, lambda: world.place(0), world.hand_over]
    for way in ways[:steps]:
        way()
    world.scheduler.kill(JOB, 0)
    assert (world.cpu(), world.pool().total_demand().cpu, world.pool().tasks) == (0, 0, 0)
    assert len(world.scheduler.deadlines) == len(world.scheduler.leases) == 0
    with pytest.raises(NotFound, match=f"no task {JOB}-0 is known"):
        world.scheduler.kill(JOB, 0)


def test_a_launched_task_is_not_killed_here_and_the_error_names_its_state() -> None:
    world = World()
    world.launch(0)
    with pytest.raises(Refused, match=f"task {JOB}-0 is RUNNING"):
        world.scheduler.kill(JOB, 0)


def test_a_killed_member_leaves_a_smaller_gang_in_its_place() -> None:
    world = World()
    world.enqueue(9, of=needs(20))
    world.enqueue(0, 1, 2, of=needs(30))
    world.enqueue(3, of=needs(5))
    world.admit()
    assert world.state(0) is S.PENDING
    world.scheduler.kill(JOB, 1)
    world.admit()
    assert [[task.instance for task in gang.tasks] for gang in world.dequeue()] == [[9], [0, 2], [3]]


def test_a_failed_gang_is_tried_again_after_a_growing_pause() -> None:
    world = World(limits=Limits(tries=100))
    world.enqueue(0)
    world.admit()
    pauses = []
    for _ in range(7):
        world.dequeue()
        world.fail(0, reason="no host has 64 cpus")
        assert (world.state(0), world.task(0).reason, world.cpu()) == (S.READY, "no host has 64 cpus", 1)
        assert world.dequeue() == []
        pause = world.scheduler.deadlines.next()
        assert pause is not None
        pauses.append(pause - world.now)
        world.later(pauses[-1])
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_after_three_failed_tries_it_returns_to_its_pool_and_frees_its_allocation() -> None:
    world = World()
    world.enqueue(0, of=needs(60))
    world.enqueue(1, of=needs(60))
    for _ in range(3):
        world.later(30)
        world.dequeue()
        world.fail(0, reason="no host")
    assert (world.state(0), world.cpu(), world.task(0).reason) == (S.PENDING, 0, "no host")
    world.admit()
    assert (world.state(0), world.state(1), world.cpu()) == (S.PENDING, S.READY, 60)
    gang = world.task(0).gang
    assert gang is not None
    assert (gang.attempts.returns, world.scheduler.wants_reserved_host(gang)) == (1, False)


def test_the_time_to_place_grows_with_each_failed_try() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    [gang] = world.dequeue()
    assert world.scheduler.placing_timeout(gang) == 600
    world.later(599)
    assert world.state(0) is S.PLACING
    world.later(1)
    assert (world.state(0), world.task(0).reason) == (
        S.READY,
        "the placement engine did not answer in time",
    )
    world.later(1)
    assert world.dequeue() == [gang]
    assert world.scheduler.placing_timeout(gang) == 1200
    world.later(1199)
    assert world.state(0) is S.PLACING
    world.later(1)
    assert world.state(0) is S.READY


def test_a_launch_that_does_not_happen_returns_to_the_ready_queue() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.place(0)
    world.hand_over()
    world.later(1200)
    assert (world.state(0), world.task(0).host) == (S.READY, "")
    assert len(world.dequeue()) == 1


def test_a_placement_of_what_is_not_placing_is_rejected() -> None:
    world = World()
    world.enqueue(0)
    world.enqueue(1)
    world.admit()
    world.dequeue(limit=1)
    rejections = world.place(0, 1, 7)
    assert [(rejection.run.instance, rejection.message) for rejection in rejections] == [
        (1, "the task is READY, not PLACING"),
        (7, "the run is not known"),
    ]
    assert world.hand_over() == [Run(JOB, 0, 1)]
    assert [rejection.message for rejection in world.place(0)] == ["the task is LAUNCHING, not PLACING"]


def test_another_engine_cannot_place_what_it_did_not_take() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    other = world.scheduler.leases.touch("placement/two", world.now)
    [rejection] = world.scheduler.propose(other, [proposal([0])], [], world.now)
    assert rejection.message == "the task is leased to another instance"
    assert world.place(0) == []


def test_a_gang_may_be_spread_over_hosts_in_one_call() -> None:
    world = World()
    world.enqueue(0, 1, 2)
    world.admit()
    world.dequeue()
    proposals = [proposal([0, 2], "h1"), proposal([1], "h2")]
    assert world.scheduler.propose(world.engine, proposals, [], world.now) == []
    assert world.hand_over() == [Run(JOB, 0, 1), Run(JOB, 2, 1), Run(JOB, 1, 1)]


def test_a_gang_placed_in_part_is_rejected_and_returns_whole() -> None:
    world = World()
    world.enqueue(0, 1, 2)
    world.enqueue(3)
    world.admit()
    world.dequeue()
    rejections = world.place(0, 1, 3)
    assert {rejection.run.instance for rejection in rejections} == {0, 1}
    assert [world.state(i) for i in range(4)] == [S.READY, S.READY, S.READY, S.PLACED]
    assert world.task(2).reason == "placed in part only: 3 tasks belong together"
    world.later(1)
    assert [len(gang.tasks) for gang in world.dequeue()] == [3]


def test_a_full_queue_of_placements_refuses_more() -> None:
    world = World(limits=Limits(placed_limit=1))
    for instance in range(2):
        world.enqueue(instance)
    world.admit()
    world.dequeue()
    assert world.place(0) == []
    [rejection] = world.place(1)
    assert rejection.message == "the queue of placements is full with 1"


def test_a_gang_of_two_types_is_refused() -> None:
    world = World()
    gang = [NewTask(JOB, 0, 1, needs()), NewTask(JOB, 1, 1, needs(type=TaskType.STATEFUL))]
    with pytest.raises(Refused, match="one task type"):
        world.scheduler.enqueue(world.pool(), gang, world.now)
    assert world.pool().tasks == 0


def test_each_engine_gets_gangs_of_its_type() -> None:
    world = World()
    world.enqueue(0)
    world.enqueue(1, of=needs(type=TaskType.STATELESS))
    world.admit()
    assert [gang.tasks[0].instance for gang in world.dequeue(kind=TaskType.STATELESS)] == [1]
    assert [gang.tasks[0].instance for gang in world.dequeue()] == [0]


def test_restored_tasks_have_their_allocation_and_their_host() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(50)))
    for instance, state in enumerate([S.LAUNCHED, S.STARTING, S.RUNNING, S.KILLING, S.PREEMPTING]):
        new = NewTask(JOB, instance, 3, needs(30, preemptible=False))
        world.scheduler.restore(world.pool(), new, state, "h1", world.now)
    assert world.cpu() == 150
    assert len(list(world.scheduler.registry.on_host("h1"))) == 5
    world.later(600)
    assert world.state(4) is S.RUNNING
    for instance in range(5):
        world.observe(instance, S.FAILED, run=3)
    assert (world.cpu(), list(world.scheduler.registry.on_host("h1"))) == (0, [])


def test_a_run_that_is_enqueued_on_a_host_is_counted_there_and_never_placed() -> None:
    """As a lost run whose agent came back: jobmgr keeps it, and enqueues it once more."""
    world = World()
    on_host = NewTask(JOB, 0, 1, needs(500), host="h9")
    assert world.scheduler.enqueue(world.pool(), [on_host], world.now) == []
    world.admit()
    assert world.dequeue() == []
    assert (world.state(0), world.cpu()) == (S.LAUNCHED, 500)
    assert [task.instance for task in world.scheduler.registry.on_host("h9")] == [0]
    assert world.observe(0, S.RUNNING)
    world.scheduler.enqueue(world.pool(), [on_host._replace(host="h8")], world.now)
    assert (world.state(0), world.task(0).host, world.cpu()) == (S.RUNNING, "h9", 500)
    assert world.observe(0, S.FAILED)
    assert (world.cpu(), list(world.scheduler.registry.on_host("h9"))) == (0, [])


def test_of_a_gang_only_what_is_on_no_host_is_queued() -> None:
    world = World()
    gang = [NewTask(JOB, 0, 1, needs(10), host="h9"), NewTask(JOB, 1, 1, needs(10))]
    assert [task.instance for task in world.scheduler.enqueue(world.pool(), gang, world.now)] == [1]
    world.admit()
    assert [[task.instance for task in each.tasks] for each in world.dequeue()] == [[1]]
    assert (world.task(0).host, world.state(0), world.cpu()) == ("h9", S.LAUNCHED, 20)
    whole = [NewTask(JOB, instance, 1, needs(10), host="h9") for instance in (2, 3)]
    assert world.scheduler.enqueue(world.pool(), whole, world.now) == []
    assert len(list(world.scheduler.registry.on_host("h9"))) == 3


def test_restoring_what_is_known_changes_nothing() -> None:
    world = World()
    world.launch(0)
    world.scheduler.restore(world.pool(), NewTask(JOB, 0, 1, needs(50)), S.LAUNCHED, "h2", world.now)
    assert (world.state(0), world.cpu()) == (S.RUNNING, 1)
