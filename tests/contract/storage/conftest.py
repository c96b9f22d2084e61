"""The stores that the contract suite runs against. A further backend adds itself to BACKENDS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from storage.config import StorageSettings
from storage.factory import open_store
from storage.interface import Store

Opener = Callable[[], Awaitable[Store]]
"""Opens one more handle on the same database."""

BACKENDS = ("sqlite",)


@pytest.fixture(params=BACKENDS)
async def open_handle(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    handles: list[Store] = []
    settings = StorageSettings(kind=request.param, path=tmp_path / "peloton.db")

    async def open_one() -> Store:
        handles.append(await open_store(settings))
        return handles[-1]

    yield open_one
    for handle in handles:
        await handle.close()


@pytest.fixture
async def store(open_handle: Opener) -> Store:
    return await open_handle()
