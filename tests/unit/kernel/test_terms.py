"""What was begun in one term of a daemon is not finished in the next, though the process leads again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.config.membership import LocalMembershipSettings
from peloton.config.settings import DaemonSettings
from peloton.daemon.lifecycle import Daemon
from peloton.daemon.terms import FIRST_PAUSE, LONGEST_PAUSE, LONGEST_REST, SETTLED_SECONDS, EarlyEnds
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
        async with asyncio.timeout(60):
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
    assert await asyncio.wait_for(living, 60) == ""
    assert found.finished[-2:] == [f"finish {len(found.pools)}", f"work of {len(found.pools)}"]


async def test_a_call_that_began_in_an_earlier_term_is_not_acknowledged_in_a_later_one(
    running: Running,
) -> None:
    """What it did, it did to what nobody holds any more."""
    first = await running.leads(1)
    async with grpc.aio.insecure_channel(running.address.target) as channel:
        stub = respool_pb2_grpc.ResourceManagerStub(channel)
        call = stub.LookupResourcePoolID(LOOKUP, timeout=60)
        await first.begun.wait()
        running.elections.terms[0].over.set()
        second = await running.leads(2)
        first.go.set()
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert "term 1: that is over" in await call.details()
        second.go.set()
        await stub.LookupResourcePoolID(LOOKUP, timeout=60)


async def test_health_says_that_terms_end_early(running: Running) -> None:
    """Nothing else does: each of them says in its log that it leads."""

    async def health() -> tuple[int, str]:
        url = f"http://127.0.0.1:{running.address.http}/health"
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.get(url)
        return answer.status_code, answer.text

    await running.leads(1)
    assert await health() == (200, "OK")
    running.elections.terms[0].over.set()
    while (found := await health())[0] == 200:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0)
    assert re.match(
        r"cannot stay leader: term 1 ended after \d s: leadership was lost; campaigning again", found[1]
    )
    await running.leads(2)
    running.elections.terms[1].over.set()
    await running.leads(3)
    async with asyncio.timeout(60):
        while not (found := await health())[1].startswith("OK"):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    assert re.fullmatch(
        r"OK\nleads in term 3 for \d s; before: 2 terms in a row ended early; term 2 ended after \d s: "
        "leadership was lost",
        found[1],
    )


def test_pauses_grow_while_terms_end_early() -> None:
    ends = EarlyEnds()
    pauses = [ends.note(term, True, 10.0, "lost") for term in range(1, 20)]
    assert all(pause <= LONGEST_REST for pause in pauses) and pauses[0] <= FIRST_PAUSE
    assert all(pause >= LONGEST_REST / 2 for pause in pauses[7:])
    assert ends.text() == "19 terms in a row ended early; term 19 ended after 10 s: lost"
    assert ends.note(20, True, SETTLED_SECONDS, "lost") <= FIRST_PAUSE and ends.text() == ""


def test_a_term_that_cannot_begin_is_tried_again_within_seconds() -> None:
    """The reason may pass at any moment, such as a store that is away."""
    ends = EarlyEnds()
    pauses = [ends.note(term, False, 0.0, "it could not begin: disk full") for term in range(1, 20)]
    assert max(pauses) == LONGEST_PAUSE
    assert ends.text() == "19 terms in a row ended early; term 19: it could not begin: disk full"


async def test_lost_term_completes_no_calls(running: Running) -> None:
    """One that is ended in order does, before its work is ended: see `running`."""
    await running.leads(1)
    running.elections.terms[0].over.set()
    await running.leads(2)
    assert running.finished == ["work of 1"]


async def test_a_term_that_is_given_up_is_followed_by_another_one(running: Running) -> None:
    """Nothing that was begun is finished: somebody else may do it. Later it has no effect."""
    await running.leads(1)
    give_up = running.daemon.give_up
    give_up("a shard is lost")
    second = await running.leads(2)
    assert running.finished == ["work of 1"]
    assert "a shard is lost" in running.daemon._terms._ends.text()
    give_up("too late")
    await asyncio.sleep(0)
    second.fence()
    assert not running.daemon._terms._given_up.is_set()


async def test_fence_of_a_term_is_invalid_in_the_next(running: Running) -> None:
    first = await running.leads(1)
    first.fence()
    running.elections.terms[0].over.set()
    second = await running.leads(2)
    second.fence()
    with pytest.raises(Fenced, match="led in term 1"):
        first.fence()
