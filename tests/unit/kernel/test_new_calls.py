"""New calls come in while work holds the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from peloton.new_calls import (
    HELD_SECONDS,
    MANY_CALLS,
    MANY_SECONDS,
    MOST_ITERATIONS,
    QUIET_ITERATIONS,
    NewCalls,
)

CALLS = 100
BETWEEN = 150
"""Pieces: threads of gRPC that a busy machine keeps waiting take one for each call, and some besides."""
AT_ONCE = 50
"""Pieces: fewer are done where gRPC takes several calls at once. On a busy machine two calls share one."""


def hold_the_loop(seconds: float) -> None:
    """Hold the event loop, and not the threads of gRPC."""
    time.sleep(seconds)


async def pieces_until_answered(new_calls: NewCalls, between: Callable[[], Awaitable[None]]) -> int:
    """Return how many pieces of work, 12 ms each, are done until calls that wait already are answered."""

    async def method(request: bytes, context: object) -> bytes:
        new_calls.note()
        return request

    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(method)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"Call": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pieces = 0
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            await asyncio.to_thread(grpc.channel_ready_future(channel).result, 30)
            call: Any = channel.unary_unary("/test/Call")
            answers = [call.future(b"") for _ in range(CALLS)]
            while not all(answer.done() for answer in answers):
                hold_the_loop(0.012)
                pieces += 1
                await between()
            assert all(answer.result() == b"" for answer in answers)
    finally:
        await server.stop(None)
    return pieces


async def test_calls_that_wait_come_in_between_few_pieces_of_work() -> None:
    new_calls = NewCalls()
    assert await pieces_until_answered(new_calls, lambda: new_calls.let_in(0.012)) < BETWEEN


async def test_without_it_each_call_waits_for_two_pieces_of_work() -> None:
    """If this fails, gRPC's server has learnt to take several calls at once: then `NewCalls` may go."""
    assert await pieces_until_answered(NewCalls(), lambda: asyncio.sleep(0)) > AT_ONCE


class Iterations:
    """Counts the iterations of the event loop, and notes a call in each of some of them."""

    def __init__(self, new_calls: NewCalls, calls: int) -> None:
        self.seen = 0
        self._new_calls = new_calls
        self._calls = calls

    async def count(self) -> None:
        """Count for ever."""
        while True:
            await asyncio.sleep(0)
            self.seen += 1
            if self._calls:
                self._calls -= 1
                self._new_calls.note()


@pytest.mark.parametrize(
    ("calls", "fewest", "most"),
    [
        (0, QUIET_ITERATIONS, QUIET_ITERATIONS + 2),
        (50, 50 + QUIET_ITERATIONS - 2, 50 + QUIET_ITERATIONS + 2),
        (10**6, MOST_ITERATIONS, MOST_ITERATIONS + 2),
    ],
)
async def test_the_loop_runs_until_no_call_begins(calls: int, fewest: int, most: int) -> None:
    new_calls = NewCalls()
    iterations = Iterations(new_calls, calls)
    counting = asyncio.create_task(iterations.count())
    await new_calls.let_in(HELD_SECONDS)
    assert fewest <= iterations.seen <= most
    seen = iterations.seen
    await new_calls.let_in(HELD_SECONDS * 0.6)  # short pieces pay for it together
    assert iterations.seen == seen + 1
    await new_calls.let_in(HELD_SECONDS * 0.6)
    assert iterations.seen > seen + QUIET_ITERATIONS
    counting.cancel()


def test_many_calls_are_so_many_within_a_short_time() -> None:
    now = 0.0
    new_calls = NewCalls(lambda: now)
    for _ in range(MANY_CALLS - 1):
        assert not new_calls.many
        new_calls.note()
    assert not new_calls.many
    now = MANY_SECONDS
    new_calls.note()
    assert new_calls.many
    now += 0.001
    assert not new_calls.many, "the first of them began too long ago"


@pytest.mark.parametrize(("rate", "many"), [(9.0, False), (11.0, True)])
def test_it_is_the_rate_of_calls_that_makes_them_many(rate: float, many: bool) -> None:
    now = 0.0
    new_calls = NewCalls(lambda: now)
    for _ in range(100):
        now += 1 / rate
        new_calls.note()
    assert new_calls.many is many
    now += MANY_SECONDS
    assert not new_calls.many, "they have ended"
