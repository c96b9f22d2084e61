"""What is told of servers that are none, or not the right ones; soon."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from peloton.errors import PelotonError, Refused, Unavailable
from storage.cassandra.connection import connect, misplaced
from storage.config import CassandraSettings
from storage.selection.factory import Stores

ERROR, PROTOCOL_ERROR, BOOTSTRAPPING = 0x00, 0x000A, 0x1002
LONGEST = 120.0
"""Connect time-out, seconds: were it waited for, the test would show it."""


def error(version: int, code: int, text: str) -> bytes:
    """A server's message, in CQL's native protocol."""
    body = code.to_bytes(4, "big") + len(text).to_bytes(2, "big") + text.encode()
    return bytes((0x80 | version, 0, 0, 0, ERROR)) + len(body).to_bytes(4, "big") + body


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of one that hears each caller's first word, answers it by what the test says, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                with caller:
                    caller.recv(1024)
                    caller.sendall(request.param)

    threading.Thread(target=serve, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize(
    ("server", "kind", "told"),
    [
        (b"", Unavailable, "cannot be reached: .*closed during the handshake"),
        (error(5, BOOTSTRAPPING, "is bootstrapping"), Unavailable, "cannot be reached: .*bootstrapping"),
        (error(4, PROTOCOL_ERROR, "Invalid or unsupported protocol version (5)"), Refused, "too old"),
    ],
    ids=["hangs-up", "bootstraps", "too-old"],
    indirect=["server"],
)
@pytest.mark.timeout(60)
def test_it_is_told_at_once(server: int, kind: type[PelotonError], told: str) -> None:
    with pytest.raises(kind, match=told) as raised:
        connect(CassandraSettings(port=server, connect_timeout=LONGEST), None)
    assert "\n" not in str(raised.value)


def test_a_name_without_an_address_is_told() -> None:
    settings = CassandraSettings(contact_points=("nowhere.invalid",))
    with pytest.raises(Unavailable, match=r"no address is known of nowhere\.invalid"):
        connect(settings, None)


@pytest.mark.parametrize("content", [b"\xff\xfepass\x00", None], ids=["binary", "folder"])
def test_a_password_that_cannot_be_read_is_told_but_not_shown(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
        file.chmod(0o600)
    settings = CassandraSettings(username="me", password_file=file)
    for use in (lambda: connect(settings, None), lambda: Stores(settings)):  # as a daemon does with --check
        with pytest.raises(Refused, match=f"storage.password_file: {file}: ") as raised:
            use()
        assert "\n" not in str(raised.value)
        assert "xff" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "centers", "told"),
    [
        ({"datacenter": "dc1"}, {"dc1", "dc2"}, ""),
        ({"datacenter": ""}, {"dc1"}, ""),
        ({"datacenter": "dc3"}, {"dc2", "dc1"}, "there is no data center dc3, but dc1, dc2"),
        ({"datacenter": "dc3"}, set(), ""),
        ({"datacenter": ""}, {"dc2", "dc1"}, "the servers are in dc1, dc2: storage.datacenter must name one"),
        ({"consistency": "QUORUM"}, {"dc2", "dc1"}, "the servers are in dc1, dc2"),
        ({"consistency": "QUORUM", "serial_consistency": "SERIAL"}, {"dc2", "dc1"}, ""),
    ],
)
def test_data_centers(settings: dict[str, Any], centers: set[str], told: str) -> None:
    """What a quorum of one data center has acknowledged, that of another need not know."""
    assert misplaced(CassandraSettings(**settings), centers).startswith(told)
    assert bool(told) == bool(misplaced(CassandraSettings(**settings), centers))
