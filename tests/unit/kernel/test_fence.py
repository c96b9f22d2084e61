"""A server that may not answer says so, before a call and after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.calls.rpc import rpc
from peloton.errors import Fenced, PelotonError, Unavailable
from peloton.leaders import NOT_BEGUN
from peloton.membership.interface import Address, Membership, Role
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.server import RpcServer, service

LOOKUP = respool_pb2.LookupRequest()
LOOKUP_POOL = rpc(respool_pb2_grpc.ResourceManagerStub, lambda stub: stub.LookupResourcePoolID)


class Pools(respool_pb2_grpc.ResourceManagerServicer):
    """Counts its calls; may lose its lease, or find its writes fenced, in one."""

    def __init__(self) -> None:
        self.calls = 0
        self.standing: PelotonError | None = None
        self.becomes: PelotonError | None = None
        self.raises: PelotonError | None = None

    def fence(self) -> None:
        if self.standing is not None:
            raise self.standing

    async def LookupResourcePoolID(self, request: Any, context: Any) -> Any:
        self.calls += 1
        self.standing = self.becomes
        if self.raises is not None:
            raise self.raises
        return respool_pb2.LookupResponse()


@pytest.fixture
def pools() -> Pools:
    return Pools()


@pytest.fixture
async def stub(pools: Pools) -> AsyncIterator[Any]:
    server = RpcServer(lambda: "the leader is at b:1")
    port = await server.start("127.0.0.1", 0)
    server.activate([service(respool_pb2_grpc.add_ResourceManagerServicer_to_server, pools)], pools.fence)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield respool_pb2_grpc.ResourceManagerStub(channel)
    await server.stop(0)


async def refused(stub: Any) -> tuple[grpc.StatusCode, str, bool]:
    """Status, text, and whether the call is said not to have begun."""
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await stub.LookupResourcePoolID(LOOKUP)
    error = told.value
    return (
        error.code(),
        error.details() or "",
        NOT_BEGUN in [key for key, _ in error.trailing_metadata() or ()],
    )


async def test_expired_leader_refuses_calls(pools: Pools, stub: Any) -> None:
    pools.standing = Fenced("term 3 is over")
    assert await refused(stub) == (
        grpc.StatusCode.UNAVAILABLE, "term 3 is over; the leader is at b:1", True,
    )  # fmt: skip
    assert pools.calls == 0


async def test_uncertain_leader_refuses_calls(pools: Pools, stub: Any) -> None:
    pools.standing = Unavailable("cannot tell whether it leads")
    assert await refused(stub) == (grpc.StatusCode.UNAVAILABLE, "cannot tell whether it leads", True)
    assert pools.calls == 0


async def test_call_is_not_acknowledged_after_the_term(pools: Pools, stub: Any) -> None:
    pools.becomes = Fenced("term 3 is over")
    code, _, not_begun = await refused(stub)
    assert (code, not_begun, pools.calls) == (grpc.StatusCode.UNAVAILABLE, False, 1)


async def test_fenced_write_of_an_expired_leader_is_unavailable(pools: Pools, stub: Any) -> None:
    pools.becomes = pools.raises = Fenced("term 3 is over")
    assert (await refused(stub))[0] is grpc.StatusCode.UNAVAILABLE


async def test_fenced_caller_is_refused(pools: Pools, stub: Any) -> None:
    pools.raises = Fenced("your term 2 is over")
    assert (await refused(stub))[:2] == (grpc.StatusCode.ABORTED, "your term 2 is over")


class One:
    """A membership with one leader."""

    def leader(self, role: Role, cluster: str) -> Address:
        return Address("h", "127.0.0.1", 1, 1)


async def test_expired_leader_makes_no_calls() -> None:
    def fence() -> None:
        raise Fenced("term 3 is over")

    membership: Membership = One()  # type: ignore[assignment]
    client = LeaderClient(membership, Channels(), Role.RESMGR, (), fence)
    with pytest.raises(Fenced, match="term 3 is over"):
        await client.call(LOOKUP_POOL, LOOKUP)
