"""What every way to find leaders promises: by ZooKeeper, by a folder, by a membership, by given addresses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.client import finding
from peloton.client.channel import open_aio_channel
from peloton.client.discovery import Discovery, InCluster, LocalDiscovery, UrlDiscovery, ZooKeeperDiscovery
from peloton.client.finding import DiscoveryError, NoLeader
from peloton.client.following import Leader, Method, Way
from peloton.client.sync_async import Asyncio
from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Leadership, Member, Membership, Role
from peloton.web.cluster import MembershipDiscovery
from tests.servers.zookeeper import ZooKeeperServer

SECONDS = 60.0
ELECTED = ("zookeeper", "folder", "membership", "others", "cluster")
"""Ways that follow an election."""


@dataclass
class Place:
    """An election, and a discovery that looks at it."""

    membership: Membership
    discovery: Discovery
    standing: dict[Role, Leadership] = field(default_factory=dict)

    async def lead(self, role: Role, port: int) -> str:
        """Let a process lead in place of the one before; return its address."""
        await self.resign(role)
        address = Address("here", "127.0.0.1", 1, port)
        member = Member(role, uuid.uuid4().hex, address)
        await self.membership.join(member)
        self.standing[role] = await self.membership.campaign(member)
        return address.target

    async def resign(self, role: Role) -> None:
        if role in self.standing:
            await self.standing.pop(role).resign()

    async def address(self, role: str) -> str:
        return await asyncio.to_thread(finding.address_within, self.discovery, role, SECONDS)


@pytest.fixture(params=ELECTED)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    kind = request.param
    if kind == "zookeeper":
        server: ZooKeeperServer = request.getfixturevalue("zookeeper")
        root = f"/{uuid.uuid4().hex}"
        tree = {"kind": "zookeeper", "servers": server.address, "root": root, "session_seconds": 3}
    else:
        tree = {"kind": "local", "directory": str(tmp_path)}
    joined = membership(validated(DaemonSettings, {"membership": tree}, "test").membership)
    await joined.start()
    by_folder = LocalDiscovery(tmp_path)
    made: dict[str, Callable[[], Discovery]] = {
        "zookeeper": lambda: ZooKeeperDiscovery(server.address, root),
        "folder": lambda: by_folder,
        "membership": lambda: MembershipDiscovery(joined),
        "others": lambda: UrlDiscovery({"hostmgr": "given:1"}, by_folder),
        "cluster": lambda: InCluster(by_folder, ""),
    }
    found = Place(joined, made[kind]())
    yield found
    found.discovery.close()
    await joined.close()


async def until(holds: Callable[[], Any]) -> Any:
    async with asyncio.timeout(SECONDS):
        while not (found := await holds()):  # noqa: ASYNC110 - a look-up tells of no change
            await asyncio.sleep(0.02)
        return found


async def test_the_leader_is_found_and_so_is_the_next(place: Place) -> None:
    with pytest.raises(NoLeader, match="jobmgr"):
        await place.address("jobmgr")
    assert place.discovery.follows("jobmgr")
    for port in (7, 8):
        target = await place.lead(Role.JOBMGR, port)

        async def is_found(wanted: str = target) -> bool:
            try:
                return await place.address("jobmgr") == wanted
            except NoLeader:
                return False

        await until(is_found)
    with pytest.raises(NoLeader):
        await place.address("resmgr")
    await place.resign(Role.JOBMGR)

    async def is_gone() -> bool:
        try:
            return not await place.address("jobmgr")
        except NoLeader:
            return True

    await until(is_gone)


class Served(grpc.GenericRpcHandler):
    """Tells for each call which server it is; the first one holds calls back."""

    def __init__(self, name: bytes, holds: bool) -> None:
        self.name = name
        self.asked = asyncio.Event()
        self._holds = holds

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> bytes:
        self.asked.set()
        if self._holds:
            await asyncio.Event().wait()
        return self.name


async def test_a_call_that_a_former_leader_holds_is_answered_by_the_next(place: Place) -> None:
    """One follower for all of them: it is told, or looks, who leads while a call is without an answer."""
    servers, handlers, ports = [], [Served(b"former", True), Served(b"next", False)], []
    for handler in handlers:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handler,))
        ports.append(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        servers.append(server)
    await place.lead(Role.JOBMGR, ports[0])
    driver, found = Asyncio(), place.discovery
    seeks = finding.may_seek(found, "jobmgr")
    follower = Leader(
        Way(
            driver,
            address=lambda seconds: finding.address_within(found, "jobmgr", seconds),
            open=lambda target: open_aio_channel(target, None),
            metadata=lambda: (),
            timeout=SECONDS,
            watch=lambda tell: finding.watch(found, "jobmgr", tell),
            elsewhere=(lambda target: finding.others(found, "jobmgr", lambda other: True, target))
            if seeks
            else None,
        )
    )
    method = Method("unary_unary", "/test.Service/Get", (), {})
    call = asyncio.create_task(follower.call(method, b"", None, {}))
    async with asyncio.timeout(SECONDS):
        await handlers[0].asked.wait()
        await place.lead(Role.JOBMGR, ports[1])
        assert await call == b"next"
    for channel in follower.close():
        await channel.close()
    await driver.close()
    for server in servers:
        await server.stop(None)


async def test_given_addresses_are_taken_in_turn_and_never_mixed_with_an_election(tmp_path: Path) -> None:
    given = UrlDiscovery({"jobmgr": "a:1,grpc://b:2/"}, patient=True)
    assert [given.address("jobmgr") for _ in range(3)] == ["a:1", "b:2", "a:1"]
    assert given.address("resmgr") == "localhost:5394"
    assert given.others("jobmgr", lambda each: each == "b:2", "a:1") == "b:2"
    assert given.follows("jobmgr") and not UrlDiscovery({}).follows("jobmgr")
    with pytest.raises(DiscoveryError, match="found by its name with ZooKeeper only"):
        given.address("hostmgr/east")
