"""What is told of a store that is slow, or has little room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.config import SqliteSettings
from storage.selection.problems import store_problems
from storage.sqlite.store import open_sqlite


def readings(*seconds: float) -> Iterator[float]:
    """What a clock shows before and after reads that take so long."""
    return accumulate(each for pair in ((0.0, length) for length in seconds) for each in pair)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ((0.01,), ""),
        ((2.0, 0.49), ""),
        ((2.0, 3.0, 0.1), ""),
        ((2.0, 0.75, 3.0), "The store is slow: each read of the pools takes 0.75 s or more"),
    ],
)
async def test_the_quickest_read_counts(tmp_path: Path, seconds: tuple[float, ...], told: str) -> None:
    settings = SqliteSettings(path=tmp_path / "db")
    store = await open_sqlite(settings)
    clock = readings(*seconds)
    try:
        found = await store_problems(store, settings, lambda: next(clock))
    finally:
        await store.close()
    assert [each.text for each in found if "slow" in each.text] == ([told] if told else [])
    assert next(clock, None) is None, "no more reads than needed"


@pytest.mark.parametrize(
    ("free", "told"),
    [
        (3 << 30, []),
        (2 << 30, []),
        (1 << 30, [("warn", "1 GB left")]),
        (100 << 20, [("bad", "100 MB left")]),
    ],
)
async def test_little_room_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, told: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    settings = SqliteSettings(path=tmp_path / "db")
    store = await open_sqlite(settings)
    try:
        found = await store_problems(store, settings, lambda: 0.0)
    finally:
        await store.close()
    assert [(each.level, each.text.partition(" has ")[2]) for each in found] == told
