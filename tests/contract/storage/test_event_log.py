"""Events of weeks, over every store: what one leader has noted, the next ones show."""

from __future__ import annotations

import logging

import pytest

from peloton.clock import ManualClock
from peloton.errors import Unavailable
from peloton.model.history import HistoryBlock
from storage.histories.events import CHUNK, CHUNKS, KEEP, LATEST, EventLog, text_of, time_of
from storage.histories.samples import DAY
from storage.interface import Store
from tests.contract.storage.conftest import Opener


def now(clock: ManualClock) -> float:
    return clock.wall() / 1e9


def note(events: EventLog, clock: ManualClock, *names: str) -> None:
    for name in names:
        clock.now += 1
        events.add({"at": now(clock), "what": name})


async def told(events: EventLog, limit: int = 100, before: float = LATEST) -> list[str]:
    return [text_of(each, "what") for each in await events.read(before, limit)]


async def test_the_next_leader_shows_what_was_noted_before_it(open_handle: Opener) -> None:
    clock = ManualClock()
    first = EventLog((await open_handle()).history, "events", clock)
    note(first, clock, "a", "b")
    assert await told(first) == ["b", "a"]  # also before it is stored
    await first.write()
    second = EventLog((await open_handle()).history, "events", clock)
    assert await told(second) == ["b", "a"]
    note(second, clock, "c")
    assert await told(second) == ["c", "b", "a"]
    await second.write()
    clock.now += 2 * DAY
    note(second, clock, "d")
    await second.write()
    third = EventLog((await open_handle()).history, "events", clock)
    assert await told(third) == ["d", "c", "b", "a"]
    assert await told(third, limit=2) == ["d", "c"]
    newest = (await third.read(LATEST, 1))[0]
    assert await told(third, before=time_of(newest)) == ["c", "b", "a"]
    assert await told(EventLog((await open_handle()).history, "others", clock)) == []


async def test_only_those_that_are_wanted_count(store: Store) -> None:
    clock = ManualClock()
    events = EventLog(store.history, "events", clock)
    note(events, clock, *(f"{'even' if n % 2 == 0 else 'odd'}-{n}" for n in range(40)))
    await events.write()
    found = await events.read(LATEST, 3, lambda each: text_of(each, "what").startswith("even"))
    assert [text_of(each, "what") for each in found] == ["even-38", "even-36", "even-34"]


async def test_of_too_many_in_a_day_the_newest_are_kept(store: Store) -> None:
    clock = ManualClock()
    clock.now = -(clock.wall() // 10**9 % DAY)  # a midnight
    events = EventLog(store.history, "events", clock)
    count = CHUNK * (CHUNKS + 2) + 7
    for first in range(0, count, 10_000):
        note(events, clock, *map(str, range(first, min(first + 10_000, count))))
        await events.write()
    day = int(now(clock)) // DAY * DAY
    assert len(await store.history.read("events", DAY, [day])) == CHUNKS
    found = [int(each) for each in await told(EventLog(store.history, "events", clock), count)]
    assert found == list(range(count - 1, count - 1 - len(found), -1))
    assert len(found) == CHUNK * (CHUNKS - 1) + 7


async def test_nothing_older_than_five_weeks_is_shown(store: Store) -> None:
    clock = ManualClock()
    events = EventLog(store.history, "events", clock)
    note(events, clock, "old")
    await events.write()
    clock.now += KEEP + DAY
    note(events, clock, "new")
    await events.write()
    assert await told(events) == ["new"]


async def test_a_store_that_is_away_or_damaged_loses_nothing_that_was_noted(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    events = EventLog(store.history, "events", clock)
    working = store.history.write

    async def away(*args: object) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(store.history, "write", away)
    note(events, clock, "a")
    with caplog.at_level(logging.WARNING):
        await events.write()
    assert "is not stored: the database is away" in caplog.text
    monkeypatch.setattr(store.history, "write", working)
    day = int(now(clock)) // DAY * DAY
    await store.history.write([HistoryBlock("events", DAY, day, 9, b"damaged")], KEEP)
    await events.write()
    with caplog.at_level(logging.WARNING):
        assert await told(EventLog(store.history, "events", clock)) == ["a"]
    assert "cannot be read" in caplog.text
