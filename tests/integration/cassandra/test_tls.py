"""TLS to Cassandra: a door in front of the server that speaks it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from peloton.errors import Refused, Unavailable
from storage.cassandra.connection import Connection, connect
from storage.config import CassandraSettings, CassandraTlsSettings
from storage.selection.factory import open_store
from tests.contract.mesos_driver.certificates import Authority, Identity
from tests.contract.storage.samples import job_id, task_runtime


class Door:
    """Its port speaks TLS, and passes on what it hears to the server's."""

    def __init__(self, server: tuple[str, int], identity: Identity, callers: Path) -> None:
        """`callers`: certificates of the authorities that callers must have theirs of."""
        self._server = server
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(identity.certificate, identity.key)
        self._tls.load_verify_locations(callers)
        self._tls.verify_mode = ssl.CERT_OPTIONAL
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.shown: list[Any] = []
        """The certificates of who came."""
        self._open: list[socket.socket] = []
        threading.Thread(target=self._let_in, daemon=True).start()

    def show(self, identity: Identity) -> None:
        """Show another certificate from now on."""
        self._tls.load_cert_chain(identity.certificate, identity.key)

    def cut(self) -> None:
        """Break all connections."""
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError):
            caller = self._tls.wrap_socket(plain, server_side=True)
            self.shown.append(caller.getpeercert())
            server = socket.create_connection(self._server)
            self._open += [caller, server]
            threading.Thread(target=pass_on, args=(server, caller), daemon=True).start()
            pass_on(caller, server)


def pass_on(there: socket.socket, here: socket.socket, flows: threading.Event | None = None) -> None:
    with suppress(OSError):
        while data := there.recv(65536):
            if flows is not None:
                flows.wait(0.05)
            here.sendall(data)
    for end in (there, here):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def door(store_settings: CassandraSettings, connection: Connection, authority: Authority) -> Iterator[Door]:
    identity = authority.identity("server", "IP:127.0.0.1")
    opened = Door(("127.0.0.1", store_settings.port), identity, authority.file)
    yield opened
    opened.close()


@pytest.fixture
def by_tls(store_settings: CassandraSettings, door: Door, authority: Authority) -> CassandraSettings:
    tls = CassandraTlsSettings(enabled=True, ca_file=authority.file)
    return store_settings.model_copy(update={"port": door.port, "tls": tls})


async def test_a_store_by_tls(by_tls: CassandraSettings, door: Door) -> None:
    store = await open_store(by_tls)
    await store.write_all(job_id(1), {0: task_runtime()})
    assert await store.tasks.get(job_id(1), 0) == task_runtime()
    await store.close()
    assert len(door.shown) > 1 and not any(door.shown), (
        "all its connections, and without a certificate of ours"
    )


async def test_servers_are_shown_the_certificate(
    by_tls: CassandraSettings, door: Door, authority: Authority
) -> None:
    own = authority.identity("jobmgr", "DNS:jobmgr")
    changed = {"certificate_file": own.certificate, "key_file": own.key}
    settings = by_tls.model_copy(update={"tls": by_tls.tls.model_copy(update=changed)})
    connect(settings, settings.keyspace).close()
    assert all(("subjectAltName", (("DNS", "jobmgr"),)) in shown.items() for shown in door.shown)


def test_a_server_that_nobody_vouches_for_is_refused(by_tls: CassandraSettings, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    tls = CassandraTlsSettings(enabled=True, ca_file=other.file)
    with pytest.raises(
        Refused, match=r"certificate of 127\.0\.0\.1:\d+ is not trusted.*storage\.tls"
    ) as told:
        connect(by_tls.model_copy(update={"tls": tls}), None)
    assert "\n" not in str(told.value)


def test_a_certificate_for_another_address_is_refused_unless_names_are_not_looked_at(
    store_settings: CassandraSettings, authority: Authority
) -> None:
    identity = authority.identity("elsewhere", "IP:127.0.0.2,DNS:elsewhere")
    door = Door(("127.0.0.1", store_settings.port), identity, authority.file)
    for check_names in (True, False):
        tls = CassandraTlsSettings(enabled=True, ca_file=authority.file, check_names=check_names)
        settings = store_settings.model_copy(update={"port": door.port, "tls": tls})
        if check_names:
            with pytest.raises(Refused, match="is not trusted"):
                connect(settings, None)
        else:
            connect(settings, None).close()
    door.close()


@pytest.mark.timeout(60)
def test_where_one_side_alone_speaks_tls_nothing_is_reached(
    store_settings: CassandraSettings, by_tls: CassandraSettings
) -> None:
    hasty = {"connect_timeout": 2.0}
    for settings in (
        by_tls.model_copy(update={"port": store_settings.port, **hasty}),
        store_settings.model_copy(update={"port": by_tls.port, **hasty}),
    ):
        with pytest.raises(Unavailable, match="cannot be reached") as told:
            connect(settings, None)
        assert "\n" not in str(told.value)


def test_a_file_that_is_no_certificate_is_told(store_settings: CassandraSettings, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing of the kind")
    for tls in (
        CassandraTlsSettings(enabled=True, ca_file=tmp_path / "ca.pem"),
        CassandraTlsSettings(enabled=True, certificate_file=tmp_path / "nowhere.pem"),
    ):
        with pytest.raises(Refused, match=r"storage\.tls\.\w+_file: .*(is not a PEM file|No such file)"):
            connect(store_settings.model_copy(update={"tls": tls}), None)


@pytest.mark.timeout(120)
async def test_certificates_are_read_again_for_each_connection(
    store_settings: CassandraSettings, connection: Connection, authority: Authority, tmp_path: Path
) -> None:
    """The store goes on, by new connections, when server and authority have been replaced."""
    other, ca = Authority(tmp_path, "other"), tmp_path / "trusted.pem"
    shutil.copy(authority.file, ca)
    first = Door(("127.0.0.1", store_settings.port), authority.identity("first", "IP:127.0.0.1"), other.file)
    tls = CassandraTlsSettings(enabled=True, ca_file=ca)
    settings = store_settings.model_copy(update={"port": first.port, "tls": tls, "attempts": 1})
    store = await open_store(settings)
    try:
        await store.write_all(job_id(1), {0: task_runtime()})
        second = other.identity("second", "IP:127.0.0.1")
        first.show(second)
        first.cut()
        shutil.copy(other.file, ca)
        while True:
            try:
                assert await store.tasks.get(job_id(1), 0) == task_runtime()
                break
            except Unavailable:
                await asyncio.sleep(0.05)
    finally:
        await store.close()
        first.close()
