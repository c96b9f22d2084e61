"""Calls of principals with many connections pause while new calls wait inside gRPC."""

from __future__ import annotations

import asyncio
from functools import partial

from peloton.rpc.intake import MEASURED_SECONDS, PAUSE_SECONDS, Intake
from peloton.rpc.resuming import (
    BATCH,
    BEHIND_SECONDS,
    FEW_CONNECTIONS,
    LONGEST_PAUSE_SECONDS,
    MOST_PRINCIPALS,
    RECENT_SECONDS,
    Connections,
    Resuming,
    Ticket,
)

DEADLINE = 60.0


def tickets(count: int) -> list[Ticket]:
    loop = asyncio.get_running_loop()
    return [loop.create_future() for _ in range(count)]


class Scene:
    """Resuming with a delay and a clock that the test sets."""

    def __init__(self) -> None:
        self.delay, self.now = 0.0, 100.0
        self.resuming = Resuming(lambda now: self.delay, lambda: self.now)


async def test_calls_go_on_in_their_order_while_new_ones_do_not_wait() -> None:
    scene, calls = Scene(), tickets(3 * BATCH + 1)
    order: list[int] = []
    for number, call in enumerate(calls):
        call.add_done_callback(partial(lambda number, _: order.append(number), number))
    scene.resuming.add(calls)
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*calls)
    assert order == sorted(order)
    late = tickets(1)
    scene.resuming.add(late)
    assert late[0].done()


async def test_a_batch_is_followed_by_a_pause_while_new_calls_wait() -> None:
    scene, calls = Scene(), tickets(2 * BATCH)
    scene.delay = BEHIND_SECONDS * 2
    scene.resuming.add(calls)
    for _ in range(20):
        await asyncio.sleep(0)
    assert [call.done() for call in calls] == [True] * BATCH + [False] * BATCH
    scene.delay = 0.0
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*calls)


async def test_the_pause_ends_also_where_new_calls_wait_for_long() -> None:
    scene, calls = Scene(), tickets(2 * BATCH)
    scene.delay = BEHIND_SECONDS * 2
    scene.resuming.add(calls)
    scene.now += LONGEST_PAUSE_SECONDS
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*calls)


async def test_a_call_whose_caller_has_gone_is_forgotten() -> None:
    scene, calls = Scene(), tickets(BATCH + 2)
    scene.delay = BEHIND_SECONDS * 2
    scene.resuming.add(calls)
    assert not scene.resuming.withdraw(calls[0])  # it goes on already
    assert scene.resuming.withdraw(calls[-2])
    calls[-2].cancel()
    scene.delay = 0.0
    async with asyncio.timeout(DEADLINE):
        await calls[-1]


def test_connections_count_while_they_are_recent_and_by_principal() -> None:
    connections = Connections()
    assert not any(connections.many("a", f"port {each}", 0.0) for each in range(FEW_CONNECTIONS))
    assert not connections.many("b", "port 9", 0.0)
    assert not connections.many("a", "port 0", 1.0)
    assert connections.many("a", "port 7", 1.0)
    assert connections.many("a", "port 8", 2.0)
    assert not connections.many("a", "port 8", 3.0 + RECENT_SECONDS)


def test_principals_that_call_no_more_are_forgotten() -> None:
    connections = Connections()
    for each in range(FEW_CONNECTIONS + 1):
        connections.many("first", f"port {each}", 0.0)
    for each in range(MOST_PRINCIPALS):
        connections.many(f"user {each}", "port", 0.0)
    assert not connections.many("first", "port", 0.0)


async def test_the_delay_is_that_of_the_probe_under_way_or_of_the_last_one() -> None:
    now = 10.0
    intake, sent, answer = Intake(lambda: now), asyncio.Event(), asyncio.Event()

    async def probe() -> None:
        sent.set()
        await answer.wait()
        answer.clear()

    measuring = asyncio.create_task(intake.measure(probe))
    assert intake.delay(now) == 0.0
    intake.want(now)
    async with asyncio.timeout(DEADLINE):
        await sent.wait()
        now = 11.5
        assert intake.delay(now) == 1.5
        sent.clear()
        answer.set()
        await sent.wait()
    assert intake.delay(now) == 1.5
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)


async def test_it_is_measured_only_for_a_while_after_somebody_wanted_it() -> None:
    probed, now = asyncio.Queue[None](), 10.0

    async def probe() -> None:
        nonlocal now
        probed.put_nowait(None)
        now += 2 * MEASURED_SECONDS

    intake = Intake(lambda: now)
    measuring = asyncio.create_task(intake.measure(probe))
    async with asyncio.timeout(DEADLINE):
        for _ in range(2):
            intake.want(now)
            await probed.get()
    await asyncio.sleep(2 * PAUSE_SECONDS)
    assert probed.empty()
    assert intake.delay(now) == 0.0
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)
