from __future__ import annotations

import asyncio

import pytest

from peloton.errors import RemoteFailure, Unavailable
from peloton.model.shortage import Lack, Shortage
from placement.core.host_estimates import FIRST_GUESS
from tests.unit.placement.fakes import World, running
from tests.unit.placement.samples import SPREAD, gang, host, needs


async def test_gangs_are_packed_and_unused_hosts_released() -> None:
    gangs = [gang() for _ in range(6)]
    hosts = [host(i, cpu=8) for i in range(9)]
    async with running(gangs, hosts, prepare=lambda w: setattr(w.hostmgr, "most", 2)) as world:
        await world.idle()
    assert world.resmgr.placed() == {one.tasks[0].run_id for one in gangs}
    assert world.resmgr.hosts() == [("host-0", 6)]
    assert world.resmgr.calls == 1, "one call for all"
    assert set(world.hostmgr.claimed) == {"offer-0"}


async def test_hosts_are_acquired_until_all_are_placed() -> None:
    gangs = [gang() for _ in range(3 * FIRST_GUESS)]
    async with running(gangs, [host(i, cpu=1) for i in range(30)]) as world:
        await world.idle()
    assert len(world.resmgr.placed()) == len(gangs)
    assert not world.resmgr.failures
    assert len(world.hostmgr.requested) == 2, "a guess, and then what the hosts' estimates come to"


async def test_gang_without_a_host_is_returned_with_the_reason() -> None:
    large = [gang(needs(cpu=16)) for _ in range(3)]
    small = [gang() for _ in range(5)]
    async with running([*large, *small], [host(0), host(1)]) as world:
        await world.idle()
    told = "no host fits: 2 hosts with too little free; needs 16 cores free on one host"
    assert world.resmgr.failures == dict.fromkeys(large, told)
    assert len(world.resmgr.placed()) == 5
    assert sum(asked == needs(cpu=16) for asked, _ in world.hostmgr.requested) == 1, "once for all of them"


async def test_without_hosts() -> None:
    one = gang()
    async with running([one], []) as world:
        await world.idle()
    assert world.resmgr.failures == {one: "no host fits: there are no hosts"}


async def test_a_full_cluster_takes_what_it_can() -> None:
    gangs = [gang() for _ in range(10)]
    async with running(gangs, [host(0), host(1)]) as world:
        await world.idle()
    assert len(world.resmgr.placed()) == 8
    assert list(world.resmgr.failures) == gangs[8:]


async def test_a_gang_collects_hosts_until_it_fits_whole() -> None:
    whole = gang(*[needs()] * 10)
    async with running(
        [whole], [host(i) for i in range(5)], prepare=lambda w: setattr(w.hostmgr, "most", 1)
    ) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 4), ("host-1", 4), ("host-2", 2)]
    assert world.resmgr.calls == 1, "its placements go in one call"


async def test_gang_that_does_not_fit_whole_is_returned() -> None:
    whole = gang(*[needs()] * 10)
    async with running([whole], [host(0), host(1)]) as world:
        await world.idle()
    assert world.resmgr.failures == {
        whole: "no host fits: there are no hosts; room for 8 of 10 tasks that belong together"
    }
    assert not world.hostmgr.claimed
    assert sorted(world.hostmgr.released) == ["host-0", "host-1"]


async def test_a_gang_of_different_constraints_takes_hosts_of_both() -> None:
    whole = gang(needs(cpu=2, where="rack=r1"), needs(cpu=1))
    async with running([whole], [host(0), host(1)]) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1)]
    assert {asked.host_class.constraint for asked, _ in world.hostmgr.requested} == {b"", b"rack=r1"}


async def test_spread_uses_a_host_once_per_placement() -> None:
    gangs = [gang(strategy=SPREAD) for _ in range(5)]

    def coming_back(world: World) -> None:
        report = world.resmgr.report

        async def report_and_free(placements):  # type: ignore[no-untyped-def]
            answer = await report(placements)
            world.hostmgr.free += [
                world.hostmgr.claimed.pop(placement.host.offer_id) for placement in placements
            ]
            return answer

        world.resmgr.report = report_and_free  # type: ignore[method-assign]

    async with running(gangs, [host(i) for i in range(3)], prepare=coming_back) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1), ("host-2", 1)]
    assert set(world.resmgr.failures.values()) == {
        "no host fits: 3 just got a task of the job, which is spread"
    }
    assert not world.hostmgr.claimed


