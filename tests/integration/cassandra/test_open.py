"""Keyspaces, migrations, and what is told where the cluster is not as the settings say."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from peloton.config.private import write_private
from peloton.errors import Fenced, PelotonError, Refused, Unavailable
from storage.cassandra.connection import Connection, connect
from storage.cassandra.migrate import FREE_LOCK, TAKE_LOCK, migrations, up, version
from storage.cassandra.store import CassandraStore, connected
from storage.config import CassandraSettings
from storage.selection import migrate as command
from storage.selection.factory import Stores, open_store
from storage.sqlite import migrate as sqlite
from tests.contract.storage.samples import job_id, job_runtime, spec, task_runtime
from tests.integration.cassandra.test_tls import pass_on
from tests.servers.cassandra import CassandraServer

NEWEST = max(migrations())


@pytest.fixture
def fresh(store_settings: CassandraSettings, connection: Connection) -> Iterator[CassandraSettings]:
    """Settings of a keyspace that is not there."""
    yield store_settings.model_copy(update={"keyspace": "fresh"})
    connection.execute("DROP KEYSPACE IF EXISTS fresh")


def one_line(error: PelotonError) -> str:
    assert "\n" not in str(error)
    return str(error)


async def test_machines_migrate_at_once_and_again(fresh: CassandraSettings) -> None:
    assert await asyncio.gather(*(asyncio.to_thread(up, fresh) for _ in range(3))) == [NEWEST] * 3
    assert up(fresh) == NEWEST
    store = await open_store(fresh)
    await store.write_all(job_id(1), {0: task_runtime()})
    assert await store.tasks.get(job_id(1), 0) == task_runtime()
    await store.close()


async def test_a_migration_cut_off_is_finished(fresh: CassandraSettings) -> None:
    broken = {1: "CREATE TABLE IF NOT EXISTS one (a int PRIMARY KEY);\nno statement;"}
    with pytest.raises(Refused):
        await asyncio.to_thread(up, fresh, broken)
    assert await asyncio.to_thread(up, fresh, {1: broken[1].replace("no statement;", "")}) == 1


def test_who_waits_for_another_machines_migration_says_so(
    fresh: CassandraSettings, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [each.message for each in caplog.records if each.name == "storage.cassandra.migrate"]

    up(fresh, {1: migrations()[1]})
    opened, holder = connect(fresh, fresh.keyspace), uuid4()
    opened.execute(TAKE_LOCK, (holder,))
    with ThreadPoolExecutor() as threads:
        migrating = threads.submit(up, fresh)
        while not told() and not migrating.done():
            time.sleep(0.05)
        assert not migrating.done()
        opened.execute(FREE_LOCK, (holder,))
        opened.close()
        assert migrating.result() == NEWEST
    assert told() == [
        "another machine is changing the schema of keyspace fresh: waiting for it, 120 s at most"
    ]


async def test_the_first_versions_tables_are_brought_up_to_date(fresh: CassandraSettings) -> None:
    """By several machines at once, cut off in between, and with the term of a leader that wrote in them."""
    first = {1: migrations()[1]}
    assert await asyncio.to_thread(up, fresh, first) == 1
    opened = connect(fresh, fresh.keyspace)
    opened.execute("INSERT INTO terms (role, term) VALUES ('jobmanager', 7) IF NOT EXISTS")
    opened.close()
    cut_off = {**first, 2: migrations()[2] + "no statement;"}
    with pytest.raises(Refused):
        await asyncio.to_thread(up, fresh, cut_off)
    assert await asyncio.gather(*(asyncio.to_thread(up, fresh) for _ in range(2))) == [NEWEST] * 2
    store = await open_store(fresh)
    with pytest.raises(Fenced, match="term 7 has begun"):
        await store.begin_term("jobmanager", 6)
    await store.begin_term("jobmanager", 8)
    await store.write_all(job_id(1), {0: task_runtime()})
    await store.close()


async def test_a_keyspace_that_is_not_there_is_told(fresh: CassandraSettings) -> None:
    with pytest.raises(Refused, match="keyspace fresh does not exist: peloton-migrate up") as told:
        await open_store(fresh)
    one_line(told.value)


async def test_a_daemon_may_make_the_keyspace(fresh: CassandraSettings) -> None:
    store = await open_store(fresh.model_copy(update={"auto_migrate": True}))
    await store.pools.all()
    await store.close()


async def test_a_schema_newer_or_older_than_the_program_is_refused(fresh: CassandraSettings) -> None:
    up(fresh, {})
    with pytest.raises(Refused, match=f"schema version 0, this program needs {NEWEST}"):
        await open_store(fresh)
    up(fresh)
    opened = connect(fresh, fresh.keyspace)
    opened.execute("INSERT INTO schema_version (shard, version) VALUES (0, 999)")
    opened.close()
    with pytest.raises(Refused, match="schema version 999; this program knows versions up to") as told:
        await open_store(fresh)
    one_line(told.value)
    with pytest.raises(Refused, match="999"):
        await asyncio.to_thread(up, fresh)


async def test_the_connection_is_made_ahead_and_kept_and_the_schema_looked_at_each_time(
    fresh: CassandraSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(fresh)
    made: list[CassandraSettings] = []
    ahead, first = list[asyncio.Task[None]](), threading.Event()

    def counted(settings: CassandraSettings) -> Connection:
        made.append(settings)
        first.set()
        return connected(settings)

    monkeypatch.setattr("storage.cassandra.store.connected", counted)
    stores = Stores(fresh)
    async with stores.standby(lambda name, work: ahead.append(asyncio.create_task(work, name=name))):
        assert await asyncio.to_thread(first.wait, 20)
        for number in (1, 2):
            store = await stores.open()
            await store.write_all(job_id(number), {0: task_runtime()})
            await store.close()
        assert made == [fresh]
        opened = connect(fresh, fresh.keyspace)
        opened.execute("INSERT INTO schema_version (shard, version) VALUES (0, 999)")
        opened.close()
        with pytest.raises(Refused, match="schema version 999"):
            await stores.open()
        ahead[0].cancel()


async def test_a_wrong_password_is_refused(store_settings: CassandraSettings, tmp_path: Path) -> None:
    write_private(tmp_path / "password", "not-the-password")
    settings = store_settings.model_copy(update={"password_file": tmp_path / "password"})
    with pytest.raises(Refused, match="does not accept the user or the password") as told:
        await open_store(settings)
    assert "not-the-password" not in one_line(told.value)
    settings = store_settings.model_copy(update={"password_file": tmp_path / "nowhere"})
    with pytest.raises(Refused, match="nowhere: No such file"):
        await open_store(settings)


async def test_a_data_center_that_is_not_there_is_told(store_settings: CassandraSettings) -> None:
    settings = store_settings.model_copy(update={"datacenter": "elsewhere"})
    with pytest.raises(Refused, match="there is no data center elsewhere, but datacenter1") as told:
        await open_store(settings)
    one_line(told.value)


async def test_servers_that_are_not_there_are_unavailable(store_settings: CassandraSettings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings = store_settings.model_copy(update={"port": taken.getsockname()[1], "connect_timeout": 2.0})
        with pytest.raises(Unavailable, match=r"cannot be reached.*127\.0\.0\.1") as told:
            await open_store(settings)
    one_line(told.value)


async def test_a_server_that_stands_still_is_unavailable_until_it_goes_on(
    cassandra: CassandraServer, connection: Connection, store_settings: CassandraSettings
) -> None:
    hasty = store_settings.model_copy(update={"request_timeout": 0.5, "attempts": 2})
    store = await open_store(hasty)
    cassandra.freeze()
    begin = time.monotonic()
    try:
        with pytest.raises(Unavailable, match="in time"):
            await store.write_all(job_id(1), {0: task_runtime()})
        with pytest.raises(Unavailable):
            await store.pools.all()
    finally:
        cassandra.thaw()
    assert time.monotonic() - begin < 15
    deadline = time.monotonic() + 30
    while True:
        try:
            await store.write_all(job_id(1), {0: task_runtime(2)})
            break
        except Unavailable:
            assert time.monotonic() < deadline
    assert await store.tasks.get(job_id(1), 0) == task_runtime(2)
    await store.close()


class Switch:
    """A port before the server, whose connections can be cut."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.made = 0
        self.flows = threading.Event()
        """While it is not set, what callers send is taken slowly."""
        self.flows.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._let_in, daemon=True).start()

    def cut(self) -> None:
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
        self.cut()

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                server = socket.create_connection(self._server)
                self._open += caller, server
                self.made += 1
                for pair in ((caller, server, self.flows), (server, caller)):
                    threading.Thread(target=pass_on, args=pair, daemon=True).start()


