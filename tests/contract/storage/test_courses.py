"""Amounts over time, over every store: what one leader has measured, the next ones add to and show."""

from __future__ import annotations

import logging

import pytest

from peloton.errors import Unavailable
from peloton.model.history import HistoryBlock
from storage.histories.courses import COARSE_KEEP, GRACE, Kept, Span, StoredCourses
from storage.histories.samples import DAY, FINE, HOUR, PARTS
from storage.interface import Store
from tests.contract.storage.conftest import Opener

BEGIN = 20_000 * DAY
"""A midnight in UTC, in seconds since 1970."""
KEPT = Kept("hosts", ("cores", "MB"), 26 * HOUR, hours=True)


def by_begin(spans: list[Span]) -> dict[float, float]:
    """The first amount by the begin, in seconds since BEGIN."""
    return {span.since - BEGIN: span.amounts[0] for span in spans}


async def test_the_next_leader_adds_to_what_was_stored(open_handle: Opener) -> None:
    first = StoredCourses((await open_handle()).history, KEPT)
    first.add("h1", BEGIN, BEGIN + FINE, (2.0, 100.0))
    first.add("h1", BEGIN + FINE, BEGIN + 2 * FINE, (3.0, 100.0))
    await first.write(BEGIN + 2 * FINE)
    second = StoredCourses((await open_handle()).history, KEPT)
    second.add("h1", BEGIN + 3 * FINE, BEGIN + 4 * FINE, (5.0, 100.0))
    second.add("h2", BEGIN + 3 * FINE, BEGIN + 4 * FINE, (9.0, 100.0))
    before_it_writes = await second.recent("h1", BEGIN, BEGIN + HOUR)
    await second.write(BEGIN + 4 * FINE)
    third = StoredCourses((await open_handle()).history, KEPT)
    found = await third.recent("h1", BEGIN, BEGIN + HOUR)
    assert found == before_it_writes
    assert by_begin(found) == {0: 2, FINE: 3, 3 * FINE: 5}
    assert by_begin(await third.recent("h2", BEGIN, BEGIN + HOUR)) == {3 * FINE: 9}
    assert await third.recent("nosuch", BEGIN, BEGIN + HOUR) == []


async def test_five_minutes_with_a_change_of_leaders_are_shown_up_to_it(open_handle: Opener) -> None:
    first = StoredCourses((await open_handle()).history, KEPT)
    first.add("h1", BEGIN, BEGIN + 60, (2.0, 100.0))
    await first.write(BEGIN + 60)
    second = StoredCourses((await open_handle()).history, KEPT)
    second.add("h1", BEGIN + 120, BEGIN + 180, (8.0, 100.0))
    second.add("new", BEGIN + 120, BEGIN + 180, (8.0, 100.0))
    shown = [Span(BEGIN, BEGIN + 120, (2.0, 100.0))]
    for _ in range(2):  # before and after it has stored its own
        assert await second.recent("h1", BEGIN, BEGIN + 120, before=True) == shown
        assert await second.recent("new", BEGIN, BEGIN + 120, before=True) == []
        await second.write(BEGIN + 180)
    third = StoredCourses((await open_handle()).history, KEPT)
    assert await third.recent("h1", BEGIN, BEGIN + 200, before=True) == [
        Span(BEGIN, BEGIN + 200, (2.0, 100.0))
    ]


async def test_a_mean_is_that_of_the_time_that_was_measured(store: Store) -> None:
    courses = StoredCourses(store.history, KEPT)
    courses.add("h1", BEGIN + 100, BEGIN + 200, (1.0, 0.0))
    courses.add("h1", BEGIN + 200, BEGIN + FINE + 100, (4.0, 0.0))
    await courses.write(BEGIN + HOUR)
    (early, late) = await courses.recent("h1", BEGIN + 100, BEGIN + FINE + 100)
    assert await courses.recent("h1", BEGIN + 100, BEGIN + FINE + 100, before=True) == [early]
    assert early == Span(BEGIN + 100, BEGIN + FINE, (2.5, 0.0))
    assert late == Span(BEGIN + FINE, BEGIN + FINE + 100, (4.0, 0.0))


