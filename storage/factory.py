"""Where a daemon gets its store from."""

from __future__ import annotations

from storage.config import StorageSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite


async def open_store(settings: StorageSettings) -> Store:
    """Open the store, bringing its schema up to date.

    Raises Refused where the database is no database or newer than this program, and Unavailable
    where it cannot be reached or written.
    """
    return await open_sqlite(settings)
