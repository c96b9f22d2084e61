from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from storage.interface import Store
from storage.selection.factory import open_store
from tests.unit.resmgr.shell import Shell, settings


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(settings(tmp_path / "peloton.db").storage)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def shell(store: Store) -> Shell:
    return Shell(store)
