"""Opening of the store that a daemon's settings select."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

from peloton.backoff import Backoff
from peloton.errors import Unavailable
from storage.cassandra.access import access
from storage.config import CassandraSettings, SqliteSettings
from storage.interface import Store
from storage.secret_keys import read_keys
from storage.sqlite.store import SqliteStore, open_sqlite

if TYPE_CHECKING:
    from storage.cassandra.connection import Connection

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between tries to connect."""
log = logging.getLogger(__name__)


async def open_store(settings: SqliteSettings | CassandraSettings) -> Store:
    """Open the store; SQLite's schema is brought up to date.

    Raises Refused where the database is no database or newer than this program, or its schema, keyspace
    or credentials are not what they must be, and Unavailable where it cannot be reached or written.
    """
    if isinstance(settings, CassandraSettings):
        # Its driver is large, and not needed for a cluster on one machine.
        from storage.cassandra.store import open_cassandra

        return await open_cassandra(settings)
    return await open_sqlite(settings)


class Stores:
    """Open a handle for each term of a leader.

    Connecting to Cassandra takes half a second or more. The connection is made while another instance leads,
    and kept from term to term. Belongs to the event loop that uses it first.
    """

    def __init__(self, settings: SqliteSettings | CassandraSettings) -> None:
        """Check files that the settings name. Raises Refused or ConfigError where one is not usable."""
        read_keys(settings.secret_keys_file)
        if isinstance(settings, CassandraSettings):
            access(settings)
        self._settings = settings
        self._connection: Connection | None = None
        self._sqlite: WeakSet[SqliteStore] = WeakSet()
        self._lock = asyncio.Lock()

    async def open(self) -> Store:
        """Open a handle. Raises as `open_store` does."""
        if not isinstance(self._settings, CassandraSettings):
            opened = await open_sqlite(self._settings)
            self._sqlite.add(opened)
            return opened
        from storage.cassandra.store import CassandraStore

        return CassandraStore(await self._connected(self._settings), self._settings, shared=True)

    def trouble(self) -> str:
        """Return why a handle cannot write SQLite's file; empty where all can."""
        return next((store.trouble for store in self._sqlite if store.trouble), "")

    @asynccontextmanager
    async def standby(self, spawn: Callable[[str, Coroutine[Any, Any, Any]], None]) -> AsyncIterator[None]:
        """Keep a connection ready while a daemon may be elected. `spawn` supervises a task by its name."""
        if isinstance(self._settings, CassandraSettings):
            spawn("store", self._connect_ahead(self._settings))
        try:
            yield
        finally:
            if self._connection is not None:
                await asyncio.to_thread(self._connection.close)

    async def _connect_ahead(self, settings: CassandraSettings) -> NoReturn:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                await self._connected(settings)
                await asyncio.Event().wait()
            except Unavailable as error:
                pause = backoff.next()
                log.warning("%s; trying again in %.1f s", error, pause)
                await asyncio.sleep(pause)

    async def _connected(self, settings: CassandraSettings) -> Connection:
        """Return a connection to a keyspace whose schema is that of this program."""
        from storage.cassandra.migrate import check
        from storage.cassandra.store import connected

        async with self._lock:
            if self._connection is None:
                self._connection = await asyncio.to_thread(connected, settings)
            else:
                await asyncio.to_thread(check, self._connection, settings)
            return self._connection
