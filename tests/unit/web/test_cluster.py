"""Answers that are shared for a short time."""

from __future__ import annotations

import asyncio

import pytest

from peloton.errors import Unavailable
from peloton.web.cluster import MOST_CACHED, Shared


class Work:
    def __init__(self) -> None:
        self.times = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self) -> int:
        self.times += 1
        await self.gate.wait()
        return self.times


async def test_what_many_want_at_once_is_read_once() -> None:
    shared, work = Shared(), Work()
    work.gate.clear()
    waiting = [asyncio.create_task(shared.get("a", 0.0, work.run)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    work.gate.set()
    assert await asyncio.gather(*waiting[1:]) == [1] * 49
    assert work.times == 1


async def test_an_answer_is_used_again_until_it_is_too_old_or_forgotten() -> None:
    now = 0.0
    shared, work = Shared(lambda: now), Work()
    assert await shared.get("a", 1.0, work.run) == 1
    now = 1.0
    assert await shared.get("a", 1.0, work.run) == 1
    now = 1.1
    assert await shared.get("a", 1.0, work.run) == 2
    assert await shared.get("b", 1.0, work.run) == 3
    shared.forget()
    assert await shared.get("a", 1.0, work.run) == 4


async def test_a_failure_is_not_kept() -> None:
    shared, work = Shared(), Work()

    async def fail() -> int:
        raise Unavailable("not now")

    with pytest.raises(Unavailable):
        await shared.get("a", 60.0, fail)
    assert await shared.get("a", 60.0, work.run) == 1


async def test_no_more_than_so_many_answers_are_kept() -> None:
    shared, work = Shared(), Work()
    for number in range(MOST_CACHED + 10):
        await shared.get(number, 60.0, work.run)
    assert len(shared._held) == MOST_CACHED
