"""The account of jobs: rows by job and hour, and periods of groups that are closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from peloton.errors import Fenced
from peloton.model.accounting import DAY_SECONDS, HOUR_SECONDS, Amounts, Group, JobHour, PeriodUsage
from storage.interface import Store
from tests.contract.storage.conftest import Opener

T = TypeVar("T")
DAY = 20_000 * DAY_SECONDS
TEAM = Group("pool-1", "ann", (("team", "a b"), ("zone", "")))
NOBODY = Group("pool-2", "")
BIG = 10**17
"""More core seconds, in millionths, than a JSON number of most programs holds exactly."""


def row(job: str, hour: int, total: int = BIG + 1) -> JobHour:
    return JobHour(job, DAY + hour * HOUR_SECONDS, TEAM, Amounts(1), Amounts(total, 2, 3, 4, 5, 6, 7, 8))


def period(start: int, seconds: int = HOUR_SECONDS, group: Group = TEAM) -> PeriodUsage:
    return PeriodUsage(seconds, start, group, Amounts(BIG + start, 0, -3))


async def every(pages: AsyncIterator[Sequence[T]]) -> list[T]:
    return [each async for page in pages for each in page]


async def test_rows_of_jobs_are_replaced_and_kept_for_other_handles(open_handle: Opener) -> None:
    store = await open_handle()
    assert await store.usage.last(["a"]) == {}
    await store.usage.write([row("a", 0), row("a", 1), row("b", 1)])
    await store.usage.write([row("a", 1, 9), row("a", 1, 9)])
    other = await open_handle()
    assert await other.usage.last(["a", "b", "c"]) == {"a": row("a", 1, 9), "b": row("b", 1)}
    assert await every(other.usage.of_hour(DAY + HOUR_SECONDS)) == [row("a", 1, 9), row("b", 1)]
    assert await every(other.usage.of_hour(DAY + 5)) == []
    assert list(await other.usage.of_job("a", DAY)) == [row("a", 0), row("a", 1, 9)]
    assert list(await other.usage.of_job("a", DAY + 1)) == [row("a", 1, 9)]


async def test_an_hour_of_many_jobs_comes_in_pages(store: Store) -> None:
    many = [row(f"{number:06}", 0) for number in range(5_003)]
    await store.usage.write(many)
    pages = [page async for page in store.usage.of_hour(DAY)]
    assert max(map(len, pages)) <= 5_000
    assert sorted((each for page in pages for each in page), key=lambda each: each.job_id) == many


async def test_periods_are_closed_once_or_again(store: Store) -> None:
    assert await store.usage.closed(HOUR_SECONDS) is None
    await store.usage.close(HOUR_SECONDS, DAY, [period(DAY), period(DAY, group=NOBODY)])
    await store.usage.close(HOUR_SECONDS, DAY, [period(DAY, group=NOBODY)])
    await store.usage.close(HOUR_SECONDS, DAY + HOUR_SECONDS, [])
    await store.usage.close(DAY_SECONDS, DAY, [period(DAY, DAY_SECONDS)])
    assert await store.usage.closed(HOUR_SECONDS) == DAY + HOUR_SECONDS
    assert await store.usage.closed(DAY_SECONDS) == DAY
    assert await every(store.usage.periods(HOUR_SECONDS, DAY, DAY + DAY_SECONDS)) == [
        period(DAY, group=NOBODY)
    ]
    assert await every(store.usage.periods(DAY_SECONDS, DAY, DAY + 1)) == [period(DAY, DAY_SECONDS)]


async def test_periods_come_in_order_and_within_bounds(store: Store) -> None:
    starts = [DAY + hour * HOUR_SECONDS for hour in range(100)]
    for start in reversed(starts):
        await store.usage.close(HOUR_SECONDS, start, [period(start), period(start, group=NOBODY)])
    found = await every(store.usage.periods(HOUR_SECONDS, starts[3], starts[90]))
    assert [each.start for each in found] == [start for start in starts[3:90] for _ in range(2)]
    assert {each.group for each in found} == {TEAM, NOBODY}
    assert await store.usage.closed(HOUR_SECONDS) in (starts[0], starts[-1])
    assert await every(store.usage.periods(HOUR_SECONDS, starts[3], starts[3])) == []


async def test_a_leader_of_an_older_term_writes_nothing(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmanager", 3)
    await old.usage.write([row("a", 0)])
    await new.begin_term("jobmanager", 4)
    with pytest.raises(Fenced):
        await old.usage.write([row("a", 1)])
    with pytest.raises(Fenced):
        await old.usage.close(HOUR_SECONDS, DAY, [])
    assert await new.usage.last(["a"]) == {"a": row("a", 0)}
    assert await new.usage.closed(HOUR_SECONDS) is None


async def test_old_rows_of_sqlite_are_dropped(store: Store) -> None:
    if type(store).__name__ != "SqliteStore":
        return  # Cassandra drops rows by itself, by their age
    await store.usage.write([row("a", 0), row("a", 1)])
    for start in (DAY, DAY + HOUR_SECONDS):
        await store.usage.close(HOUR_SECONDS, start, [period(start)])
    for start in (DAY, DAY + DAY_SECONDS):
        await store.usage.close(DAY_SECONDS, start, [replace(period(start), seconds=DAY_SECONDS)])
    await store.usage.expire(DAY + HOUR_SECONDS, DAY + HOUR_SECONDS, DAY + DAY_SECONDS)
    assert list(await store.usage.of_job("a", 0)) == [row("a", 1)]
    assert [each.start for each in await every(store.usage.periods(HOUR_SECONDS, 0, DAY * 2))] == [
        DAY + HOUR_SECONDS
    ]
    assert [each.start for each in await every(store.usage.periods(DAY_SECONDS, DAY, DAY * 2))] == [
        DAY + DAY_SECONDS
    ]
