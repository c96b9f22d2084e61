"""A Mesos agent's files on loopback, for the tests of pages that read them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ROOT = "/sandboxes/run"


class Agent:
    """Files by their paths in the sandbox, served as a Mesos agent does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: set[str] = set()
        """Those among them that are links out of the sandbox, which are shown and not resolved."""
        self.withheld = ""
        """Why there are no others, as the server of sandboxes on Kubernetes says."""
        self.port = 0

    def browse(self, folder: str) -> list[dict[str, object]] | None:
        """Return what a folder holds, None where there is none."""
        inner = f"{folder}/" if folder else ""
        names = {name.removeprefix(inner).partition("/") for name in self.files if name.startswith(inner)}
        if not names:
            return None
        return [
            {
                "path": f"{ROOT}/{inner}{name}",
                "mode": "drwxr-xr-x"
                if slash
                else "lrwxrwxrwx"
                if inner + name in self.links
                else "-rw-r--r--",
                "size": len(self.files.get(f"{inner}{name}", b"")),
                "mtime": 1_700_000_000,
            }
            for name, slash in {(name, slash) for name, slash, _ in names}
        ]

    def answer(self, endpoint: str, query: dict[str, list[str]]) -> bytes | None:
        """Return the body for a request, None where there is no such file."""
        path = query["path"][0].removeprefix(ROOT).strip("/")
        if endpoint == "/files/browse":
            found = self.browse(path)
            return None if found is None else json.dumps(found).encode()
        if path not in self.files or path in self.links:
            return None
        data = self.files[path]
        if endpoint == "/files/download":
            return data
        offset = int(query.get("offset", ["-1"])[0])
        if offset < 0:
            return json.dumps({"data": "", "offset": len(data)}).encode()
        piece = data[offset : offset + int(query["length"][0])]
        return json.dumps({"data": piece.decode(), "offset": offset}).encode()


@contextmanager
def running() -> Iterator[Agent]:
    """Serve files until the end."""
    agent = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            body = agent.answer(url.path, query)
            folder = url.path == "/files/read" and agent.browse(query["path"][0].removeprefix(f"{ROOT}/"))
            status = 200 if body is not None else 400 if folder else 409 if agent.withheld else 404
            if status == 409:
                body = agent.withheld.encode()
            self.send_response(status)
            if status == 200 and agent.withheld:
                self.send_header("peloton-left-out", agent.withheld)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    agent.port = server.server_address[1]
    try:
        yield agent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
