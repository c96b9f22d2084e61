from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    yield opened
    await opened.close()
