"""A small Peloton behind one gRPC port: answers from plain dictionaries and remembers what it was asked."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import grpc

from peloton.client.services import SERVICES


class Stream:
    """The answers of a call that streams; one that is (code, details) ends it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers


class FakeDaemons(grpc.GenericRpcHandler):
    """Answers a method with what `answers` holds for its name: a message, a failure as (code, details, and
    pairs of trailing metadata), a list of such, one per call (the last one stays), or a function of the
    request.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "ListClusters": (grpc.StatusCode.UNIMPLEMENTED, "an older host manager"),
            "ListOwners": (grpc.StatusCode.UNIMPLEMENTED, "an older job manager"),
            "ListLiveJobs": (grpc.StatusCode.UNIMPLEMENTED, "an older job manager"),
        }
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        self._requests = _request_types()

    def requests(self, method: str) -> list[Any]:
        return [request for name, request, _ in self.asked if name == method]

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        if path not in self._requests:
            return None
        method = path.rpartition("/")[2]
        metadata = {pair.key: pair.value for pair in handler_call_details.invocation_metadata}

        def handle(request: Any, context: Any) -> Any:
            self.asked.append((method, request, metadata))
            return self._answer(method, request, context)

        def stream(request: Any, context: Any) -> Iterator[Any]:
            self.asked.append((method, request, metadata))
            for answer in self.answers[method].answers:
                if isinstance(answer, tuple):
                    context.abort(*answer)
                yield answer

        if isinstance(self.answers.get(method), Stream):
            return grpc.unary_stream_rpc_method_handler(
                stream,
                request_deserializer=self._requests[path].FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=self._requests[path].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _answer(self, method: str, request: Any, context: Any) -> Any:
        answer = self.answers[method]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, tuple):
            code, details, *trailing = answer
            context.set_trailing_metadata(tuple(trailing))
            context.abort(code, details)
        return answer


def _request_types() -> dict[str, Any]:
    """Request type by method path, read from the descriptors of all services that the client knows."""
    from importlib import import_module

    from google.protobuf import message_factory

    found = {}
    for service in SERVICES.values():
        module = import_module(f"peloton.{service.module}_pb2")
        for descriptor in module.DESCRIPTOR.services_by_name.values():
            for method in descriptor.methods:
                path = f"/{descriptor.full_name}/{method.name}"
                found[path] = message_factory.GetMessageClass(method.input_type)
    return found


@contextmanager
def serving(daemons: FakeDaemons) -> Iterator[str]:
    """The address at which the fake answers."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((daemons,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class FakeAgent:
    """The `/files` of a Mesos agent, over a dictionary of paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.reads = 0
        self.withheld = ""
        """Why other files are not shown, as the server of sandboxes on Kubernetes says."""

    def answer(self, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == "/files/browse":
            return self._browse(query["path"].rstrip("/") + "/")
        content = self.files.get(query["path"])
        if content is None:
            return (409, self.withheld.encode()) if self.withheld else (404, b"")
        if parts.path == "/files/download":
            return 200, content
        self.reads += 1
        offset, length = int(query["offset"]), int(query["length"])
        piece = content[offset : offset + min(length, 65536)]
        text = json.dumps({"data": "@", "offset": offset}).encode()
        quoted = piece.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        return 200, text.replace(b"@", quoted)

    def _browse(self, folder: str) -> tuple[int, bytes]:
        inside = [path.removeprefix(folder) for path in self.files if path.startswith(folder)]
        modes = {path.partition("/")[0]: "d" if "/" in path else "-" for path in inside}
        entries = [{"path": folder + name, "mode": f"{mode}rw-r--r--"} for name, mode in modes.items()]
        if not inside and self.withheld:
            return 409, self.withheld.encode()
        return (200, json.dumps(entries).encode()) if inside else (404, b"")


@contextmanager
def agent_serving(agent: FakeAgent) -> Iterator[tuple[str, int]]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = agent.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
