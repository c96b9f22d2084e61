from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from storage.config import StorageSettings
from storage.factory import open_store
from storage.interface import Store
from tests.unit.resmgr.shell import Shell


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(StorageSettings(path=tmp_path / "peloton.db"))
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def shell(store: Store) -> Shell:
    return Shell(store)
