"""Gangs that wait for reserved hosts."""

from __future__ import annotations

import pytest

from peloton.model.ids import Run
from peloton.model.states import TaskState as S
from peloton.private.resmgr.placing import placing_pb2
from resmgr.core.explain.queue_reasons import explain
from resmgr.core.state.entities import Gang
from resmgr.core.state.limits import Limits
from resmgr.core.state.placements import ReservedGang
from resmgr.services.placing import PlacingService
from resmgr.wire.tasks import gang_to
from storage.interface import Store
from tests.unit.resmgr.shell import ENGINE, Shell, run_id, wire_gang
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, needs


def placing(*instances: int, limits: Limits | None = None) -> tuple[World, Gang]:
    """A world in which an engine has a gang."""
    world = World(limits=limits)
    world.enqueue(*instances)
    world.admit()
    [gang] = world.dequeue()
    return world, gang


def reserve(world: World, *instances: int, start: float | None = None, reason: str = "waits") -> bool:
    runs = tuple(Run(JOB, instance, 1) for instance in instances)
    return world.scheduler.reserve(world.engine, ReservedGang(runs, reason, start), world.now)


def fail(world: World, *instances: int) -> Gang:
    """One more failed try, and the next one begins."""
    world.fail(*instances)
    world.later(30)
    [gang] = world.dequeue()
    return gang


def test_a_task_asks_for_a_reserved_host_after_three_times_three_failed_tries() -> None:
    world, gang = placing(0)
    wanted = []
    for _ in range(9):
        wanted.append(gang_to(gang, world.scheduler).tasks[0].readyForHostReservation)
        gang = fail(world, 0)
    assert wanted == [False] * 9
    assert gang_to(gang, world.scheduler).tasks[0].readyForHostReservation
    assert gang_to(gang, world.scheduler).tasks[0].placementAttemptCount == 3


def test_without_host_reservation_none_is_asked_for() -> None:
    world, gang = placing(0, 1, limits=Limits(host_reservation=False))
    for _ in range(10):
        gang = fail(world, 0, 1)
    assert not world.scheduler.wants_reserved_host(gang)


def test_a_gang_asks_for_reserved_hosts_a_minute_after_its_first_failed_try() -> None:
    world, gang = placing(0, 1)
    assert not world.scheduler.wants_reserved_host(gang)
    assert not world.scheduler.wants_reserved_host(fail(world, 0, 1))
    assert world.scheduler.wants_reserved_host(fail(world, 0, 1))


def test_a_reserved_gang_keeps_its_allocation_and_is_placed() -> None:
    world, _ = placing(0, 1)
    assert reserve(world, 0, 1)
    assert (world.state(0), world.state(1), world.cpu()) == (S.RESERVED, S.RESERVED, 2)
    assert world.place(0, 1) == []
    assert world.state(0) is S.PLACED
    assert world.scheduler.deadlines.next() is None


def test_the_reason_of_a_reserved_task_is_how_far_its_reservation_is() -> None:
    world, _ = placing(0)
    reserve(world, 0)
    reserve(world, 0, reason="host a is reserved for it")
    [found] = explain(world.scheduler, [world.task(0)])
    assert (found.cause, found.reason) == ("host a is reserved for it",) * 2


@pytest.mark.parametrize(("start", "seconds"), [(None, 1800), (600.0, 2400), (0.0, 1800)])
def test_a_reservation_ends_half_an_hour_after_the_expected_start(start: float | None, seconds: int) -> None:
    world, _ = placing(0)
    reserve(world, 0)
    reserve(world, 0, start=start)
    for _ in range(seconds // 10 - 1):
        world.later(10)
        world.scheduler.leases.touch("placement/one", world.now)
        assert reserve(world, 0, start=900.0 if start is not None else None), "a later start counts no more"
    assert world.state(0) is S.RESERVED
    world.now += 10
    world.scheduler.expire(world.now)
    assert (world.state(0), world.cpu()) == (S.PENDING, 0)
    assert world.task(0).reason == "no host could be reserved in time"
    assert not reserve(world, 0)


def test_a_gang_that_is_gone_is_reported() -> None:
    world, _ = placing(0)
    reserve(world, 0)
    world.scheduler.kill(JOB, 0)
    assert not reserve(world, 0)
    assert (len(world.scheduler.registry), len(world.scheduler.deadlines)) == (0, 0)


def test_a_gang_that_has_lost_a_task_is_placed_anew() -> None:
    world, _ = placing(0, 1)
    reserve(world, 0, 1)
    world.scheduler.kill(JOB, 1)
    assert not reserve(world, 0, 1)
    [gang] = world.dequeue()
    assert [task.instance for task in gang.tasks] == [0]


def test_a_gang_of_another_engine_is_not_touched() -> None:
    world, _ = placing(0)
    other = world.scheduler.leases.touch("placement/two", world.now)
    assert not world.scheduler.reserve(other, ReservedGang((Run(JOB, 0, 1),), "waits"), world.now)
    assert not reserve(world, 1) and not reserve(world)
    assert world.state(0) is S.PLACING


def test_a_reserved_gang_of_an_engine_that_is_gone_is_placed_by_another() -> None:
    world, _ = placing(0)
    reserve(world, 0)
    world.scheduler.expire_leases(world.now + 31)
    assert world.state(0) is S.READY
    world.call_again()
    assert len(world.dequeue()) == 1


def test_gangs_that_fail_on_their_reserved_hosts_are_tried_again() -> None:
    world, _ = placing(0)
    reserve(world, 0)
    world.fail(0)
    assert world.state(0) is S.READY


def test_a_small_task_does_not_wait_for_a_reserved_gang() -> None:
    world, _ = placing(0, 1)
    reserve(world, 0, 1)
    world.enqueue(0, job=OTHER_JOB, of=needs(1))
    world.admit()
    assert len(world.dequeue()) == 1


@pytest.fixture
async def shell(store: Store) -> Shell:
    return Shell(store)


async def test_engines_report_reservations(shell: Shell) -> None:
    await shell.enqueue(await shell.pool(), wire_gang(0), wire_gang(1))
    await shell.dequeue()
    request = placing_pb2.ReportReservationsRequest()
    for instance in (0, 7, 1):
        request.gangs.add(reason=f"waits {instance}", start_seconds=5).runs.add(value=run_id(instance))
    answer = await PlacingService(shell.driver).ReportReservations(request, ENGINE)
    assert list(answer.gone) == [1]
    states = await shell.states()
    assert (states[run_id(0)], states[run_id(1)]) == ("RESERVED", "RESERVED")
