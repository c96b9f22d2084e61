"""The gRPC server of a daemon.

Services are active while this instance leads. Otherwise a call to a service that this daemon is known to
serve is answered UNAVAILABLE, with the leader's address in the text. So is a call that ends when this
instance may no longer lead, since its effects may be lost. The trailing metadata of a call that was
rejected before it began says so: any such call may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from peloton.errors import Fenced, InvalidArgument, PelotonError, Unavailable
from peloton.identity.principal import current
from peloton.identity.request import Said, enter
from peloton.required_fields import missing_fields
from peloton.rpc.audit import Audit
from peloton.rpc.caller import CallerIdentity, Terms, caller_of
from peloton.rpc.errors import status_of
from peloton.rpc.fairness import Fairness
from peloton.rpc.metrics import CALL_SECONDS, CALLS, CALLS_BY_CALLER
from peloton.rpc.numbers import require_finite

MAX_MESSAGE = 256 * 1024 * 1024
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.so_reuseport", 0),
)
SERVER_OPTIONS = (
    *OPTIONS,
    # Callers may send keepalive pings more often than gRPC allows by default.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    # This would refuse streams of a connection that keeps to its bound, while others of it are being freed.
    ("grpc.http.overload_protection", 0),
)
NOT_BEGUN = "peloton-not-begun"
"""Key of the trailing metadata of a call that was refused before it began."""
PRIVATE = "/peloton.private."
"""Prefix of the paths of services between daemons."""
log = logging.getLogger(__name__)
access = logging.getLogger("peloton.access")
"""A line for each call, at level debug."""


@dataclass(frozen=True, slots=True)
class Service:
    """The methods of a servicer under the names by which they are served."""

    names: tuple[str, ...]
    methods: Mapping[str, Any]


class _Recorder:
    """Stands in for a server, to record what generated code registers."""

    name = ""
    handlers: Mapping[str, Any]

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore the same handlers in an older form."""

    def add_registered_method_handlers(self, name: str, handlers: Mapping[str, Any]) -> None:
        """Record the handlers of a service."""
        self.name, self.handlers = name, handlers


def service(
    add_to_server: Callable[[Any, Any], None], servicer: object, aliases: Iterable[str] = ()
) -> Service:
    """Make a service with the generated `add_XServicer_to_server`.

    `aliases` are further full names of the service.
    """
    recorder = _Recorder()
    add_to_server(servicer, recorder)
    return Service((recorder.name, *aliases), recorder.handlers)


def caller(context: Any) -> CallerIdentity:
    """Return the caller of the call that this context belongs to."""
    return caller_of(context.invocation_metadata() or ())


def author(context: Any) -> str:
    """Return who changes something by a call, for people: the user or the daemon; empty where nobody asks."""
    return current().name or caller(context).instance


