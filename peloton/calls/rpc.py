"""An RPC as a value: its name, and the types of its request and answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

import grpc

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Stub = TypeVar("Stub")


@dataclass(frozen=True, slots=True)
class Rpc(Generic[Request, Answer]):
    """A method of a service that takes one request and gives one answer."""

    service: str
    """The service's full name, such as peloton.private.resmgr.ResourceManagerService."""
    name: str
    serialize: Callable[[Request], bytes] = field(compare=False, repr=False)
    parse: Callable[[bytes], Answer] = field(compare=False, repr=False)

    @property
    def path(self) -> str:
        """Return the path by which it is called."""
        return f"/{self.service}/{self.name}"


class Caller(Protocol):
    """Calls the leader of another daemon, as `LeaderClient` does."""

    async def call(
        self,
        rpc: Rpc[Request, Answer],
        request: Request,
        timeout: float = 10.0,
        retry: bool = True,
        waits: float = 0.0,
    ) -> Answer:
        """Make a call and return the answer. Raises PelotonError.

        `timeout` (seconds) bounds all tries; where `retry` is false, there is one. In a long poll the other
        side waits for up to `waits` seconds beyond that.
        """
        ...


class Hostmgrs(Caller, Protocol):
    """Calls the host managers of all Mesos clusters as if there were one, as `ClusterClient` does."""

    def of(self, cluster: str) -> Caller:
        """Return the caller of one cluster."""
        ...


class _Recorder:
    """Stands in for a channel, to read from a generated stub what its methods are."""

    def unary_unary(
        self, path: str, request_serializer: Any, response_deserializer: Any, **others: Any
    ) -> Any:
        """Return the method as a value."""
        service, name = path[1:].split("/")
        return Rpc(service, name, request_serializer, response_deserializer)

    def unary_stream(self, path: str, **others: Any) -> Any:
        """Return no value: streams are not called by `Caller`."""
        return None


def rpc(
    stub: type[Stub], choose: Callable[[Stub], grpc.UnaryUnaryMultiCallable[Request, Answer]]
) -> Rpc[Request, Answer]:
    """Return the method of a generated stub that `choose` picks, `rpc(PoolsStub, lambda stub: stub.Get)`."""
    make: Callable[[Any], Stub] = stub
    found: object = choose(make(_Recorder()))
    assert isinstance(found, Rpc), f"{stub} has no such method with one request and one answer"
    return found


def methods_of(module: ModuleType) -> dict[str, frozenset[str]]:
    """Return the names of the methods that a module names, by service."""
    found: dict[str, set[str]] = {}
    for each in vars(module).values():
        if isinstance(each, Rpc):
            found.setdefault(each.service, set()).add(each.name)
    return {service: frozenset(names) for service, names in found.items()}