async def test_callers_wait_while_the_server_is_slow_to_hear_them(
    store_settings: CassandraSettings, connection: Connection
) -> None:
    """What its connection does not hold any more waits outside."""
    switch = Switch(("127.0.0.1", store_settings.port))
    store = await open_store(store_settings.model_copy(update={"port": switch.port}))
    assert isinstance(store, CassandraStore)
    (pool,) = store._connection.session.get_pools()
    # Each differs: equal ones are sent once for all.
    large = {instance: replace(task_runtime(), message=f"{instance:4000}") for instance in range(500)}
    try:
        switch.flows.clear()
        writes = [asyncio.ensure_future(store.write_all(job_id(n), large)) for n in range(20)]
        await until(lambda: not pool._connection._socket_writable)
        late = asyncio.ensure_future(store.jobs.create(str(uuid4()), spec(), job_runtime()))
        ended, _ = await asyncio.wait([*writes, late], timeout=1.5, return_when=asyncio.FIRST_COMPLETED)
        assert not ended
        switch.flows.set()
        await asyncio.gather(*writes, late)
        assert (await store.tasks.get(job_id(19), 499)) == large[499]
        await until(lambda: pool._connection.in_flight == 0)
    finally:
        switch.flows.set()
        await store.close()
        switch.close()


