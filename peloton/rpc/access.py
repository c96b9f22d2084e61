"""The private AccessService: what a caller may do, without doing it."""

from __future__ import annotations

from typing import Any

from peloton.errors import InvalidArgument
from peloton.identity.door import Door
from peloton.identity.methods import interface, split
from peloton.identity.principal import EVERYTHING, Scope, current
from peloton.private.access import access_pb2
from peloton.private.access.access_pb2_grpc import AccessServiceServicer, add_AccessServiceServicer_to_server
from peloton.rpc.server import Service, service

MAX_METHODS = 1000


class AccessService(AccessServiceServicer):
    """Answers for the caller of each call."""

    def __init__(self, door: Door | None) -> None:
        """Without a door, everything is granted."""
        self._door = door

    async def GetCaller(self, request: access_pb2.GetCallerRequest, context: Any) -> Any:
        """Return who the caller is."""
        caller = current()
        return access_pb2.GetCallerResponse(name=caller.name, kind=caller.kind, roles=caller.roles)

    async def CheckMethods(self, request: access_pb2.CheckMethodsRequest, context: Any) -> Any:
        """Return which methods the caller may call."""
        if len(request.methods) > MAX_METHODS:
            raise InvalidArgument("methods", len(request.methods), f"a number of methods up to {MAX_METHODS}")
        return access_pb2.CheckMethodsResponse(
            verdicts=[self._verdict(path, request.pool) for path in request.methods]
        )

    def _verdict(self, path: str, pool: str) -> access_pb2.MethodVerdict:
        of_service, method = split(path)
        if method not in interface().get(of_service, ()):
            raise InvalidArgument("methods", path, "a method of the interface, as service/method")
        found = EVERYTHING if self._door is None else self._door.may(current(), f"/{path.lstrip('/')}")
        if isinstance(found, str):
            return access_pb2.MethodVerdict(reason=found)
        if pool:
            found = tuple(scope for scope in found if scope.holds(pool, owned=True))
        if not found:
            return access_pb2.MethodVerdict(reason=f"{current()} may not call {path} in the pool {pool}")
        scopes = [access_pb2.Scope(pools=each.pools, own=each.own) for each in found if each != Scope()]
        return access_pb2.MethodVerdict(allowed=True, scopes=scopes)


def access(door: Door | None) -> Service:
    """Make the service, for `RpcServer.activate`."""
    return service(add_AccessServiceServicer_to_server, AccessService(door))
