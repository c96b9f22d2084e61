"""Blocks of samples over time."""

from __future__ import annotations

import pytest

from peloton.errors import Fenced
from peloton.model.history import HistoryBlock
from storage.interface import Store
from tests.contract.storage.conftest import Opener

STEP, HOUR = 300, 3600
BEGIN = 500_000 * HOUR
BODY = bytes(range(256)) * 400


def block(
    start: int = 0, part: int = 0, body: bytes = BODY, scope: str = "pools", step: int = STEP
) -> HistoryBlock:
    return HistoryBlock(scope, step, BEGIN + start * HOUR, part, body)


async def test_blocks_are_replaced_and_read_by_their_begins(open_handle: Opener) -> None:
    store, other = await open_handle(), await open_handle()
    keep = 100 * HOUR
    assert list(await store.history.read("pools", STEP, [BEGIN])) == []
    await store.history.write([], keep)
    await store.history.write([block(part=1), block(), block(1, body=b"")], keep)
    await store.history.write([block(body=b"newer"), block(scope="other"), block(step=60)], keep)
    assert list(await other.history.read("pools", STEP, [BEGIN + HOUR, BEGIN, BEGIN + 9])) == [
        block(1, body=b""),
        block(body=b"newer"),
        block(part=1),
    ]
    assert list(await other.history.read("pools", STEP, [BEGIN, BEGIN + HOUR], part=1)) == [block(part=1)]
    assert list(await other.history.read("pools", STEP, [])) == []
    assert list(await other.history.read("other", STEP, [BEGIN])) == [block(scope="other")]
    assert list(await other.history.read("pools", 60, [BEGIN])) == [block(step=60)]


async def test_many_begins_are_read(store: Store) -> None:
    many = [block(hour, part, b"%d" % hour) for hour in range(40) for part in range(3)]
    await store.history.write(many, 100 * HOUR)
    assert list(await store.history.read("pools", STEP, [BEGIN + n * HOUR for n in range(40)])) == many


async def test_an_older_leader_writes_none(open_handle: Opener) -> None:
    older, newer = await open_handle(), await open_handle()
    await older.begin_term("resmgr", 1)
    await newer.begin_term("resmgr", 2)
    with pytest.raises(Fenced):
        await older.history.write([block()], HOUR)
    assert list(await newer.history.read("pools", STEP, [BEGIN])) == []


async def test_old_ones_go(store: Store) -> None:
    await store.history.write([block(0), block(0, scope="other"), block(0, step=60)], 5 * HOUR)
    await store.history.write([block(5)], 5 * HOUR)
    kept = list(await store.history.read("pools", STEP, [BEGIN]))
    assert kept == [block(0)]
    await store.history.write([block(6)], 5 * HOUR)
    if type(store).__name__ == "SqliteStore":  # Cassandra drops them after the time itself
        assert list(await store.history.read("pools", STEP, [BEGIN])) == []
    for scope, step in (("other", STEP), ("pools", 60)):
        assert len(await store.history.read(scope, step, [BEGIN])) == 1
    assert len(await store.history.read("pools", STEP, [BEGIN + 6 * HOUR])) == 1
