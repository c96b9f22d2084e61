"""Gangs that have hosts reserved for them, and tasks that use reserved hosts meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import Unavailable
from peloton.model.shortage import Lack, Shortage
from placement.core.model import Gang, Needs
from placement.core.reservation_reasons import Reserved, describe
from tests.unit.placement.fakes import World, running
from tests.unit.placement.samples import gang, host, needs

OTHER = "00000000-0000-4000-8000-000000000002"


def wanting(*of: Needs) -> Gang:
    return replace(gang(*of), wants_reservation=True)


def reservation(of: Gang) -> str:
    return of.tasks[0].run_id


async def test_a_gang_without_a_place_has_hosts_reserved_and_is_placed_there() -> None:
    whole = wanting(needs(4), needs(4))
    async with running([whole], []) as world:
        await world.until(lambda: whole in world.resmgr.reservations)
        assert not world.resmgr.failures and world.engine.rounds.waiting == 1
        assert world.reservations.reserved[reservation(whole)].members == whole.shape
        assert "1 of the 2 hosts reserved for its 2 tasks" in world.resmgr.reservations[whole]
        world.reservations.given[reservation(whole)] = [host(0), host(1)]
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1)]
    assert not world.resmgr.failures and not world.hostmgr.released


async def test_a_gang_that_does_not_want_a_reservation_goes_back() -> None:
    one = gang(needs(4))
    async with running([one], []) as world:
        await world.idle()
    assert one in world.resmgr.failures and not world.reservations.reserved


async def test_a_gang_that_fits_on_no_empty_host_has_none_reserved() -> None:
    one = wanting(needs(4))

    def lacking(world: World) -> None:
        world.hostmgr.shortage = Shortage(Lack.RESOURCE, "cpu", 4000, 2000, 1)
        world.hostmgr.counts = {"insufficient_resources": 1}

    async with running([one], [], prepare=lacking) as world:
        await world.idle()
    assert world.resmgr.shortages[one] is not None and not world.reservations.reserved


async def test_a_gang_that_is_gone_frees_its_hosts_at_once() -> None:
    whole = wanting(needs(4), needs(4))
    async with running([whole], []) as world:
        await world.until(lambda: whole in world.resmgr.reservations)
        world.resmgr.gone.add(reservation(whole))
        await world.idle()
        await world.until(lambda: not world.reservations.reserved)
    assert not world.resmgr.failures and not world.resmgr.placements


async def test_hosts_that_come_for_a_gang_which_is_gone_are_released() -> None:
    whole = wanting(needs(4), needs(4))
    async with running([whole], []) as world:
        await world.until(lambda: whole in world.resmgr.reservations)
        world.resmgr.gone.update(task.run_id for task in whole.tasks)
        world.reservations.given[reservation(whole)] = [host(0), host(1)]
        await world.idle()
    assert not world.hostmgr.claimed


async def test_a_gang_of_two_classes_gets_hosts_of_both() -> None:
    whole = wanting(needs(2, where="rack=r1"), needs(1))
    async with running([whole], []) as world:
        await world.until(lambda: whole in world.resmgr.reservations)
        world.reservations.given[reservation(whole)] = [host(0, where="rack=r1"), host(1)]
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1)]


async def test_reserved_hosts_that_do_not_suffice_are_released_and_the_gang_goes_back() -> None:
    whole = wanting(needs(4), needs(4))
    async with running([whole], []) as world:
        await world.until(lambda: whole in world.resmgr.reservations)
        world.reservations.given[reservation(whole)] = [host(0), host(1, cpu=1)]
        await world.idle()
    assert whole in world.resmgr.failures
    assert not world.hostmgr.claimed


async def test_reservations_go_on_after_a_failure() -> None:
    one = wanting(needs(4))

    def failing(world: World) -> None:
        world.reservations.errors = [Unavailable("away")] * 3

    async with running([one], [], prepare=failing) as world:
        await world.until(lambda: one in world.resmgr.reservations)
    assert not world.resmgr.failures


@pytest.mark.parametrize("in_time", [True, False])
async def test_tasks_that_end_in_time_are_placed_on_reserved_hosts(in_time: bool) -> None:
    ours, theirs = [gang() for _ in range(3)], [gang(job=OTHER) for _ in range(2)]

    def reserved(world: World) -> None:
        world.hostmgr.busy = 1
        world.reservations.open = [host(7)]
        world.reservations.in_time = {OTHER} if in_time else set()

    async with running([*ours, *theirs], [], prepare=reserved) as world:
        await world.idle()
    placed = set(theirs) if in_time else set()
    assert world.resmgr.hosts() == ([("host-7", 2)] if in_time else [])
    assert set(world.resmgr.failures) == {*ours, *theirs} - placed
    assert len(world.reservations.backfills) == 2, "once for each job"


async def test_a_gang_in_line_for_a_reservation_may_use_hosts_of_others() -> None:
    one = wanting(needs(4))

    def in_line(world: World) -> None:
        world.reservations.progress = Reserved(ahead=1)
        world.hostmgr.busy = 1

    async with running([one], [], prepare=in_line) as world:
        await world.until(lambda: one in world.resmgr.reservations)
        world.reservations.in_time = {one.job_id}
        world.reservations.open = [host(7)]
        await world.idle()
        await world.until(lambda: not world.reservations.reserved)
    assert world.resmgr.hosts() == [("host-7", 1)] and not world.resmgr.failures


async def test_reserved_hosts_are_not_tried_again_at_once_where_none_is_open() -> None:
    gangs = [gang(job=f"00000000-0000-4000-8000-{number:012}") for number in range(10)]
    async with running(gangs, [], prepare=lambda world: setattr(world.hostmgr, "busy", 1)) as world:
        await world.idle()
    assert set(world.resmgr.failures) == set(gangs)
    assert len(world.reservations.backfills) < 10


async def test_tasks_are_not_placed_on_reserved_hosts_where_no_host_would_do() -> None:
    one = gang()
    async with running([one], [], prepare=lambda w: w.reservations.open.append(host(7))) as world:
        await world.idle()
    assert one in world.resmgr.failures and not world.reservations.backfills


@pytest.mark.parametrize(
    ("reserved", "tasks", "text"),
    [
        (
            Reserved(8, 3, ("a", "b"), 1500.0, 700.0),
            64,
            "3 of the 8 hosts reserved for its 64 tasks have room; the next one has in about 12 min; "
            "all have in about 25 min",
        ),
        (
            Reserved(2, 1, ("a", "b"), 30.0, 30.0),
            2,
            "1 of the 2 hosts reserved for its 2 tasks has room; the next one has in less than a minute",
        ),
        (
            Reserved(2, 1, ("a", "b")),
            2,
            "1 of the 2 hosts reserved for its 2 tasks has room; when the next one has is not known, because "
            "tasks there have no maxRunningTime",
        ),
        (
            Reserved(1, 0, ("a",)),
            1,
            "host a is reserved for it; when it has room is not known, because tasks there have no "
            "maxRunningTime",
        ),
        (Reserved(1, 0, ("a",), 9000.0), 1, "host a is reserved for it and has room in about 3 h"),
        (Reserved(ahead=1), 1, "waits until hosts can be reserved for it: another gang has waited longer"),
        (Reserved(ahead=3), 1, "waits until hosts can be reserved for it: 3 other gangs have waited longer"),
    ],
)
def test_reasons_for_users(reserved: Reserved, tasks: int, text: str) -> None:
    assert describe(reserved, tasks) == text
