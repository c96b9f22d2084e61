"""How a real master reads odd requests, and what exactly it writes, against our own (06-http-details)."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mesos.v1.scheduler import scheduler_pb2 as scheduler
from peloton.mesos import json as mesos_json
from tests.contract.mesos.recording import RECORDINGS, records

pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings: ../shared/mesos is absent")

PATIENCE_SECONDS = 60.0
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One request on a connection of its own, what came, and how the connection ended."""

    name: str
    request: Record
    reply: Record
    closed: str


def cases() -> Iterator[Case]:
    """Those whose replies were recorded as bytes."""
    name, found = "", dict[str, Record]()
    for record in records("06-http-details") if RECORDINGS.is_dir() else ():
        if record["kind"] == "note":
            name, found = record["text"], {}
            continue
        found[record["kind"]] = record
        if record["kind"] == "closed" and found["reply"].get("raw"):
            yield Case(name, found["request"], found["reply"], record["how"])


CASES = list(cases())


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a master without agents."""
    folder: Path = tmp_path_factory.mktemp("master")
    ready = folder / "ready"
    flags = ("--port=0", f"--work-dir={folder / 'work'}", f"--ready-file={ready}")
    process = subprocess.Popen([sys.executable, "-m", "minicluster.mesos.master", *flags])
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        yield int(json.loads(ready.read_text())["port"])
    finally:
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0


class Plain:
    """A connection on which every byte counts."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self.socket.close()

    def head(self) -> tuple[int, dict[str, str]]:
        """Of the next reply: its status, and its headers in order."""
        status = self._file.readline().split(b" ", 2)
        assert status[0] == b"HTTP/1.1", status
        lines = iter(self._file.readline, b"\r\n")
        return int(status[1]), dict(line.decode().rstrip().split(": ", 1) for line in lines)

    def body(self, length: int) -> bytes:
        return self._file.read(length)

    def record(self, content_type: str) -> Record:
        """Of the next chunk."""
        size = int(self._file.readline(), 16)
        length, _, body = self._file.read(size + 2).removesuffix(b"\r\n").partition(b"\n")
        assert int(length) == len(body)
        if content_type == "application/json":
            return dict(json.loads(body))
        return dict(mesos_json.to_dict(scheduler.Event.FromString(body)))

    def ended(self) -> bool:
        """Whether nothing more comes: waits for the end."""
        return self._file.read(1) == b""


def wire(request: Record) -> bytes:
    """As it was sent, whether its length was right or not."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in request["headers"].items())
    head = f"{request['method']} {request['path']} {request.get('http_version', 'HTTP/1.1')}\r\n{headers}\r\n"
    body = request["body"]
    if isinstance(body, dict) and "base64" in body:
        return head.encode() + base64.b64decode(body["base64"])
    return (head + (body if isinstance(body, str) else json.dumps(body, separators=(",", ":")))).encode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_request_is_answered_as_recorded(case: Case, port: int) -> None:
    with Plain(port) as plain:
        plain.socket.sendall(wire(case.request))
        if case.reply["status"] == 0:
            assert plain.ended(), "what is no HTTP gets no answer"
            return
        status, headers = plain.head()
        assert (status, sorted(headers)) == (case.reply["status"], sorted(case.reply["headers"]))
        assert headers["Content-Type"] == case.reply["headers"]["Content-Type"]
        if "Content-Length" in headers:
            body = plain.body(int(headers["Content-Length"])).decode()
            assert body == case.reply["body"].partition("\r\n\r\n")[2]
        else:
            kinds = [plain.record(headers["Content-Type"])["type"] for _ in range(2)]
            assert kinds == ["SUBSCRIBED", "HEARTBEAT"]
        if "closed by the server" in case.closed:
            plain.socket.shutdown(socket.SHUT_WR)
            assert plain.ended()


def subscribed(plain: Plain, request: Record) -> tuple[str, Record]:
    """Stream id and framework id of a new subscription."""
    plain.socket.sendall(wire(request))
    _, headers = plain.head()
    framework_id = plain.record("application/json")["subscribed"]["framework_id"]
    assert plain.record("application/json") == {"type": "HEARTBEAT"}
    return headers["Mesos-Stream-Id"], framework_id


def call(request: Record, stream_id: str, framework_id: Record) -> bytes:
    """A recorded call, made by another framework than then."""
    body = json.dumps({**request["body"], "framework_id": framework_id})
    own = {"Mesos-Stream-Id": stream_id, "Content-Length": len(body)}
    return wire({**request, "headers": {**request["headers"], **own}, "body": body})


def test_a_call_on_the_subscriptions_own_connection_is_answered_within_the_stream(port: int) -> None:
    subscribe, decline = requests("subscribe-shared")
    with Plain(port) as plain:
        plain.socket.sendall(call(decline, *subscribed(plain, subscribe)))
        assert plain.head()[0] == 202


@pytest.mark.parametrize(
    ("stream", "calls", "closes"),
    [("subscribe-close", "call-23", True), ("subscribe-shared", "call-24", False)],
)
def test_a_teardown_ends_the_stream(port: int, stream: str, calls: str, closes: bool) -> None:
    subscribe, teardown = requests(stream)[0], requests(calls)[0]
    with Plain(port) as plain, Plain(port) as other:
        other.socket.sendall(call(teardown, *subscribed(plain, subscribe)))
        assert other.head()[0] == 202
        assert plain.body(5) == b"0\r\n\r\n"
        if not closes:  # it is still good for another request
            plain.socket.sendall(b"GET /health HTTP/1.1\r\nHost: master\r\n\r\n")
            assert plain.head()[0] == 200
        else:
            assert plain.ended()


def requests(connection: str) -> list[Record]:
    """That were made on a connection of the recording."""
    found = records("06-http-details")
    return [each for each in found if each["kind"] == "request" and each["conn"] == connection]
