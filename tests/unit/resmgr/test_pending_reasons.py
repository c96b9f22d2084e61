from __future__ import annotations

from peloton.model.states import TaskState
from resmgr.core.state.pending_reasons import Reasons
from tests.unit.resmgr.world import JOB, World, needs


def blocked(count: int = 3) -> World:
    world = World()
    world.enqueue(99)
    world.enqueue(0, of=needs(100))
    for instance in range(1, count):
        world.enqueue(instance)
    world.admit()
    return world


def deltas(reasons: Reasons, after: int = 0) -> list[tuple[int, str]]:
    return [(delta.run.instance, delta.reason) for delta in reasons.read(after, 1000)]


def test_each_change_is_reported_once() -> None:
    world = blocked(2)
    reasons = world.scheduler.reasons
    assert reasons.flush(world.now)
    assert deltas(reasons) == [
        (0, "cpu: allocation 1 core + gang 100 cores > entitlement 100 cores in /a"),
        (1, "behind earlier gangs in queue pending of /a"),
    ]
    world.admit()
    assert not reasons.flush(world.now + 10)
    assert len(deltas(reasons)) == 2


def test_a_task_is_reported_at_most_once_a_second_with_its_current_reason() -> None:
    world = blocked(1)
    reasons, task = world.scheduler.reasons, world.task(0)
    reasons.flush(world.now)
    for i in range(5):
        reasons.set(task, f"reason {i}")
        assert not reasons.flush(world.now + 0.1 * i)
    assert reasons.flush(world.now + 1)
    assert deltas(reasons, 1) == [(0, "reason 4")]


def test_an_empty_reason_is_reported_only_after_another_one() -> None:
    world = blocked(2)
    reasons = world.scheduler.reasons
    reasons.flush(world.now)
    world.scheduler.kill(JOB, 0)
    world.enqueue(5)
    world.admit()
    reasons.flush(world.now + 2)
    assert deltas(reasons, 2) == [(0, ""), (1, "")]


def test_a_reason_that_ends_before_a_flush_is_not_reported() -> None:
    world = blocked(1)
    world.scheduler.kill(JOB, 0)
    assert not world.scheduler.reasons.flush(world.now)


def test_the_log_is_bounded_and_a_reader_that_is_too_late_starts_again() -> None:
    world = blocked(1)
    reasons = Reasons("first", capacity=3)
    task = world.task(0)
    for i in range(6):
        reasons.set(task, f"reason {i}")
        reasons.flush(10.0 * i + 1)
    assert reasons.holds("first", 6)
    assert reasons.holds("first", 3)
    assert not reasons.holds("first", 2)
    assert not reasons.holds("first", 7)
    assert not reasons.holds("other", 6)
    assert not reasons.holds("", 6)
    assert deltas(reasons, 4) == [(0, "reason 4"), (0, "reason 5")]


def test_a_new_stream_holds_every_task_that_has_a_reason() -> None:
    world = blocked(3)
    world.enqueue(9)
    reasons = world.scheduler.reasons
    reasons.restart("second", world.scheduler.registry.iterate_in_steps())
    assert reasons.holds("second", 0)
    assert reasons.holds("", 0)
    assert [instance for instance, _ in deltas(reasons)] == [0, 1, 2]
    assert not reasons.flush(world.now)


def test_a_new_stream_reports_more_tasks_than_the_log_holds() -> None:
    """It does not start again before its end, and not all tasks are examined in one step."""
    world = blocked(50)
    for _ in range(9):
        world.later(1)
        world.admit()
    expected = [instance for instance in range(50) if world.task(instance).reason]
    assert expected == list(range(50))
    reasons = Reasons("first", capacity=10)
    reasons.restart("second", world.scheduler.registry.iterate_in_steps())
    found: list[int] = []
    while reasons.more(len(found)):
        assert reasons.holds("second", len(found))
        found += [delta.run.instance for delta in reasons.read(len(found), 4)]
    assert found == expected


def test_tasks_may_end_while_a_new_stream_is_read() -> None:
    world = blocked(9)
    reasons = world.scheduler.reasons
    reasons.restart("second", world.scheduler.registry.iterate_in_steps())
    assert [delta.run.instance for delta in reasons.read(0, 3)] == [0, 1, 2]
    world.scheduler.kill(JOB, 1)
    world.scheduler.kill(JOB, 5)
    world.enqueue(20)
    assert reasons.flush(world.now + 2)
    rest = [(delta.run.instance, bool(delta.reason)) for delta in reasons.read(3, 100)]
    assert (1, False) in rest
    assert {instance for instance, waits in rest if waits} == {3, 4, 6, 7, 8}


def test_a_delta_names_the_state() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.fail(0, reason="no host has a gpu")
    reasons = world.scheduler.reasons
    reasons.flush(world.now)
    [delta] = reasons.read(0, 10)
    assert (delta.state, delta.reason) == (TaskState.READY, "no host has a gpu")
    world.later(1)
    world.dequeue()
    world.place(0)
    reasons.flush(world.now)
    [delta] = reasons.read(1, 10)
    assert (delta.state, delta.reason) == (TaskState.PLACED, "")


def test_reasons_of_a_long_queue_are_set_in_portions() -> None:
    world = World()
    world.enqueue(999)
    world.enqueue(0, of=needs(100))
    for instance in range(1, 251):
        world.enqueue(instance)
    world.admit()
    world.admit()
    expected = [instance for instance in range(251) if world.task(instance).reason]
    assert expected == list(range(200))
    world.later(0.2)
    assert all(world.task(instance).reason for instance in range(251))