async def test_busy_hosts_are_awaited() -> None:
    one = gang()
    async with running([one], [], patience=30, prepare=lambda w: setattr(w.hostmgr, "busy", 1)) as world:
        await world.until(lambda: len(world.hostmgr.requested) >= 2)
        assert not world.resmgr.failures
        world.hostmgr.free.append(host(0))
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1)]


async def test_wait_for_busy_hosts_ends() -> None:
    one = gang()
    async with running([one], [], patience=0.3, prepare=lambda w: setattr(w.hostmgr, "busy", 2)) as world:
        await world.idle()
    assert world.resmgr.failures == {
        one: "no host fits: 2 hosts claimed or not in service; "
        "waits for hosts that are claimed or not in service"
    }
    assert len(world.hostmgr.requested) > 1


async def test_the_reason_says_for_whom_hosts_are_held() -> None:
    one, text = gang(), "1 host held for instances 0-29 of JOB until 2026-01-02T10:20:30Z"

    def prepare(world: World) -> None:
        world.hostmgr.counts, world.hostmgr.held = {"held": 1}, (text,)

    async with running([one], [], patience=0.1, prepare=prepare) as world:
        await world.idle()
    assert world.resmgr.failures[one].endswith(f"; {text}")


async def test_placement_refused_by_resmgr_releases_its_host() -> None:
    gangs = [gang() for _ in range(8)]

    def gone(world: World) -> None:
        """The first four, which are all of host-0, and one of host-1."""
        world.resmgr.gone = {one.tasks[0].run_id for one in gangs[:5]}

    async with running(gangs, [host(0), host(1)], prepare=gone) as world:
        await world.idle()
    assert world.hostmgr.released == ["host-0"]
    assert set(world.hostmgr.claimed) == {"offer-1"}


async def test_unavailable_hostmgr_returns_gangs() -> None:
    first, later = gang(), gang()
    async with running(
        [first], [host(0)], prepare=lambda w: w.hostmgr.errors.append(Unavailable("hostmgr is away"))
    ) as world:
        await world.until(lambda: first in world.resmgr.failures)
        world.resmgr.ready.append(later)
        await world.idle()
    assert world.resmgr.failures == {first: "hosts cannot be claimed: hostmgr is away"}
    assert world.resmgr.placed() == {later.tasks[0].run_id}


async def test_unavailable_resmgr_releases_hosts() -> None:
    first, later = gang(), gang()

    def away(world: World) -> None:
        world.resmgr.dequeue_errors += [Unavailable("away"), RemoteFailure("in disorder")]
        world.resmgr.report_errors.append(Unavailable("away"))

    async with running([first], [host(0)], prepare=away) as world:
        await world.until(lambda: bool(world.hostmgr.released))
        assert not world.hostmgr.claimed
        world.resmgr.ready.append(later)
        await world.idle()
    assert world.resmgr.placed() == {later.tasks[0].run_id}


async def test_undelivered_results_are_sent_later() -> None:
    """It still hears of this engine: the lease goes on."""
    placed, failed = gang(), gang(needs(99))

    def away(world: World) -> None:
        world.resmgr.report_errors += [Unavailable("away") for _ in range(4)]

    async with running([placed, failed], [host(0)], keep_alive=0.05, prepare=away) as world:
        await world.until(lambda: len(world.resmgr.failures) == 2)
        assert not world.hostmgr.claimed
    assert world.resmgr.failures[placed] == "placement not reported: away"
    assert world.resmgr.failures[failed].startswith("no host fits: 1 host")


