"""Reads of all pools: shared by calls, and never older than the call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from peloton.errors import Unavailable
from peloton.model.pool import PoolConfig
from storage.codec import POOL
from storage.pool_reads import PoolReads


def pool(number: int, name: str = "") -> PoolConfig:
    return PoolConfig(id=f"id-{number}", parent="root", name=name or f"pool-{number}")


class Table:
    """A table of pools whose reads wait until they are let go."""

    def __init__(self, pools: Sequence[PoolConfig]) -> None:
        self.pools = list(pools)
        self.reads = 0
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()
        self.error: Exception | None = None

    async def read(self) -> Sequence[tuple[str]]:
        self.reads += 1
        self.begun.set()
        rows = [(POOL.encode(each),) for each in self.pools]
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return rows


async def test_a_call_sees_what_was_written_before_it_though_a_read_is_under_way() -> None:
    table = Table([pool(1)])
    reads = PoolReads(table.read)
    table.go.clear()
    first = asyncio.ensure_future(reads.all())
    await table.begun.wait()
    table.pools.append(pool(2))
    others = [asyncio.ensure_future(reads.all()) for _ in range(50)]
    table.go.set()
    assert {each.id for each in await first} <= {"id-1", "id-2"}
    for each in await asyncio.gather(*others):
        assert [found.id for found in each] == ["id-1", "id-2"]
    assert table.reads == 2  # fifty calls share one


async def test_what_has_not_changed_is_the_same_object() -> None:
    table = Table([pool(1), pool(2)])
    reads = PoolReads(table.read)
    before = await reads.all()
    assert await reads.all() is before
    table.pools[1] = pool(2, "other")
    after = await reads.all()
    assert [each.name for each in after] == ["pool-1", "other"]
    assert after[0] is before[0]
    table.pools.pop(0)
    assert [each.name for each in await reads.all()] == ["other"]


async def test_a_read_that_fails_fails_its_calls_only() -> None:
    table = Table([pool(1)])
    reads = PoolReads(table.read)
    table.error = Unavailable("no server answers")
    with pytest.raises(Unavailable):
        await reads.all()
    table.error = None
    assert [each.id for each in await reads.all()] == ["id-1"]
