"""What was begun in one term of a daemon is not finished in the next, though the process leads again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.config.settings import DaemonSettings, LocalMembershipSettings
from peloton.daemon.lifecycle import Daemon
from peloton.errors import Fenced
from peloton.membership.interface import Address, Leadership, Member, Role
from peloton.membership.lease import Standing
from peloton.membership.local import LocalMembership
from peloton.rpc.server import service

LOOKUP = respool_pb2.LookupRequest()


@dataclass
class Term:
    term: int
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def standing(self, now: float) -> Standing:
        return Standing.OVER if self.over.is_set() else Standing.HELD

    async def lost(self) -> None:
        await self.over.wait()

    async def resign(self) -> None:
        self.over.set()


class Elections(LocalMembership):
    """Everybody who wants leads at once, until the test says otherwise."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.terms: list[Term] = []

    async def campaign(self, member: Member) -> Leadership:
        self.terms.append(Term(len(self.terms) + 1))
        return self.terms[-1]


@dataclass
class Pools(respool_pb2_grpc.ResourceManagerServicer):
    """Of one term."""

    fence: Callable[[], None]
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def LookupResourcePoolID(self, request: Any, context: Any) -> Any:
        self.begun.set()
        await self.go.wait()
        return respool_pb2.LookupResponse()


@dataclass
class Running:
    daemon: Daemon[DaemonSettings]
    elections: Elections
    pools: list[Pools]
    finished: list[str] = field(default_factory=list)
    """What was done at the end of each term, in order."""

    @property
    def address(self) -> Address:
        return self.daemon._member.address

    async def leads(self, term: int) -> Pools:
        async with asyncio.timeout(20):
            while len(self.pools) < term:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        return self.pools[-1]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    settings = DaemonSettings(membership=LocalMembershipSettings(directory=tmp_path))
    daemon = Daemon(settings, Role.RESMGR)
    found = Running(daemon, Elections(tmp_path), [])
    daemon.membership = found.elections

    @asynccontextmanager
    async def leading(term: int) -> AsyncIterator[None]:
        pools = Pools(daemon.fence)

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                found.finished.append(f"work of {term}")

        async def finish() -> None:
            pools.fence()
            await asyncio.sleep(0)
            found.finished.append(f"finish {term}")

        daemon.spawn("work", work())
        daemon.before_stepping_down(finish)
        async with daemon.serving(service(respool_pb2_grpc.add_ResourceManagerServicer_to_server, pools)):
            found.pools.append(pools)
            yield

    daemon.lead(leading)
    living = asyncio.create_task(daemon.live())
    yield found
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(living, 20) == ""
    assert found.finished[-2:] == [f"finish {len(found.pools)}", f"work of {len(found.pools)}"]


async def test_a_call_that_began_in_an_earlier_term_is_not_acknowledged_in_a_later_one(
    running: Running,
) -> None:
    """What it did, it did to what nobody holds any more."""
    first = await running.leads(1)
    async with grpc.aio.insecure_channel(running.address.target) as channel:
        stub = respool_pb2_grpc.ResourceManagerStub(channel)
        call = stub.LookupResourcePoolID(LOOKUP, timeout=20)
        await first.begun.wait()
        running.elections.terms[0].over.set()
        second = await running.leads(2)
        first.go.set()
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert "term 1: that is over" in await call.details()
        second.go.set()
        await stub.LookupResourcePoolID(LOOKUP, timeout=20)


async def test_lost_term_completes_no_calls(running: Running) -> None:
    """One that is ended in order does, before its work is ended: see `running`."""
    await running.leads(1)
    running.elections.terms[0].over.set()
    await running.leads(2)
    assert running.finished == ["work of 1"]


async def test_fence_of_a_term_is_invalid_in_the_next(running: Running) -> None:
    first = await running.leads(1)
    first.fence()
    running.elections.terms[0].over.set()
    second = await running.leads(2)
    second.fence()
    with pytest.raises(Fenced, match="led in term 1"):
        first.fence()