def _require_free(host: str, port: int, where: str) -> None:
    """Raise Unavailable where the port is taken; gRPC would log that it got no port, but not why."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Unavailable(f"gRPC port {where}: {error.strerror}") from None


class RpcServer:
    """The server: handlers by method, with the fence under which they answer."""

    def __init__(
        self,
        leader: Callable[[], str],
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        audit: Audit | None = None,
        fairness: Fairness | None = None,
        connection_streams: int | None = None,
    ) -> None:
        """Use `leader` to describe, for users, which instance answers instead of this one.

        All calls pass through the interceptors, also those of services that are not served. `fairness` lets
        calls begin; without it all begin at once. `connection_streams` bounds the calls of a connection.
        """
        self._fairness = fairness
        self._connection_streams = connection_streams
        self._leader = leader
        self._audit = audit
        self._interceptors = tuple(interceptors)
        self._terms = Terms()
        self._handlers: dict[str, Any] = {}
        self._known: set[str] = set()
        self._server: Any = None

    async def start(
        self,
        host: str,
        port: int,
        further: Iterable[grpc.GenericRpcHandler] = (),
        credentials: grpc.ServerCredentials | None = None,
    ) -> int:
        """Listen and return the port. Raises Unavailable where it is taken.

        Port 0 picks a free one. `further` handlers answer, unchanged, what none of the services does.
        """
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        _require_free(host, port, where)
        server = grpc.aio.server(interceptors=self._interceptors, options=self._options())
        server.add_generic_rpc_handlers((_Router(self), *further))
        try:
            if credentials is None:
                bound = server.add_insecure_port(where)
            else:
                bound = server.add_secure_port(where, credentials)
        except RuntimeError:
            bound = 0
        if not bound:
            raise Unavailable(f"gRPC port {where} is in use or not available to this daemon")
        await server.start()
        self._server = server
        return int(bound)

    def _options(self) -> tuple[tuple[str, int], ...]:
        if self._connection_streams is None:
            return SERVER_OPTIONS
        return (*SERVER_OPTIONS, ("grpc.max_concurrent_streams", self._connection_streams))

    async def stop(self, grace: float = 0.5) -> None:
        """Stop accepting calls, and finish those in progress."""
        if self._server is not None:
            await self._server.stop(grace)

    def announce(self, names: Iterable[str]) -> None:
        """Declare services that this daemon serves when it leads."""
        self._known.update(names)

    def activate(self, services: Sequence[Service], fence: Callable[[], None] = lambda: None) -> None:
        """Serve services; `fence` raises Fenced or Unavailable while they may not answer."""
        fenced = partial(self._fenced, fence)
        for each in services:
            self._known.update(each.names)
            for name in each.names:
                for method, handler in each.methods.items():
                    path = f"/{name}/{method}"
                    self._handlers[path] = _wrapped(
                        path, handler, self._terms, fenced, self._audit, self._fairness
                    )

    def deactivate(self, services: Sequence[Service]) -> None:
        """Stop serving services."""
        for each in services:
            for name in each.names:
                for method in each.methods:
                    self._handlers.pop(f"/{name}/{method}", None)

    def find(self, path: str) -> Any:
        """Return the handler, one that answers UNAVAILABLE, or None for an unknown method."""
        handler = self._handlers.get(path)
        name = path.split("/")[1]
        if handler is None and name in self._known and not self.serves(name):
            return grpc.unary_unary_rpc_method_handler(self._refuse)
        return handler

    @property
    def names(self) -> list[str]:
        """Return the services that are or may be served here."""
        return sorted(self._known)

    def serves(self, name: str) -> bool | None:
        """Return whether the service is served here now; None for an unknown one."""
        if name not in self._known:
            return None
        return any(held.startswith(f"/{name}/") for held in self._handlers)

    async def _refuse(self, request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.UNAVAILABLE, self._leader(), ((NOT_BEGUN, "1"),))
        return b""

    def _fenced(self, fence: Callable[[], None]) -> None:
        """Raise Unavailable, since the current leader can answer."""
        try:
            fence()
        except Fenced as error:
            raise Unavailable(f"{error}; {self._leader()}") from None


class _Router(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, server: RpcServer) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        return self._server.find(details.method)


def _wrapped(
    path: str,
    handler: Any,
    terms: Terms,
    fence: Callable[[], None],
    audit: Audit | None = None,
    fairness: Fairness | None = None,
) -> Any:
    """Wrap a handler in limits, parsing, checks of terms, translation of errors, and metrics."""
    if handler.request_streaming:
        raise NotImplementedError(f"{path}: no service of ours takes a stream")
    parse, seconds = _parser(path, handler.request_deserializer), CALL_SECONDS.labels(path)
    serialize = _serializer(handler.response_serializer)
    if fairness is not None and not fairness.concerns(path):
        fairness = None
    if handler.response_streaming:
        stream = _stream(path, handler.unary_stream, parse, terms, fence)
        if fairness is not None:
            stream = fairness.stream(path, stream, serialize)
        return grpc.unary_stream_rpc_method_handler(stream, response_serializer=serialize)
    unary = _unary(path, handler.unary_unary, parse, terms, fence, seconds.observe, audit)
    if fairness is not None:
        unary = fairness.unary(path, unary, serialize)
    return grpc.unary_unary_rpc_method_handler(unary, response_serializer=serialize)


def _serializer(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a serializer that takes bytes as they are: what many clients get is serialized once."""
    return lambda answer: answer if isinstance(answer, bytes) else serialize(answer)


