"""What was preempted: the last gangs in memory, earlier ones and those of earlier leaders from the store."""

from __future__ import annotations

import asyncio

import pytest

from peloton.clock import ManualClock
from peloton.errors import Unavailable
from peloton.model.ids import Run
from peloton.model.resources import Resources
from resmgr.core.preemption.policy import Victim
from resmgr.drivers import preemption_log
from resmgr.drivers.preemption_log import Preempted, PreemptionLog
from tests.unit.blocks import Blocks

JOB = "11111111-1111-4111-8111-111111111111"


def victim(number: int, pool: str = "/a") -> Victim:
    nothing = Resources()
    return Victim(
        (Run(JOB, number, 1),), (0,), pool, "/b", nothing, nothing, ("cpu",), "cross_pool", "over by 3"
    )


class Term:
    """The log of a leader."""

    def __init__(self, blocks: Blocks, clock: ManualClock) -> None:
        self.log = PreemptionLog()
        self.log.keep(blocks, clock)
        self._clock = clock

    def note(self, *numbers: int, pool: str = "/a") -> None:
        for number in numbers:
            self._clock.now += 1
            self.log.note([victim(number, pool)], self._clock.wall())

    async def write(self) -> None:
        assert self.log.stored is not None
        await self.log.stored.write()

    async def restore(self, count: int) -> None:
        running = asyncio.create_task(self.log.run())
        async with asyncio.timeout(60):
            while len(await self.last(limit=10_000)) < count:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        running.cancel()

    async def last(self, limit: int = 100, before: float = 0.0, pool: str = "") -> list[int]:
        def wanted(gang: Preempted) -> bool:
            return pool in ("", gang.pool)

        return [gang.instances[0] for gang in await self.log.last(wanted, limit, before)]


async def test_the_next_leader_tells_what_was_preempted_before_it() -> None:
    blocks, clock = Blocks(), ManualClock()
    first = Term(blocks, clock)
    first.note(1, 2)
    await first.write()
    second = Term(blocks, clock)
    second.note(3)
    await second.restore(3)
    assert await second.last() == [3, 2, 1]
    assert await second.last(limit=2) == [3, 2]
    (newest, *_, oldest) = await second.log.last(lambda _: True, 10)
    assert (oldest.pool, oldest.benefits, oldest.policy, oldest.reason, oldest.job_id, oldest.size) == (
        *("/a", "/b", "cross_pool", "over by 3"),
        *(JOB, 1),
    )
    assert await second.last(before=newest.at) == [2, 1]


async def test_older_ones_than_memory_has_are_read_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preemption_log, "RECENT", 3)
    blocks, clock = Blocks(), ManualClock()
    term = Term(blocks, clock)
    term.note(*range(5))
    term.note(5, 6, 7, pool="/c")
    await term.write()
    assert await term.last() == [7, 6, 5]
    reads = blocks.reads
    assert await term.last(pool="/a") == [] and blocks.reads == reads
    assert await term.last(before=clock.wall() / 1e9 + 60) == [7, 6, 5, 4, 3, 2, 1, 0]
    assert await term.last(before=clock.wall() / 1e9 + 60, limit=4) == [7, 6, 5, 4]
    assert await term.last(before=clock.wall() / 1e9 + 60, pool="/a") == [4, 3, 2, 1, 0]


async def test_a_store_that_is_away_keeps_nobody_from_preempting(caplog: pytest.LogCaptureFixture) -> None:
    blocks, clock = Blocks(), ManualClock()
    blocks.away = True
    term = Term(blocks, clock)
    term.note(1)
    running = asyncio.create_task(term.log.run())
    async with asyncio.timeout(60):
        while "is not known: the database is away" not in caplog.text:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    running.cancel()
    assert await term.last() == [1]
    with pytest.raises(Unavailable):
        assert term.log.stored is not None
        await term.log.stored.read(1e12, 1000)
