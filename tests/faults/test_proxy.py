"""The proxy passes bytes on, and injects the faults that are set."""

from __future__ import annotations

import random
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from tests.faults.proxy import Proxy
from tests.faults.status_filter import Rates, UpdateMangler


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Proxy("127.0.0.1", server.server_address[1])
    made.start()
    yield made
    made.close()
    server.shutdown()
    server.server_close()


@pytest.fixture
def peer(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as made:
        yield made


def ask(peer: socket.socket, data: bytes) -> bytes:
    """The answer, as far as it comes before the connection ends."""
    got = b""
    try:
        peer.sendall(data)
        while len(got) < len(data) and (more := peer.recv(1024)):
            got += more
    except ConnectionError:
        return got
    return got


def test_the_proxy_passes_everything(peer: socket.socket) -> None:
    assert ask(peer, b"hello") == b"hello"


def test_the_proxy_delays(proxy: Proxy, peer: socket.socket) -> None:
    proxy.delay = 0.1
    began = time.monotonic()
    assert ask(peer, b"hello") == b"hello"
    assert time.monotonic() - began >= 0.2


def test_the_proxy_cuts_connections(proxy: Proxy, peer: socket.socket) -> None:
    assert ask(peer, b"hello") == b"hello"
    proxy.cut()
    assert ask(peer, b"again") != b"again"


def test_the_proxy_cuts_within_an_answer(proxy: Proxy, peer: socket.socket) -> None:
    proxy.cut_within_answer(3)
    assert ask(peer, b"hello") == b"hel"


def test_the_proxy_withholds_an_answer(proxy: Proxy, peer: socket.socket) -> None:
    proxy.silence()
    assert ask(peer, b"hello") == b""
    assert proxy.silenced == 1


def test_the_proxy_refuses_connections_while_down(proxy: Proxy) -> None:
    proxy.down = True
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as peer:
        assert ask(peer, b"hello") == b""


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(name: str) -> bytes:
    event = scheduler.Event(type=scheduler.Event.UPDATE if name else scheduler.Event.HEARTBEAT)
    if name:
        event.update.status.task_id.value = name
        event.update.status.state = mesos_pb2.TASK_RUNNING
    data = event.SerializeToString()
    record = b"%d\n%s" % (len(data), data)
    return b"%x\r\n%s\r\n" % (len(record), record)


@pytest.mark.parametrize(
    ("chances", "wanted"),
    [
        ((0, 0, 0), ["a", "", "b"]),
        ((1, 0, 0), [""]),
        ((0, 1, 0), ["a", "a", "", "b", "b"]),
        ((0, 0, 1), ["", "a"]),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_updates_are_lost_repeated_and_late(chances: tuple[float, ...], wanted: list[str], step: int) -> None:
    mangler = UpdateMangler(random.Random(1), Rates(*chances))
    data = HEAD + chunk("a") + chunk("") + chunk("b")
    out = b"".join(mangler.feed(data[i : i + step]) for i in range(0, len(data), step))
    assert out == HEAD + b"".join(chunk(name) for name in wanted)


def test_other_answers_pass_untouched() -> None:
    mangler = UpdateMangler(random.Random(1), Rates(lost=1))
    answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    assert mangler.feed(answer) + mangler.feed(answer) == answer * 2
