"""A daemon whose Cassandra is not as its settings say, or not there yet."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from minicluster.ports import FreePorts
from peloton.config.private import write_private
from storage.cassandra.connection import Connection, connect
from storage.cassandra.migrate import up
from storage.config import CassandraSettings

Start = Callable[..., "subprocess.Popen[str]"]
LONGEST_PAUSE = 5.0
"""Seconds, as docs/operations.md says."""


@pytest.fixture
def start(store_settings: CassandraSettings, tmp_path: Path) -> Iterator[Start]:
    """Starts a jobmgr with changed storage settings."""
    started: list[subprocess.Popen[str]] = []

    def one(**changes: Any) -> subprocess.Popen[str]:
        free = FreePorts()
        storage = store_settings.model_copy(update={"keyspace": "daemons", **changes})
        tree = {
            "membership": {"kind": "local", "directory": str(tmp_path / "membership")},
            "storage": storage.model_dump(mode="json"),
            "http_port": free.take(),
            "grpc_port": free.take(),
        }
        file = tmp_path / "jobmgr.yaml"
        file.write_text(yaml.safe_dump(tree))
        log = (tmp_path / "log").open("w")
        started.append(
            subprocess.Popen([sys.executable, "-m", "jobmgr", "-c", str(file)], stderr=log, text=True)
        )
        log.close()
        return started[-1]

    yield one
    for each in started:
        each.kill()
        each.wait()


@pytest.fixture
def keyspace(store_settings: CassandraSettings, connection: Connection) -> Iterator[CassandraSettings]:
    settings = store_settings.model_copy(update={"keyspace": "daemons"})
    up(settings)
    yield settings
    connection.execute("DROP KEYSPACE daemons")


def last_line(daemon: subprocess.Popen[str], folder: Path) -> str:
    """Of a daemon that ends by itself, with exit code 1."""
    assert daemon.wait(30) == 1
    return (folder / "log").read_text().splitlines()[-1]


def await_text(file: Path, text: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while text not in file.read_text():
        assert time.monotonic() < deadline, f"{text!r} is not in:\n{file.read_text()}"
        time.sleep(0.02)


def test_a_wrong_password_ends_it(start: Start, keyspace: CassandraSettings, tmp_path: Path) -> None:
    write_private(tmp_path / "password", "not-the-password")
    told = last_line(start(password_file=tmp_path / "password"), tmp_path)
    assert told.startswith("peloton-jobmgr: ") and "does not accept the user or the password" in told
    assert "not-the-password" not in (tmp_path / "log").read_text()


def test_a_missing_keyspace_ends_it(start: Start, tmp_path: Path) -> None:
    told = last_line(start(), tmp_path)
    assert told.startswith("peloton-jobmgr: ")
    assert told.endswith("keyspace daemons does not exist: peloton-migrate up creates it")


def test_a_newer_schema_ends_it(start: Start, keyspace: CassandraSettings, tmp_path: Path) -> None:
    opened = connect(keyspace, keyspace.keyspace)
    opened.execute("INSERT INTO schema_version (shard, version) VALUES (0, 999)")
    opened.close()
    told = last_line(start(), tmp_path)
    assert told.startswith("peloton-jobmgr: ")
    assert "keyspace has schema version 999; this program knows versions up to" in told


class Door:
    """A port before a server, closed at first: it refuses connections, or hangs up on the first word."""

    def __init__(self, server: tuple[str, int], hangs_up: bool) -> None:
        self._server = server
        self._opened = False
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        if hangs_up:
            self._listen()

    def open(self) -> None:
        self._opened = True
        self._listen()

    def close(self) -> None:
        self._socket.close()

    def _listen(self) -> None:
        self._socket.listen()
        threading.Thread(target=self._let_in, daemon=True).start()

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                if not self._opened:
                    caller.recv(1024)
                    caller.close()
                    continue
                server = socket.create_connection(self._server)
                for pair in ((caller, server), (server, caller)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()


def _pass_on(there: socket.socket, here: socket.socket) -> None:
    with suppress(OSError):
        while data := there.recv(65536):
            here.sendall(data)
        here.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("hangs_up", [False, True], ids=["refuses", "hangs-up"])
def test_it_waits_for_a_server_that_is_not_there_yet(
    start: Start, keyspace: CassandraSettings, tmp_path: Path, hangs_up: bool
) -> None:
    """It says so and when it tries again; the connect time-out is not waited for."""
    door = Door(("127.0.0.1", keyspace.port), hangs_up)
    try:
        daemon = start(port=door.port, connect_timeout=60.0)
        log = tmp_path / "log"
        await_text(log, "Cassandra cannot be reached", 20)
        await_text(log, "again in 1.0 s", 20)
        door.open()
        began = time.monotonic()
        await_text(log, "leading in term", 30)
        assert time.monotonic() - began < LONGEST_PAUSE + 20
        assert daemon.poll() is None
    finally:
        door.close()
