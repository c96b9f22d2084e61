"""The history of pools over several leaders: what one has sampled, the next ones show."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from peloton.errors import Unavailable
from peloton.model.history import HistoryBlock
from resmgr.core.monitoring.history import History
from resmgr.drivers.stored_history import COARSE_KEEP, FINE_KEEP, MOST_DAYS, Scope, StoredHistory
from storage.config import SqliteSettings
from storage.histories.samples import FINE, HOUR
from storage.interface import Store
from storage.sqlite.store import open_sqlite

DAY = 20_000 * 24 * 60
"""A minute since 1970 with which a day begins."""
COLUMNS = ("allocation cpu", "demand cpu")


class Term:
    """A leader, from its first minute on."""

    def __init__(self, store: Store, columns: tuple[str, ...] = COLUMNS) -> None:
        self.history = History(len(columns))
        self.stored = StoredHistory(store.history, [Scope("pools", columns, self.history)])

    async def begin(self, minute: int) -> Term:
        await self.stored.restore(minute)
        return self

    async def sample(self, first: int, last: int, value: float = 1.0, pools: int = 1) -> None:
        """Sample each minute from one to another, the second of which is left out."""
        for minute in range(first, last):
            self.history.sample(minute, {f"pool-{n}": [value + n, minute - DAY] for n in range(pools)})
            await self.stored.write(minute)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    yield made
    await made.close()


def first_column(history: History, day: bool = True) -> list[float]:
    found = history.day("pool-0") if day else history.hour("pool-0")
    assert found is not None
    return [float(value) for value in found.values[:, 0]]


async def test_the_next_leader_shows_what_was_sampled_before_it(store: Store) -> None:
    first = await Term(store).begin(DAY)
    await first.sample(DAY, DAY + 91, 5.0)
    second = await Term(store).begin(DAY + 100)
    await second.sample(DAY + 100, DAY + 106, 7.0)
    values = first_column(second.history)
    at = {DAY - 1440 + 110 + place * 5: value for place, value in enumerate(values)}
    assert [at[DAY + minute] for minute in (0, 45, 85, 100, 105)] == [5, 5, 5, 7, 7]
    assert math.isnan(at[DAY + 95]) and math.isnan(at[DAY - 5])  # nobody led
    hour = first_column(second.history, day=False)
    assert hour[-6:] == [7] * 6 and hour[0] == 5 and math.isnan(hour[-7])


async def test_hours_are_joined_over_days_and_leaders(store: Store) -> None:
    first = await Term(store).begin(DAY)
    await first.sample(DAY, DAY + 61, 4.0)
    await first.sample(DAY + 61, DAY + 151, 8.0)  # ends within an hour, which it has not stored as one
    second = await Term(store).begin(DAY + 200)
    await second.sample(DAY + 200, DAY + 241, 6.0)
    third = await Term(store).begin(DAY + 1440 + 10)
    await third.sample(DAY + 1440 + 10, DAY + 1440 + 16, 9.0)
    found = await third.stored.days("pools", "pool-0", 2, DAY + 1440 + 15)
    assert (found.step, found.start) == (60, DAY - 22 * 60 + 1440 - 1440 - 60 + 60 * 0)
    by_hour = {found.start + place * 60: float(row[0]) for place, row in enumerate(found.values)}
    assert by_hour[DAY] == 4 and by_hour[DAY + 60] == pytest.approx(8, abs=0.4)
    assert by_hour[DAY + 120] == 8 and by_hour[DAY + 180] == 6 and by_hour[DAY + 1440] == 9
    assert math.isnan(by_hour[DAY + 300])
    rows = await store.history.read("pools", HOUR, [(DAY - 1440) * 60, DAY * 60])
    assert len(rows) == 1


async def test_a_pool_that_is_gone_is_forgotten_and_a_new_one_has_no_past(store: Store) -> None:
    first = await Term(store).begin(DAY)
    await first.sample(DAY, DAY + 11, pools=40)
    second = await Term(store).begin(DAY + 12)
    assert len(second.history) == 40
    await second.sample(DAY + 12, DAY + 13, pools=2)
    assert len(second.history) == 2
    none = await second.stored.days("pools", "nosuch", 7, DAY + 13)
    assert len(none.values) == 7 * 24 and np.isnan(none.values).all()


async def test_a_value_that_is_new_in_a_release_has_no_past(store: Store) -> None:
    await (await Term(store).begin(DAY)).sample(DAY, DAY + 11, 3.0)
    newer = await Term(store, ("used cpu", *COLUMNS)).begin(DAY + 12)
    newer.history.sample(DAY + 12, {"pool-0": [1, 2, 3]})
    day = newer.history.day("pool-0")
    assert day is not None and math.isnan(day.values[-2][0]) and day.values[-3][1] == 3


async def test_rows_are_few_and_bounded(store: Store) -> None:
    term = await Term(store).begin(DAY)
    for hour in range(50):
        begin = DAY + hour * 60
        for minute in range(begin, begin + 61, 5):
            term.history.sample(minute, {f"pool-{n}": [1.0, 2.0] for n in range(100)})
            await term.stored.write(minute)
    fine = await store.history.read("pools", FINE, range(DAY * 60, (DAY + 3001) * 60, HOUR))
    assert len(fine) == 16 * (FINE_KEEP // HOUR + 1)
    coarse = await store.history.read("pools", HOUR, range(DAY * 60, (DAY + 3001) * 60, 24 * HOUR))
    assert len(coarse) == 16 * 3 and COARSE_KEEP // (24 * HOUR) == MOST_DAYS + 1


async def test_a_store_that_is_away_or_damaged_stops_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await (await Term(store).begin(DAY)).sample(DAY, DAY + 11)
    await store.history.write([HistoryBlock("pools", FINE, DAY * 60, 99, b"damaged")], FINE_KEEP)
    with caplog.at_level(logging.WARNING):
        term = await Term(store).begin(DAY + 12)
    assert len(term.history) == 1 and "cannot be read" in caplog.text

    async def away(*args: object) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(store.history, "write", away)
    monkeypatch.setattr(store.history, "read", away)
    with caplog.at_level(logging.WARNING):
        other = await Term(store).begin(DAY + 12)
        await other.sample(DAY + 12, DAY + 17)
    assert "is not known: the database is away" in caplog.text
    assert "the history is not stored: the database is away" in caplog.text
    assert len(other.history) == 1
