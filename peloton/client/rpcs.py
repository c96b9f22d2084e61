"""RPCs as values by the service that has them, `RPCS.job_svc.Get`: a type checker knows their messages."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import grpc

    from peloton.client.client import BaseClient
    from peloton.client.typed import Services

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class RpcName:
    """What an RPC of RPCS is at run time: two names, so that naming it imports no stub."""

    service: str
    """Of `peloton.client.services.SERVICES`."""
    method: str

    def on(self, client: BaseClient) -> Any:
        """Return what makes the call by a client."""
        return getattr(getattr(client, self.service), self.method)


@dataclass(frozen=True, slots=True)
class _ServiceName:
    name: str

    def __getattr__(self, method: str) -> RpcName:
        return RpcName(self.name, method)


class _Names:
    def __getattr__(self, service: str) -> _ServiceName:
        return _ServiceName(service)


RPCS = cast("Services", _Names())
"""All RPCs. They say what is to be called, as in `session.call(RPCS.job_svc.Get, request)`."""


def name_of(rpc: object) -> RpcName:
    """Return the names of an RPC of RPCS."""
    assert isinstance(rpc, RpcName), f"{rpc!r} is not an RPC of RPCS"
    return rpc


def request_of(rpc: grpc.UnaryUnaryMultiCallable[Request, Answer]) -> Request:
    """Return an empty request for an RPC of RPCS."""
    from google.protobuf.message_factory import GetMessageClass

    from peloton.client.services import SERVICES

    name = name_of(rpc)
    service = SERVICES[name.service]
    messages = import_module(f"peloton.{service.module}_pb2").DESCRIPTOR
    described = messages.services_by_name[service.stub.removesuffix("Stub")]
    return cast("Request", GetMessageClass(described.methods_by_name[name.method].input_type)())