@pytest.mark.timeout(120)
async def test_a_password_that_fails_for_a_while_ends_nothing(
    store_settings: CassandraSettings, connection: Connection, tmp_path: Path
) -> None:
    """As it does while servers that have just started cannot read what they know of users."""
    switch = Switch(("127.0.0.1", store_settings.port))
    write_private(tmp_path / "password", "right")
    connection.execute("CREATE ROLE IF NOT EXISTS passing WITH password = 'right' AND login = true")
    changed = {
        "username": "passing",
        "password_file": tmp_path / "password",
        "port": switch.port,
        "attempts": 1,
    }
    settings = store_settings.model_copy(update=changed)
    store = await open_store(settings)
    try:
        connection.execute("ALTER ROLE passing WITH password = 'wrong'")
        await until(lambda: outcome(settings) is Refused)
        switch.cut()
        before = switch.made
        await until(lambda: switch.made >= before + 4)
        with pytest.raises(Unavailable):
            await store.pools.all()
        connection.execute("ALTER ROLE passing WITH password = 'right'")
        await until(lambda: outcome(settings) is None)
        async with asyncio.timeout(60):
            while True:
                with suppress(Unavailable):
                    await store.pools.all()
                    break
                await asyncio.sleep(0.1)
    finally:
        await store.close()
        switch.close()
        connection.execute("DROP ROLE passing")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.05)


def outcome(settings: CassandraSettings) -> type | None:
    try:
        connect(settings, None).close()
    except PelotonError as error:
        return type(error)
    return None


def test_the_command(
    fresh: CassandraSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str], connection: Connection
) -> None:
    settings = fresh.model_dump(mode="json", exclude_defaults=True)
    file = tmp_path / "daemon.yaml"
    file.write_text(yaml.safe_dump({"storage": {"kind": "cassandra", **settings}, "grpc_port": 1}))
    with pytest.raises(SystemExit, match="peloton-migrate: keyspace fresh does not exist"):
        command.main(["check", "-c", str(file)])
    for action in ("up", "up", "version", "check"):
        command.main([action, "-c", str(file)])
    told = capsys.readouterr().out.splitlines()
    assert told == [f"keyspace fresh has schema version {NEWEST}"] * 4
    opened = connect(fresh, "fresh")
    assert version(opened, fresh) == NEWEST
    opened.close()


@pytest.mark.parametrize("relative", [False, True])
def test_the_command_for_sqlite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "daemon.yaml"
    path = Path("a # of ?") / "peloton.db"
    file.write_text(yaml.safe_dump({"storage": {"path": str(path if relative else tmp_path / path)}}))
    with pytest.raises(SystemExit, match="does not exist"):
        command.main(["check", "-c", str(file)])
    command.main(["up", "-c", str(file)])
    command.main(["check", "-c", str(file)])
    assert capsys.readouterr().out.count(f"has schema version {max(sqlite.migrations())}") == 2


@pytest.mark.parametrize("storage", [None, "sqlite"])
def test_settings_of_the_store_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str | None
) -> None:
    monkeypatch.setenv("CASSANDRA_PORT", "none")
    file = tmp_path / "daemon.yaml"
    file.write_text(yaml.safe_dump({"storage": storage}))
    with pytest.raises(SystemExit, match=r"peloton-migrate: .*storage"):
        command.main(["version", "-c", str(file)])
