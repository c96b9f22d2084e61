"""Files of a sandbox over HTTP, from an agent played by the standard library's server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from peloton.client import sandbox
from peloton.client.sandbox import SandboxFile
from peloton.errors import NotFound, PelotonError, Unavailable

CONTENT = b"line 1\nline 2 \xff\n" * 10


class Agent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match query["path"]:
            case "/run/a b/stdout" if url.path == "/files/download":
                self._answer(200, CONTENT)
            case "/run/a b/stdout":
                data = CONTENT[int(query["offset"]) :][: int(query["length"])]
                text = data.decode("utf-8", "surrogateescape")
                body = json.dumps({"data": text, "offset": 0}, ensure_ascii=False)
                self._answer(200, body.encode("utf-8", "surrogateescape"))
            case "/cut":
                self._answer(200, b"half", promised=100)
            case "/broken":
                self._answer(500, b"")
            case _:
                self._answer(404, b"")

    def _answer(self, status: int, body: bytes, promised: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(promised or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def file(port: int, path: str) -> SandboxFile:
    return SandboxFile(sandbox.Agent("127.0.0.1", port, 5.0), path)


def test_download_and_read(port: int) -> None:
    stdout = file(port, "/run/a b/stdout")
    assert b"".join(stdout.download()) == CONTENT
    assert stdout.read(0) == CONTENT
    assert stdout.read(7) == CONTENT[7:]
    assert stdout.read(len(CONTENT)) == b""


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/cut", Unavailable, "agent 127.0.0.1:{port}: the connection broke: "),
        ("/broken", PelotonError, "agent 127.0.0.1:{port} answered 500 to /files/read"),
        ("/none", NotFound, "agent 127.0.0.1:{port} has no file /none"),
    ],
)
def test_failed_read(port: int, path: str, error: type[PelotonError], message: str) -> None:
    with pytest.raises(error) as caught:
        file(port, path).read(0)
    assert str(caught.value).startswith(message.format(port=port))


def test_unreachable_agent(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    with pytest.raises(Unavailable, match=r"agent 127\.0\.0\.1:1 cannot be reached: .*refused"):
        b"".join(file(1, "/x").download())
