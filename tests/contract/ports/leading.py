"""A leader whose services are served over gRPC, as their callers find it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from peloton.membership.interface import Address, Membership, Role
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.server import RpcServer, Service


class _OneLeader:
    """A membership that knows one address."""

    def __init__(self, port: int) -> None:
        self._address = Address("here", "127.0.0.1", 0, port)

    def leader(self, role: Role, cluster: str) -> Address:
        return self._address


def claiming(client: LeaderClient, shards: Callable[[], str], instance: str = "") -> LeaderClient:
    """Return what calls as `client` does, or another instance, as the owner of shards of jobs."""
    metadata = (("peloton-instance", instance),) if instance else client._metadata
    return LeaderClient(client._membership, client._channels, client._group.role, metadata, shards=shards)


@asynccontextmanager
async def leading(role: Role, caller: Role, services: Sequence[Service]) -> AsyncIterator[LeaderClient]:
    """Serve services; yield what calls them as a daemon of the role `caller`."""
    server, channels = RpcServer(lambda: "no leader"), Channels()
    server.activate(services)
    leader = cast(Membership, _OneLeader(await server.start("127.0.0.1", 0)))
    try:
        yield LeaderClient(leader, channels, role, (("peloton-instance", f"{caller.value}/one"),))
    finally:
        await channels.close()
        await server.stop(0)
