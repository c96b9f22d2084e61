"""Preemption in the scheduler: what becomes of those who give way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from peloton.clock import NANOSECONDS
from peloton.model.ids import Run
from peloton.model.pool import PoolConfig
from peloton.model.resources import ZERO, Resources
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from resmgr.core import restoring
from resmgr.core.preemption.decide import Rules
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.preemption.policy import Victim
from resmgr.core.state.entities import Task
from resmgr.core.state.needs import Needs, NewTask
from resmgr.core.state.task_states import Event
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, kinds, needs, whole

S = TaskState


def two_pools() -> World:
    """Both may have all of 100 cpus; 50 of them are reserved for b."""
    return World(PoolConfig("a", "a", "root", kinds()), PoolConfig("b", "b", "root", kinds(50, 500)))


def borrowed(world: World, count: int = 5, of: Needs | None = None) -> None:
    """Pool a runs tasks of 20 cpus, the last started last; then b requests 50."""
    for instance in range(count):
        world.launch(instance, of=of or needs(20))
        world.now += 1
    for instance in range(100, 105):
        world.enqueue(instance, of=needs(10), pool="b", job=OTHER_JOB)
    world.admit()


def checks(world: World, preemptor: Preemptor, count: int) -> None:
    for _ in range(count):
        world.later(60.0)
        whole(preemptor.steps(world.now))


def instances(tasks: list[Task]) -> list[int]:
    return [task.instance for task in tasks]


def test_the_task_that_loses_the_least_work_since_its_checkpoint_goes_first() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world)
    for instance, at in ((1, 290), (3, 280), (77, 300)):  # the last one is unknown
        world.scheduler.note_saved(Run(JOB, instance, 1), world.now + at)
    checks(world, preemptor, 5)
    assert instances(preemptor.take(100)) == [1, 3, 4]
    world.scheduler.observe(Run(JOB, 1, 1), S.KILLED, world.now)
    assert {task.instance for task in world.scheduler.lifecycle.registry.saved} == {3}


def test_a_new_leader_knows_of_checkpoints_and_starts_by_what_is_stored() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    wall = 1_700_000_000 * NANOSECONDS
    for instance, (start, saved) in enumerate([(500, 0), (400, 50), (900, 300), (800, 20), (600, 0)]):
        runtime = replace(
            TaskRuntime(S.RUNNING, S.SUCCEEDED, 1, 1, 1, 1),
            host="h1",
            start_time=wall - start * NANOSECONDS,
            saved_at=saved and wall - saved * NANOSECONDS,
        )
        new = NewTask(JOB, instance, 1, needs(20))
        restoring.take_in(world.scheduler, world.pool("a"), new, runtime, restoring.Moment(world.now, wall))
    borrowed(world, count=0)
    checks(world, preemptor, 5)
    assert instances(preemptor.take(100)) == [3, 1, 2]


def test_extras_of_an_elastic_gang_go_before_others_that_would_lose_less() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    for instance in range(5):
        world.launch(instance, of=needs(20, extra=instance < 2))
        world.now += 1
    borrowed(world, count=0)
    checks(world, preemptor, 5)
    assert instances(preemptor.take(100)) == [1, 0, 4], "extras first, of them the one that loses least"


def test_a_pool_frees_its_excess_after_five_checks_for_the_pool_that_lent_it() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world)
    checks(world, preemptor, 4)
    assert len(preemptor) == 0
    checks(world, preemptor, 1)
    taken = preemptor.take(100)
    assert instances(taken) == [4, 3, 2]
    assert {task.state for task in taken} == {S.PREEMPTING}
    victim = preemptor.why(Run(JOB, 4, 1))
    assert victim is not None
    assert (victim.pool, victim.benefits, victim.policy) == ("/a", "/b", "cross_pool")
    assert (
        world.task(4).reason
        == victim.reason
        == (
            "/a was over its entitlement in 5 checks in a row "
            "(cpu: allocation 100 cores > entitlement 50 cores);"
            " /b waits for its share"
        )
    )
    for instance in (2, 3, 4):
        world.observe(instance, S.KILLED)
    world.admit()
    assert (world.cpu("a"), world.cpu("b")) == (40, 50)
    assert preemptor.why(Run(JOB, 4, 1)) is None


def test_what_is_on_its_way_out_is_not_preempted_twice() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world)
    checks(world, preemptor, 7)
    assert instances(preemptor.take(100)) == [4, 3, 2]
    assert preemptor.take(100) == []
    world.observe(4, S.KILLING)
    checks(world, preemptor, 2)
    assert len(preemptor) == 0


def test_a_task_that_is_not_ended_in_time_stays_running_and_may_be_chosen_again() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world)
    checks(world, preemptor, 5)
    preemptor.take(100)
    world.later(601.0)
    assert world.state(4) is S.RUNNING
    assert world.task(4).reason == ""
    assert preemptor.why(Run(JOB, 4, 1)) is None
    checks(world, preemptor, 5)
    assert sorted(instances(preemptor.take(100))) == [2, 3, 4]


def test_ready_and_placing_go_back_to_their_queue_first() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1))
    for instance in range(3):
        world.launch(instance, of=needs(20))
        world.now += 1
    world.enqueue(3, of=needs(20))
    world.admit()
    world.dequeue()
    world.enqueue(4, of=needs(20))
    world.admit()
    for instance in range(100, 105):
        world.enqueue(instance, of=needs(10), pool="b", job=OTHER_JOB)
    world.admit()
    whole(preemptor.steps(world.now))
    assert [world.state(instance) for instance in range(5)] == [
        S.RUNNING,
        S.RUNNING,
        S.PREEMPTING,
        S.PENDING,
        S.PENDING,
    ]
    assert "over its entitlement" in world.task(4).reason
    world.observe(2, S.KILLED)
    world.admit()
    assert (world.cpu("a"), world.cpu("b")) == (40, 50)
    assert {world.state(3), world.state(4)} == {S.PENDING}


def test_a_gang_that_runs_gives_way_whole() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1))
    world.enqueue(0, 1, 2, of=needs(20))
    world.admit()
    world.dequeue()
    assert world.place(0, 1, 2) == []
    world.hand_over()
    for instance in range(3):
        world.observe(instance, S.RUNNING)
    world.launch(8, of=needs(20))
    world.launch(9, of=needs(20))
    world.now += 1
    for instance in range(100, 105):
        world.enqueue(instance, of=needs(10), pool="b", job=OTHER_JOB)
    world.admit()
    world.task(8).since = world.task(9).since = 0.0
    whole(preemptor.steps(world.now))
    assert instances(preemptor.take(100)) == [0, 1, 2]


def test_a_full_queue_keeps_further_tasks_running() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1), limit=2)
    borrowed(world)
    checks(world, preemptor, 2)
    assert len(preemptor) == 2
    preemptor.take(1)
    checks(world, preemptor, 1)
    assert len(preemptor) == 2
    assert [world.state(i) for i in range(5)] == [S.RUNNING] * 2 + [S.PREEMPTING] * 3


def test_what_ended_before_it_was_taken_is_not_handed_out() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1), limit=3)
    borrowed(world)
    whole(preemptor.steps(world.now))
    world.observe(3, S.FAILED)
    assert len(preemptor) == 2
    assert instances(preemptor.take(100)) == [4, 2]


def test_what_did_not_reach_its_taker_is_first_again() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1))
    borrowed(world)
    whole(preemptor.steps(world.now))
    preemptor.give_back(preemptor.take(2))
    assert instances(preemptor.take(100)) == [4, 3, 2]


def test_higher_priority_takes_the_place_of_lower_in_a_full_pool() -> None:
    world = World()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    world.launch(*range(5), of=needs(20))
    world.enqueue(9, of=needs(40, priority=7))
    world.enqueue(10, of=needs(20))
    world.admit()
    whole(preemptor.steps(world.now))
    taken = preemptor.take(100)
    assert len(taken) == 2
    victim = preemptor.why(taken[0].key)
    assert victim is not None
    assert (victim.pool, victim.benefits, victim.policy) == ("/a", "/a", "same_pool")
    for task in taken:
        world.observe(task.instance, S.KILLED)
    world.admit()
    assert (world.state(9), world.state(10)) == (S.READY, S.PENDING)


def test_non_preemptible_gangs_get_their_reservation_back() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(40, 100)))
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    world.launch(*range(5), of=needs(20))
    world.enqueue(9, of=needs(40, priority=1, preemptible=False))
    world.enqueue(10, of=needs(10, priority=1, preemptible=False))
    world.admit()
    whole(preemptor.steps(world.now))
    assert len(preemptor.take(100)) == 2


def test_events_between_two_steps_change_who_is_taken() -> None:
    """Five run; the check would take the last three, for 50 cpus."""
    meanwhile: list[tuple[Callable[[World], object], list[int]]] = [
        (lambda world: None, [4, 3, 2]),
        (lambda world: world.observe(3, S.FAILED), [4, 2]),
        (lambda world: world.observe(4, S.KILLING), [3, 2]),
        (lambda world: world.enqueue(2, run=2), [4, 3]),
        (lambda world: world.scheduler.set_capacity(Resources.of(500, 5000, 5000), ZERO), []),
    ]
    for event, taken in meanwhile:
        world = two_pools()
        preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1))
        borrowed(world)
        steps = preemptor.steps(world.now)
        for _ in range(20):
            next(steps)
        world.now += 0.1
        event(world)
        victims = whole(steps)
        assert [run.instance for victim in victims for run in victim.runs] == taken
        assert instances(preemptor.take(100)) == taken


def test_a_gang_with_a_member_that_came_back_meanwhile_is_left_alone() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1))
    world.launch(8, of=needs(10))
    world.now += 1
    world.enqueue(0, 1, of=needs(45))
    world.admit()
    world.dequeue()
    assert world.place(0, 1) == []
    world.hand_over()
    world.observe(0, S.RUNNING)
    world.observe(1, S.RUNNING)
    for instance in range(100, 105):
        world.enqueue(instance, of=needs(10), pool="b", job=OTHER_JOB)
    world.admit()
    world.scheduler.lifecycle.step(world.task(1), Event.PREEMPT, world.now)
    steps = preemptor.steps(world.now)
    for _ in range(20):
        next(steps)
    world.now += 0.1
    world.scheduler.lifecycle.step(world.task(1), Event.SPARE, world.now)
    assert whole(steps) == []


def test_what_found_no_room_in_the_queue_does_not_count_as_taken() -> None:
    world = two_pools()
    preemptor = Preemptor(
        world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1, per_minute=3), limit=1
    )
    borrowed(world)
    assert len(whole(preemptor.steps(world.now))) == 1
    preemptor.take(1)
    world.later(1.0)
    assert len(whole(preemptor.steps(world.now))) == 1


def test_a_check_of_many_tasks_goes_in_many_steps() -> None:
    many = 30_000
    world = two_pools()
    pool, of = world.pool("a"), Needs(Resources.of(0.01), preemptible=True)
    for instance in range(many):
        world.scheduler.restore(pool, NewTask(JOB, instance, 1, of), S.RUNNING, "h", float(instance))
    steps, count = (
        Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, Rules(strikes=1), limit=many).steps(
            1e6
        ),
        0,
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            victims: list[Victim] = end.value
            break
        count += 1
    assert len(victims) == many - 10_000
    assert count > len(victims) // 500 + many // 10_000


def preempting(world: World) -> list[int]:
    return [number for number in range(5) if world.state(number) is S.PREEMPTING]


def marked(world: World) -> Preemptor:
    """Three tasks of a are preempted for b, and jobmgr has taken them."""
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world)
    checks(world, preemptor, 5)
    assert instances(preemptor.take(100)) == [4, 3, 2] and preempting(world) == [2, 3, 4]
    return preemptor


def test_victims_are_spared_as_soon_as_nobody_waits_for_them() -> None:
    world = two_pools()
    preemptor = marked(world)
    assert preemptor.spare(world.now) == 3 and preempting(world) == [2, 3, 4]
    for instance in range(100, 105):
        world.scheduler.kill(OTHER_JOB, instance)
    preemptor.spare(world.now)
    assert preempting(world) == [] and world.task(4).reason == ""
    assert preemptor.why(Run(JOB, 4, 1)) is None and len(preemptor) == 0
    world.later(601.0)
    assert world.state(4) is S.RUNNING


def test_as_many_victims_are_spared_as_are_not_needed() -> None:
    world = two_pools()
    preemptor = marked(world)
    for instance in range(100, 103):
        world.scheduler.kill(OTHER_JOB, instance)
    preemptor.spare(world.now)
    assert preempting(world) == [4]


def test_victims_that_have_not_been_taken_are_spared_too() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world)
    checks(world, preemptor, 5)
    for instance in range(100, 105):
        world.scheduler.kill(OTHER_JOB, instance)
    preemptor.spare(world.now)
    assert len(preemptor) == 0 and preemptor.take(10) == []


def test_a_victim_of_its_own_pool_is_spared_when_the_waiting_gang_has_ended() -> None:
    world = World()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    world.launch(*range(5), of=needs(20))
    world.enqueue(9, of=needs(40, priority=7))
    world.admit()
    whole(preemptor.steps(world.now))
    assert len(preempting(world)) == 2
    preemptor.spare(world.now)
    assert len(preempting(world)) == 2
    world.scheduler.kill(JOB, 9)
    preemptor.spare(world.now)
    assert preempting(world) == []


def test_what_a_service_keeps_for_its_sla_is_spared_and_not_chosen_again_at_once() -> None:
    world = two_pools()
    preemptor = marked(world)
    assert preemptor.keep([Run(JOB, 2, 1), Run(JOB, 3, 1), Run(JOB, 99, 1)], world.now) == 2
    assert preempting(world) == [4]
    world.observe(4, S.KILLED)
    world.later(1.0)
    whole(preemptor.steps(world.now))
    assert [number for number in range(4) if world.state(number) is S.PREEMPTING] == []
    checks(world, preemptor, 6)
    assert sum(world.state(number) is S.PREEMPTING for number in range(4)) == 1, "as many as it let go"


def test_no_more_of_a_service_are_chosen_than_its_sla_lets_go_now() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    borrowed(world, of=replace(needs(20), max_unavailable=2))
    checks(world, preemptor, 5)
    assert preempting(world) == [3, 4], "three would be needed; the last ones that started"
    checks(world, preemptor, 5)
    assert preempting(world) == [3, 4], "these are not up yet"


def test_instances_that_do_not_run_count_against_the_sla() -> None:
    world = two_pools()
    preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing)
    service = replace(needs(20), max_unavailable=2)
    borrowed(world, of=service)
    world.enqueue(50, of=replace(service, resources=Resources.of(cpu=300)))
    checks(world, preemptor, 5)
    assert preempting(world) == [4]
