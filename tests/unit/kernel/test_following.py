"""Daemons' calls go to who leads, whatever became of the leaders and the ways to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.calls.rpc import rpc
from peloton.errors import Unavailable
from peloton.membership.interface import Address, Membership, Role
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.server import RpcServer, service
from tests.unit.kernel.blackhole import BlackHole

LOOKUP = respool_pb2.LookupRequest()
STUB = respool_pb2_grpc.ResourceManagerStub
LOOKUP_POOL = rpc(respool_pb2_grpc.ResourceManagerStub, lambda stub: stub.LookupResourcePoolID)


class Leaders:
    """A membership whose leaders the test names."""

    def __init__(self) -> None:
        self.named: dict[Role, Address] = {}
        self._change = asyncio.Event()

    def name(self, role: Role, port: int) -> None:
        self.named[role] = Address("h", "127.0.0.1", 1, port)
        self._change.set()
        self._change = asyncio.Event()

    def leader(self, role: Role, cluster: str) -> Address | None:
        return self.named.get(role)

    def clusters(self) -> Sequence[str]:
        return ()

    async def changed(self) -> None:
        await self._change.wait()


class Pools(respool_pb2_grpc.ResourceManagerServicer):
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.left: list[float] = []
        """Seconds that each call still has when it is answered."""

    async def LookupResourcePoolID(self, request: Any, context: Any) -> Any:
        self.begun.set()
        await self.go.wait()
        self.left.append(context.time_remaining())
        return respool_pb2.LookupResponse()


@pytest.fixture
async def pools() -> AsyncIterator[tuple[Pools, int]]:
    found, server = Pools(), RpcServer(lambda: "nobody leads")
    port = await server.start("127.0.0.1", 0)
    server.activate([service(respool_pb2_grpc.add_ResourceManagerServicer_to_server, found)])
    yield found, port
    await server.stop(0)


@pytest.fixture
async def leaders() -> Leaders:
    return Leaders()


@pytest.fixture
async def channels(leaders: Leaders) -> AsyncIterator[Channels]:
    found = Channels()
    following = asyncio.create_task(found.follow(cast(Membership, leaders)))
    await asyncio.sleep(0)
    yield found
    following.cancel()
    await found.close()


def client(leaders: Leaders, channels: Channels, role: Role = Role.RESMGR) -> LeaderClient:
    return LeaderClient(cast(Membership, leaders), channels, role, ())


class Slow:
    """A channel that takes a while to close."""

    def __init__(self) -> None:
        self.closing, self.go = asyncio.Event(), asyncio.Event()

    async def close(self) -> None:
        self.closing.set()
        await self.go.wait()


async def test_leaders_that_end_together_are_both_released(
    leaders: Leaders, channels: Channels, pools: tuple[Pools, int]
) -> None:
    """Two that led were on one machine."""
    found, port = pools
    found.go.clear()
    slow = Slow()
    channels._channels["127.0.0.1:9"] = slow
    leaders.name(Role.RESMGR, port)
    await slow.closing.wait()
    call = asyncio.create_task(client(leaders, channels).call(LOOKUP_POOL, LOOKUP, 60, False))
    await found.begun.wait()
    leaders.name(Role.RESMGR, 9)
    slow.go.set()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(call, 60)


async def test_silent_connection_is_replaced(
    leaders: Leaders, channels: Channels, pools: tuple[Pools, int]
) -> None:
    """The leader stays the same: a partition that is over, a firewall that forgot a connection."""
    _, port = pools
    async with BlackHole(port) as hole:
        leaders.name(Role.RESMGR, hole.port)
        calls = client(leaders, channels)
        await calls.call(LOOKUP_POOL, LOOKUP)
        hole.swallow()
        async with asyncio.timeout(60):
            await calls.call(LOOKUP_POOL, LOOKUP, timeout=30)


async def test_daemons_ignore_the_web_proxy(
    leaders: Leaders, channels: Channels, pools: tuple[Pools, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("no_grpc_proxy", "")
    leaders.name(Role.RESMGR, pools[1])
    await client(leaders, channels).call(LOOKUP_POOL, LOOKUP, timeout=5)


async def test_a_long_poll_that_another_leader_takes_over_waits_as_long_there(
    leaders: Leaders, channels: Channels, pools: tuple[Pools, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader ended while it waited: what is left of the call's time is less than the next one waits."""
    loop, passed, waits = asyncio.get_running_loop(), 0.0, 60.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)
    found, port = pools
    found.go.clear()
    leaders.name(Role.RESMGR, port)
    polling = client(leaders, channels).call(LOOKUP_POOL, LOOKUP, timeout=60.0, waits=waits)
    call = asyncio.create_task(polling)
    await found.begun.wait()
    passed = 110.0
    leaders.name(Role.RESMGR, 9)  # the call ends with its channel
    await asyncio.sleep(0)
    found.go = asyncio.Event()  # the first call stays as it is
    found.go.set()
    leaders.name(Role.RESMGR, port)
    await call
    assert found.left[-1] > waits + 30.0, "a time-out beyond what the other side waits"
