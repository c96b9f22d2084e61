"""The gRPC server of a daemon.

Services are active while this instance leads. Otherwise a call to a service that this daemon is known to
serve is answered UNAVAILABLE, with the leader's address in the text. So is a call that ends when this
instance may no longer lead, since its effects may be lost. The trailing metadata of a call that was
rejected before it began says so: any such call may be repeated.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import grpc
from google.protobuf.message import Message

from peloton.errors import Fenced, Unavailable
from peloton.identity.principal import current
from peloton.leaders import NOT_BEGUN
from peloton.rpc.audit import Audit
from peloton.rpc.caller import CallerIdentity, Terms, caller_of
from peloton.rpc.fairness import Fairness
from peloton.rpc.handlers import wrapped

M = TypeVar("M", bound=Message)
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
)
SERVER_OPTIONS = (
    *OPTIONS,
    # Callers may send keepalive pings more often than gRPC allows by default.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A connection that does not say what it wants takes a descriptor.
    ("grpc.server_handshake_timeout_ms", 10_000),
    # This would refuse streams of a connection that keeps to its bound, while others of it are being freed.
    ("grpc.http.overload_protection", 0),
)


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


def names_of(*add_to_server: Callable[[Any, Any], None]) -> tuple[str, ...]:
    """Return the full names of services by their generated `add_XServicer_to_server`."""
    return tuple(name for each in add_to_server for name in service(each, _Unserved()).names)


class _Unserved:
    """Stands in for a servicer of any service, which is not called."""

    def __getattr__(self, method: str) -> None:
        return None


def serialized(answer: type[M], raw: bytes) -> M:
    """Return an answer that was serialized already, as what it is to be taken for: it is sent as it is."""
    return cast(M, raw)


class _Context(Protocol):
    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


def caller(context: object) -> CallerIdentity:
    """Return the caller of the call that gRPC's context belongs to."""
    return caller_of(cast(_Context, context).invocation_metadata() or ())


def author(context: object) -> str:
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
        # gRPC's server must not live until the interpreter ends: it complains on stderr then.
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace)

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
                    self._handlers[path] = wrapped(
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


class _Router(grpc.GenericRpcHandler):
    def __init__(self, server: RpcServer) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        return self._server.find(details.method)
