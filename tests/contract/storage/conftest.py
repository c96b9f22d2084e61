"""The stores that the contract suite runs against. A further backend adds itself to BACKENDS."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from storage.cassandra.connection import Connection
from storage.cassandra.store import CassandraStore
from storage.config import CassandraSettings, SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.servers.cassandra import CassandraServer
from tests.servers.store import connection_to, empty, settings_for

Opener = Callable[[], Awaitable[Store]]
"""Opens one more handle on the same database."""


class Backend(Protocol):
    """A kind of store."""

    def database(self) -> Opener:
        """Return a new, empty database; earlier ones are deleted."""
        ...

    def settings(self) -> SqliteSettings | CassandraSettings:
        """Return the settings of the newest database."""
        ...

    async def open(self, settings: SqliteSettings | CassandraSettings) -> Store:
        """Open the newest database with changed settings."""
        ...

    def written(self) -> bytes:
        """Return all that the newest database has written of secrets, as far as it can be seen."""
        ...


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self._paths = (folder / f"{number}.db" for number in itertools.count())

    def database(self) -> Opener:
        self._settings = settings = SqliteSettings(path=next(self._paths))
        return lambda: open_sqlite(settings)

    def settings(self) -> SqliteSettings:
        return self._settings

    async def open(self, settings: SqliteSettings | CassandraSettings) -> Store:
        assert isinstance(settings, SqliteSettings)
        return await open_sqlite(settings)

    def written(self) -> bytes:
        path = self._settings.path
        return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


class Cassandra:
    def __init__(self, settings: CassandraSettings, connection: Connection) -> None:
        self._settings = settings
        self._connection = connection

    def database(self) -> Opener:
        empty(self._connection, self._settings)

        async def open_one() -> Store:
            return CassandraStore(self._connection, self._settings, shared=True)

        return open_one

    def settings(self) -> CassandraSettings:
        return self._settings

    async def open(self, settings: SqliteSettings | CassandraSettings) -> Store:
        assert isinstance(settings, CassandraSettings)
        return CassandraStore(self._connection, settings, shared=True)

    def written(self) -> bytes:
        rows = self._connection.execute(f"SELECT data FROM {self._settings.keyspace}.secrets")
        return b"".join(bytes(data) for (data,) in rows if data is not None)


@pytest.fixture(scope="session")
def sqlite_backend(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    return Sqlite(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def cassandra_backend(
    cassandra: CassandraServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    settings = settings_for(cassandra, tmp_path_factory.mktemp("settings"), "contract")
    connection = connection_to(settings)
    yield Cassandra(settings, connection)
    connection.close()


BACKENDS = ("sqlite", "cassandra")


@pytest.fixture(params=BACKENDS, scope="session")
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.getfixturevalue(f"{request.param}_backend")
    return found


@pytest.fixture
async def open_handle(backend: Backend) -> AsyncIterator[Opener]:
    handles: list[Store] = []
    open_one = backend.database()

    async def opened() -> Store:
        handles.append(await open_one())
        return handles[-1]

    yield opened
    for handle in handles:
        await handle.close()


@pytest.fixture
async def store(open_handle: Opener) -> Store:
    return await open_handle()