async def test_hours_are_kept_for_weeks(open_handle: Opener) -> None:
    first = StoredCourses((await open_handle()).history, KEPT)
    for hour in range(3):
        first.add("h1", BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR, (hour + 1.0, 50.0))
        await first.write(BEGIN + (hour + 1) * HOUR + GRACE)
    first.add("h1", BEGIN + 3 * HOUR, BEGIN + 3 * HOUR + FINE, (8.0, 50.0))
    await first.write(BEGIN + 3 * HOUR + FINE)  # its hour is not over: the next leader makes it one
    second = StoredCourses((await open_handle()).history, KEPT)
    second.add("h1", BEGIN + DAY + HOUR, BEGIN + DAY + 2 * HOUR, (6.0, 50.0))
    await second.write(BEGIN + DAY + 2 * HOUR + GRACE)
    third = StoredCourses((await open_handle()).history, KEPT)
    found = by_begin(await third.days("h1", 7, BEGIN + 6 * DAY))
    assert found == {0: 1, HOUR: 2, 2 * HOUR: 3, 3 * HOUR: 8, DAY + HOUR: 6}
    assert by_begin(await third.days("h1", 5, BEGIN + 6 * DAY)) == {DAY + HOUR: 6}
    assert by_begin(await second.days("h1", 7, BEGIN + 6 * DAY)) == found


async def test_the_hour_that_is_open_is_shown(store: Store) -> None:
    courses = StoredCourses(store.history, KEPT)
    courses.add("h1", BEGIN, BEGIN + 2 * FINE, (4.0, 50.0))
    found = await courses.days("h1", 7, BEGIN + 2 * FINE)
    assert found == [Span(BEGIN, BEGIN + 2 * FINE, (4.0, 50.0))]


async def test_rows_are_bounded_for_five_thousand_hosts(store: Store) -> None:
    courses = StoredCourses(store.history, KEPT)
    for hour in range(3):
        for host in range(5000):
            begin = BEGIN + hour * HOUR
            courses.add(f"host-{host}", begin, begin + HOUR, (1.0, 2.0))
        await courses.write(BEGIN + (hour + 1) * HOUR + GRACE)
    starts = range(BEGIN - DAY, BEGIN + DAY, HOUR)
    assert len(await store.history.read("hosts", FINE, starts)) == 3 * PARTS
    assert len(await store.history.read("hosts", HOUR, [BEGIN - DAY, BEGIN, BEGIN + DAY])) == PARTS
    assert COARSE_KEEP == 36 * DAY


async def test_a_store_that_is_away_or_damaged_stops_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    courses = StoredCourses(store.history, KEPT)
    courses.add("h1", BEGIN, BEGIN + FINE, (2.0, 1.0))
    part = KEPT.part("h1")
    await store.history.write([HistoryBlock("hosts", FINE, BEGIN, part, b"damaged")], 26 * HOUR)
    working = store.history.write

    async def away(*args: object) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(store.history, "write", away)
    with caplog.at_level(logging.WARNING):
        await courses.write(BEGIN + FINE)
    assert "is not stored: the database is away" in caplog.text and "cannot be read" in caplog.text
    monkeypatch.setattr(store.history, "write", working)
    await courses.write(BEGIN + FINE)
    assert by_begin(await StoredCourses(store.history, KEPT).recent("h1", BEGIN, BEGIN + HOUR)) == {0: 2}


async def test_memory_is_bounded_while_the_store_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: object) -> None:
        raise Unavailable("the database is away")

    few = StoredCourses(store.history, KEPT._replace(most=2))
    working = store.history.write
    monkeypatch.setattr(store.history, "write", away)
    for hour in range(10):
        for host in ("a", "b", "c"):
            few.add(host, BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR - 1, (1.0, 1.0))
        await few.write(BEGIN + (hour + 1) * HOUR + GRACE)
    monkeypatch.setattr(store.history, "write", working)
    await few.write(BEGIN + 10 * HOUR + GRACE)
    for host, hours in (("a", 3), ("b", 3), ("c", 0)):
        assert len(await few.recent(host, BEGIN, BEGIN + 10 * HOUR)) == hours * HOUR // FINE


async def test_parts_that_change_hands_are_not_overwritten(open_handle: Opener) -> None:
    one = StoredCourses((await open_handle()).history, KEPT)
    other = StoredCourses((await open_handle()).history, KEPT)
    one.add("h1", BEGIN, BEGIN + FINE, (1.0, 0.0))
    await one.write(BEGIN + FINE)
    one.drop(lambda subject: subject == "h1")
    other.add("h1", BEGIN + FINE, BEGIN + 2 * FINE, (2.0, 0.0))
    await other.write(BEGIN + 2 * FINE)
    other.drop(lambda subject: subject == "h1")
    one.add("h1", BEGIN + 2 * FINE, BEGIN + 3 * FINE, (3.0, 0.0))
    await one.write(BEGIN + 3 * FINE)
    assert by_begin(await other.recent("h1", BEGIN, BEGIN + HOUR)) == {0: 1, FINE: 2, 2 * FINE: 3}
