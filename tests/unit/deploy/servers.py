"""Small servers on loopback, each for one answer."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A TCP server that reads something, of HTTP the whole request, and answers that; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked = self.request.recv(4096)
            while (
                asked.startswith(b"GET")
                and not asked.endswith(b"\r\n\r\n")
                and (more := self.request.recv(4096))
            ):
                asked += more
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def http(status: str, body: str = "OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
