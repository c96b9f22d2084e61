"""The standard services of a gRPC server: health checking and reflection.

`grpc_health_probe`, Kubernetes and load balancers use the first, `grpcurl` the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2_grpc import add_ServerReflectionServicer_to_server

from peloton.errors import NotFound, ResourceExhausted
from peloton.rpc.server import Service, service

WATCH_SECONDS = 0.5
"""Seconds between two checks of a watched status."""
MAX_WATCHERS = 100
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
REFLECTION_NAMES = ("grpc.reflection.v1.ServerReflection",)
"""The newer name of the same service with the same messages."""
_Response = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """The service grpc.health.v1.Health.

    The empty name stands for the daemon, which serves while /health is OK. The name of a service stands for
    that service, which may be served by the leader only.
    """

    def __init__(self, unhealthy: Callable[[], str], serves: Callable[[str], bool | None]) -> None:
        """Use `unhealthy` for what is wrong, empty if nothing; `serves` for the state of a service."""
        self._unhealthy = unhealthy
        self._serves = serves
        self._watchers = 0

    async def Check(self, request: Any, context: Any) -> Any:
        """Return the status now."""
        status = self._status(request.service)
        if status == _Response.SERVICE_UNKNOWN:
            raise NotFound(f"service: {request.service!r} is not served by this daemon")
        return _Response(status=status)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Send the status now, and again whenever it changes."""
        if self._watchers >= MAX_WATCHERS:
            raise ResourceExhausted(f"{MAX_WATCHERS} health watches are open already")
        self._watchers += 1
        last = None
        try:
            while True:
                status = self._status(request.service)
                if status != last:
                    yield _Response(status=status)
                last = status
                await asyncio.sleep(WATCH_SECONDS)
        finally:
            self._watchers -= 1

    def _status(self, name: str) -> int:
        served = self._serves(name) if name else True
        if served is None:
            return int(_Response.SERVICE_UNKNOWN)
        return int(_Response.SERVING if served and not self._unhealthy() else _Response.NOT_SERVING)


def health(unhealthy: Callable[[], str], serves: Callable[[str], bool | None]) -> Service:
    """Make the health service, for `RpcServer.activate`."""
    return service(health_pb2_grpc.add_HealthServicer_to_server, Health(unhealthy, serves))


def reflection(names: Iterable[str]) -> list[grpc.GenericRpcHandler]:
    """Return handlers that describe these services, without older names that no .proto file has."""
    servicer = aio.ReflectionServicer([REFLECTION, *filter(_described, names)])
    found = service(add_ServerReflectionServicer_to_server, servicer, REFLECTION_NAMES)
    return [grpc.method_handlers_generic_handler(name, dict(found.methods)) for name in found.names]


def _described(name: str) -> bool:
    try:
        descriptor_pool.Default().FindServiceByName(name)  # type: ignore[no-untyped-call]
    except KeyError:
        return False
    return True