async def test_hosts_are_released_again_where_hostmgr_did_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their claims would last for minutes."""
    monkeypatch.setattr("placement.engine.FIRST_PAUSE", 0.001)

    def away(world: World) -> None:
        world.hostmgr.release_errors += [Unavailable("away"), TimeoutError()]

    async with running([gang(*[needs()] * 10)], [host(0), host(1)], prepare=away) as world:
        await world.until(lambda: sorted(world.hostmgr.released) == ["host-0", "host-1"])
        assert not world.hostmgr.claimed


async def test_stop_releases_hosts_being_acquired() -> None:
    hold = asyncio.Event()
    async with running([gang()], [host(0)], prepare=lambda w: setattr(w.hostmgr, "hold", hold)) as world:
        await world.until(lambda: bool(world.hostmgr.claimed))
        asyncio.get_running_loop().call_later(0.05, hold.set)
    assert world.hostmgr.released == ["host-0"]
    assert not world.resmgr.placements


async def test_no_more_gangs_are_taken_than_may_wait() -> None:
    hold = asyncio.Event()
    gangs = [gang() for _ in range(7)]
    async with running(
        gangs, [host(0), host(1)], max_waiting=4, prepare=lambda w: setattr(w.hostmgr, "hold", hold)
    ) as world:
        await world.until(lambda: bool(world.hostmgr.claimed))
        assert len(world.resmgr.ready) == 3
        hold.set()
        await world.idle()
    assert world.resmgr.dequeued == [4, 3]
    assert len(world.resmgr.placed()) == 7


async def test_gang_is_returned_at_its_deadline() -> None:
    one = gang()
    async with running(
        [one], [], patience=60, longest=0.2, prepare=lambda w: setattr(w.hostmgr, "busy", 1)
    ) as world:
        await world.idle()
    assert world.resmgr.failures == {
        one: "no host fits: 1 host claimed or not in service; "
        "waits for hosts that are claimed or not in service"
    }


async def test_thousands_of_gangs_take_few_calls() -> None:
    gangs = [gang() for _ in range(4000)]
    async with running(gangs, [host(i) for i in range(1000)]) as world:
        await world.idle()
    assert len(world.resmgr.placed()) == 4000
    assert len(world.hostmgr.requested) + world.resmgr.calls <= 20


async def test_engine_that_holds_gangs_renews_its_lease() -> None:
    def hold(world: World) -> None:
        world.hostmgr.hold = asyncio.Event()
        world.resmgr.report_errors = [Unavailable("no leader")]

    one = gang()
    async with running([one], [host(0)], max_waiting=1, keep_alive=0.01, prepare=hold) as world:
        await world.until(lambda: world.resmgr.empty_calls >= 3)
        assert not world.resmgr.placed(), "it is still at work, and a call that failed did not stop it"
        assert world.hostmgr.hold is not None
        world.hostmgr.hold.set()
        await world.idle()
        assert world.resmgr.placed() == {one.tasks[0].run_id}


async def test_gang_that_fits_no_empty_host_is_returned_as_infeasible() -> None:
    lacking = Shortage(Lack.RESOURCE, "cpu", 16_000, 4_000, 2)

    def prepare(world: World) -> None:
        world.hostmgr.counts = {"insufficient_resources": 2}
        world.hostmgr.shortage = lacking

    large = [gang(needs(cpu=16)) for _ in range(3)]
    async with running(large, [host(0), host(1)], patience=60.0, prepare=prepare) as world:
        await world.idle()
    assert world.resmgr.shortages == dict.fromkeys(large, lacking)
    assert [shape.members for shape in world.hostmgr.compared] == [large[0].shape], "once for all alike"


async def test_task_that_waits_for_a_free_host_is_not_checked() -> None:
    async with running([gang(needs(cpu=16))], [host(0)]) as world:
        await world.idle()
    assert len(world.resmgr.failures) == 1
    assert not world.hostmgr.compared


async def test_partly_placed_gang_is_checked_for_feasibility() -> None:
    whole = gang(*[needs(cpu=3)] * 3)
    async with running([whole], [host(0), host(1)]) as world:
        await world.idle()
    assert world.resmgr.shortages == {whole: None}
    assert [shape.members for shape in world.hostmgr.compared] == [whole.shape]
