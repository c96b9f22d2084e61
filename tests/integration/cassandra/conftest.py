from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from storage.cassandra.connection import Connection
from storage.cassandra.store import CassandraStore
from storage.config import CassandraSettings
from tests.servers.cassandra import CassandraServer
from tests.servers.store import connection_to, empty, settings_for

Opener = Callable[[], Awaitable[CassandraStore]]


@pytest.fixture(scope="session")
def store_settings(cassandra: CassandraServer, tmp_path_factory: pytest.TempPathFactory) -> CassandraSettings:
    return settings_for(cassandra, tmp_path_factory.mktemp("settings"), "integration")


@pytest.fixture(scope="session")
def connection(store_settings: CassandraSettings) -> Iterator[Connection]:
    opened = connection_to(store_settings)
    yield opened
    opened.close()


@pytest.fixture
async def open_handle(connection: Connection, store_settings: CassandraSettings) -> AsyncIterator[Opener]:
    """Opens one more handle on an empty database."""
    empty(connection, store_settings)
    handles: list[CassandraStore] = []

    async def opened() -> CassandraStore:
        handles.append(CassandraStore(connection, store_settings, shared=True))
        return handles[-1]

    yield opened
    for handle in handles:
        await handle.close()


@pytest.fixture
async def store(open_handle: Opener) -> CassandraStore:
    return await open_handle()