def _parser(path: str, parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a parser that refuses numbers that are not finite.

    It checks requests of private services for missing required fields, too. Messages of Mesos have required
    fields, and an answer that echoes one without them cannot be serialised. The public services check this
    themselves.
    """

    def parse_finite(raw: bytes) -> Any:
        request = parse(raw)
        require_finite(request, raw)
        return request

    if not path.startswith(PRIVATE):
        return parse_finite

    def parse_whole(raw: bytes) -> Any:
        request = parse_finite(raw)
        if missing := missing_fields(request):
            raise InvalidArgument(missing[0], None, "given; it is a required field")
        return request

    return parse_whole


def _unary(
    path: str,
    method: Callable[[Any, Any], Awaitable[Any]],
    parse: Callable[[bytes], Any],
    terms: Terms,
    fence: Callable[[], None],
    observe: Callable[[float], None],
    audit: Audit | None,
) -> Callable[[bytes, Any], Awaitable[Any]]:
    succeeded = CALLS.labels(path, "OK")

    def note(context: Any, begun: float, code: str, request: Any, answer: Any, why: str) -> None:
        metadata = context.invocation_metadata() or ()
        if audit is not None and audit.concerns(path, current(), metadata):
            seconds = time.perf_counter() - begun
            audit.note(path, current(), metadata, code, seconds, request, answer, why)

    async def call(raw: bytes, context: Any) -> Any:
        begun = time.perf_counter()
        request: Any = None
        story, outcome = _enter(context), "CANCELLED"
        try:
            _admit(context, terms, fence)
            request = parse(raw)
            answer = await method(request, context)
            fence()
            outcome = "OK"
            succeeded.inc()
            if audit is not None:
                note(context, begun, "OK", request, answer, "")
            return answer
        except (asyncio.CancelledError, grpc.aio.BaseError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: answered to the caller, and logged
            code, text = _failure(path, error, fence)
            outcome = code.name
            if audit is not None:
                note(context, begun, code.name, request, None, text)
            await context.abort(code, text)
        finally:
            seconds = time.perf_counter() - begun
            observe(seconds)
            _log(path, story, outcome, seconds)

    return call


def _stream(
    path: str,
    method: Callable[[Any, Any], Any],
    parse: Callable[[bytes], Any],
    terms: Terms,
    fence: Callable[[], None],
) -> Any:
    async def call(raw: bytes, context: Any) -> Any:
        begun, story, outcome = time.perf_counter(), _enter(context), "CANCELLED"
        try:
            _admit(context, terms, fence)
            async for answer in method(parse(raw), context):
                fence()
                yield answer
            outcome = "OK"
        except (asyncio.CancelledError, grpc.aio.BaseError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: answered to the caller, and logged
            code, text = _failure(path, error, fence)
            outcome = code.name
            await context.abort(code, text)
        finally:
            _log(path, story, outcome, time.perf_counter() - begun)

    return call


def _enter(context: Any) -> Said:
    """Take and count what a call says of itself."""
    story = enter(context.invocation_metadata() or ())
    CALLS_BY_CALLER.count(story.caller, story.service)
    return story


def _log(path: str, story: Said, outcome: str, seconds: float) -> None:
    """Write a line of the access log."""
    if access.isEnabledFor(logging.DEBUG):
        who, means, number = str(current()), story.service or "-", story.request_id
        text = "%s %s %.6f s, caller %s, service %s, %s, request %s"
        access.debug(text, path, outcome, seconds, story.caller or "-", means, who, number)


def _admit(context: Any, terms: Terms, fence: Callable[[], None]) -> None:
    """Check the fence and the caller's term. Raises Unavailable, and Fenced for an old term."""
    try:
        fence()
    except Unavailable:
        context.set_trailing_metadata(((NOT_BEGUN, "1"),))
        raise
    terms.check(caller_of(context.invocation_metadata() or ()))


def _failure(path: str, error: Exception, fence: Callable[[], None]) -> tuple[grpc.StatusCode, str]:
    """Return the status and the text of a failure, and count it. Defects are logged."""
    if isinstance(error, Fenced):
        try:
            fence()
        except Unavailable as own:  # our own term is over, not the caller's: another instance can answer
            error = own
    if isinstance(error, DecodeError):
        code, text = grpc.StatusCode.INVALID_ARGUMENT, f"{path}: the request's bytes are no such message"
    elif isinstance(error, PelotonError):
        code, text = status_of(error), str(error)
    elif isinstance(error, NotImplementedError):
        code, text = grpc.StatusCode.UNIMPLEMENTED, str(error) or f"{path} is not built yet"
    else:
        log.error("%s failed", path, exc_info=error)
        code, text = (
            grpc.StatusCode.INTERNAL,
            f"{path}: {type(error).__name__}; see the daemon's log",
        )
    CALLS.labels(path, code.name).inc()
    return code, text
