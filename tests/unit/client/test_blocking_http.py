"""HTTP of the client: whose certificates it trusts, what it takes from the environment, how it ends."""

from __future__ import annotations

import asyncio
import datetime
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from peloton.client.agent_files import AGENT_SECONDS, AgentFile
from peloton.client.blocking_http import address_of, answer, cause_of, head_of, reason_of, session
from peloton.client.failures import CODES, CallError
from peloton.client.sync_async import Asyncio
from peloton.config.tls import client_context
from peloton.identity.certs import LOOPBACK, authority_in, issue, make_authority

NOW = datetime.datetime.now(datetime.UTC)
DEADLINE = 60.0
PATIENCE = (DEADLINE, DEADLINE)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/here")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 1000)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(made: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield int(made.server_address[1])
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


@pytest.fixture
def port() -> Iterator[int]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Page)) as found:
        yield found


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_only_the_given_authority_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca", "other"):
        make_authority(tmp_path / name, name, NOW)
    issued = issue(tmp_path / "ca", "agent", LOOPBACK, 1, NOW)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(issued.certificate, issued.key)
    server.socket = accepting.wrap_socket(server.socket, server_side=True)
    right, wrong = (
        client_context("test", authority_in(tmp_path / name).certificate, None, None)
        for name in ("ca", "other")
    )
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority_in(tmp_path / "ca").certificate))
    with serving(server) as port:
        address = address_of("https", "127.0.0.1", port, "/")
        for _ in range(2):
            with session(lambda: right) as made, answer(made, "GET", address, PATIENCE) as found:
                assert head_of(found, 10) == b"x" * 10
        with (
            session(lambda: wrong) as made,
            pytest.raises(requests.exceptions.SSLError) as caught,
            answer(made, "GET", address, PATIENCE),
        ):
            pass
    assert isinstance(cause_of(caught.value), ssl.SSLCertVerificationError)
    assert "certificate verify failed" in reason_of(caught.value)
    assert [len(each.get_ca_certs()) for each in (right, wrong)] == [1, 1]
    assert {each.verify_mode for each in (right, wrong)} == {ssl.CERT_REQUIRED}


def test_proxies_and_redirects_are_not_followed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    address = address_of("http", "127.0.0.1", port, "/elsewhere")
    with session() as made, answer(made, "GET", address, PATIENCE) as found:
        assert found.status_code == 302


def test_failures_are_told_in_a_few_words(silent: int) -> None:
    with session() as made:
        with pytest.raises(requests.RequestException) as refused:
            made.get("http://127.0.0.1:1/", timeout=PATIENCE)
        with pytest.raises(requests.RequestException) as late:
            made.get(address_of("http", "127.0.0.1", silent, "/"), timeout=(DEADLINE, 0.05))
    assert (reason_of(refused.value), reason_of(late.value)) == ("Connection refused", "timed out")


def test_an_address_has_its_query_and_brackets() -> None:
    assert address_of("http", "::1", 5051, "/files/read", {"path": "/a b&c"}) == (
        "http://[::1]:5051/files/read?path=%2Fa%20b%26c"
    )


async def test_a_read_of_a_file_ends_with_its_task() -> None:
    """The agent took the request and says nothing: the thread must not wait for its time-out."""
    asked, ended = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        ended.set()
        writer.close()

    driver = Asyncio()
    async with asyncio.timeout(AGENT_SECONDS - 5), await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reading = asyncio.create_task(AgentFile("127.0.0.1", port, "/stdout").read(driver, 0))
        await asked.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await driver.close()
        await ended.wait()


async def test_what_an_agent_answers_is_bounded(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr("peloton.client.agent_files.LARGEST_ANSWER_BYTES", 999)
    driver = Asyncio()
    with pytest.raises(CallError, match="answered more than 999 bytes to /files/read"):
        await AgentFile("127.0.0.1", port, "/stdout").read(driver, 0)
    await driver.close()


async def test_why_a_file_is_not_shown_is_told() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 409 X\r\nContent-Length: 5\r\n\r\nended")
        await writer.drain()
        writer.close()

    driver = Asyncio()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        file = AgentFile("127.0.0.1", server.sockets[0].getsockname()[1], "/results.csv")
        with pytest.raises(CallError, match="ended") as told:
            await file.read(driver, 0)
        assert told.value.code is CODES.FAILED_PRECONDITION
    await driver.close()


def test_many_threads_read_at_a_time_without_a_word(port: int, caplog: pytest.LogCaptureFixture) -> None:
    """urllib3 warns of connections that it does not keep: the user of `peloton logs` would read that."""
    threads = 100
    together = threading.Barrier(threads)
    address = address_of("http", "127.0.0.1", port, "/")
    with session() as made:

        def read(number: int) -> int:
            with answer(made, "GET", address, PATIENCE) as found:
                together.wait(DEADLINE)
                return len(head_of(found, 2000))

        with ThreadPoolExecutor(threads) as pool:
            assert set(pool.map(read, range(threads))) == {1000}
    assert not caplog.records


class Mesos(socketserver.BaseRequestHandler):
    """Answers as Mesos does, which does not say that it closes; counts the requests of each connection."""

    def handle(self) -> None:
        counts = self.server.counts  # type: ignore[attr-defined]  # set by the test
        counts.append(0)
        while self.request.recv(65536):
            counts[-1] += 1
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def test_a_connection_that_the_server_is_about_to_close_is_not_used_again() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mesos) as server, session() as made:
        server.daemon_threads = True
        server.counts = []  # type: ignore[attr-defined]  # read by the handler
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            for _ in range(3):
                with answer(made, "GET", f"http://127.0.0.1:{server.server_address[1]}/", PATIENCE) as found:
                    assert found.content == b"{}"
        finally:
            server.shutdown()
    assert server.counts == [1, 1, 1]  # type: ignore[attr-defined]
