"""What goes wrong at a bad moment: answers that are lost, servers that are silent, nodes that others made."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_acl

from peloton.client.discovery import NoLeader, ZooKeeperDiscovery
from peloton.config.private import write_private
from peloton.errors import PelotonError, Refused, Unavailable
from peloton.membership.client import Client
from peloton.membership.connection import Connection, Node, Step, Watch
from peloton.membership.interface import Role
from peloton.membership.lease import Standing
from peloton.membership.zookeeper import ZooKeeperMembership
from tests.servers.zookeeper import ZooKeeperServer, new_zookeeper
from tests.waiting import until

from .conftest import SECONDS, Make, Relay, expire, member, silent


class Losing(Connection):
    """Loses the first answers to `get` of paths with this in them."""

    lost = "nothing yet"
    times = 0

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        if self.times and self.lost in path:
            self.times -= 1
            raise Unavailable("ConnectionLoss")
        return await super().get(path, watch)


async def test_a_member_is_listed_again_though_the_connection_breaks_once_more(
    zookeeper: ZooKeeperServer, root: str
) -> None:
    """When it is back, the process looks whether its node is its own; this is when it breaks again."""
    connection = Losing(zookeeper.address, 3)
    membership = ZooKeeperMembership(connection, root, 3)
    await membership.start()
    try:
        await membership.join(member("a"))
        await until(lambda: "a" in membership.members(Role.RESMGR))
        connection.lost, connection.times = "members/a", 1
        connection.on_state[0]("CONNECTED")
        await until(lambda: connection.times == 0)
        changed = asyncio.create_task(membership.changed())
        await membership.join(member("b"))
        await asyncio.wait_for(changed, SECONDS)
        await until(lambda: set(membership.members(Role.RESMGR)) == {"a", "b"})
    finally:
        await membership.close()


async def test_a_lease_is_no_longer_than_the_session_that_the_servers_grant(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is 10 s at most here, 20 ticks."""
    caplog.set_level(logging.WARNING)
    one = make(session_seconds=30)
    await one.start()
    leadership = await one.campaign(member("a"))
    assert leadership.standing(time.monotonic() + 7) is Standing.HELD
    assert leadership.standing(time.monotonic() + 10) is Standing.OVER
    assert "grants sessions of 10 s" in caplog.text and "membership.session_seconds is 30" in caplog.text


async def test_servers_that_are_gone_do_not_use_up_the_session(
    make: Make, zookeeper: ZooKeeperServer
) -> None:
    """Two of three, in whatever order they are tried."""
    with silent() as one, silent() as two:
        began = time.monotonic()
        servers = f"{one},{two},{zookeeper.address}"
        memberships = [make(servers=servers, session_seconds=15) for _ in range(4)]
        await asyncio.gather(*(each.start() for each in memberships))
        assert time.monotonic() - began < 15


async def test_a_server_that_accepts_and_does_not_answer_does_not_use_up_the_session(
    zookeeper: ZooKeeperServer,
) -> None:
    """As a real one does with connections of the first milliseconds after its start."""
    relay = Relay(zookeeper.address)
    await relay.start()
    connection = Connection(relay.address, 10)
    try:
        await connection.open()
        before = connection.session
        await relay.cut()
        await until(lambda: not connection.is_connected)
        relay.unanswered = 2
        await relay.start()
        await connection.connected()
        assert relay.unanswered == 0
        assert connection.session == before
    finally:
        await connection.close()
        await relay.cut()


async def test_a_leaders_node_without_an_address_is_read_once(
    zookeeper: ZooKeeperServer, root: str, raw: Any
) -> None:
    raw.create(f"{root}/resourcemanager/leader", b"not ours", makepath=True)
    connection = Counting(zookeeper.address, 3)
    membership = ZooKeeperMembership(connection, root, 3)
    await membership.start()
    try:
        await asyncio.sleep(0.3)  # for nothing to happen
        assert connection.gets < 10
        assert membership.leader(Role.RESMGR) is None
        raw.set(f"{root}/resourcemanager/leader", member("a").address.to_json().encode())
        await until(lambda: membership.leader(Role.RESMGR) == member("a").address)
    finally:
        await membership.close()


class Counting(Connection):
    gets = 0

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        self.gets += 1
        return await super().get(path, watch)


async def test_one_elected_as_the_connection_breaks_waits_until_it_is_whole(
    zookeeper: ZooKeeperServer, root: str
) -> None:
    """That it broke is told before the answer to the election is read."""
    connection = Breaking(zookeeper.address, 10)
    membership = ZooKeeperMembership(connection, root, 10)
    await membership.start()
    try:
        connection.breaks = True
        leadership = await membership.campaign(member("a"))
        assert leadership.standing(time.monotonic()) is Standing.SUSPENDED
        connection.mend()
        await until(lambda: leadership.standing(time.monotonic()) is Standing.HELD)
    finally:
        await membership.close()


class Breaking(Connection):
    """Breaks after the next transaction, until it is mended: the lease's thread has no answer meanwhile."""

    breaks = False
    broken = False

    async def commit(self, *steps: Step) -> list[Any]:
        results = await super().commit(*steps)
        if self.breaks:
            self.breaks, self.broken = False, True
            self._on_state("SUSPENDED")
        return results

    def commit_blocking(self, timeout: float, *steps: Step) -> list[Any]:
        if self.broken:
            raise Unavailable("ConnectionLoss")
        return super().commit_blocking(timeout, *steps)

    def mend(self) -> None:
        self.broken = False
        self._on_state("CONNECTED")


async def test_what_kazoo_forgot_as_its_session_ended_is_not_waited_for(zookeeper: ZooKeeperServer) -> None:
    """It forgets what comes as it lets a session go: after it told who waits, before it forgets who does."""
    connection = Connection(zookeeper.address, 3)
    await connection.open()
    try:
        zookeeper.freeze()
        try:
            await until(lambda: not connection.is_connected)
            asked = asyncio.create_task(connection.exists("/"))
            await until(lambda: len(connection._client._queue) > 0)
            connection._client._queue.clear()
        finally:
            zookeeper.thaw()
        await connection.connected()
        await asyncio.to_thread(expire, connection._client, zookeeper)
        with pytest.raises(Unavailable, match="session"):
            await asyncio.wait_for(asked, 60)
    finally:
        await connection.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_connection_that_kazoo_gave_up_is_told(zookeeper: ZooKeeperServer, root: str) -> None:
    """Its thread ends where something is not as it expects, and nothing would ever be heard again."""
    connection = Connection(zookeeper.address, 3)
    membership = ZooKeeperMembership(connection, root, 3)
    await membership.start()
    try:
        changed = asyncio.create_task(membership.changed())
        leadership = await membership.campaign(member("a"))
        connection._client._pending.append((None, None, 0))
        with pytest.raises(PelotonError, match="kazoo's thread ended"):
            while True:
                await asyncio.wait_for(changed, 60)
                changed = asyncio.create_task(membership.changed())
        await asyncio.wait_for(leadership.lost(), 60)
        with pytest.raises(PelotonError, match="kazoo's thread ended"):
            await asyncio.wait_for(membership.campaign(member("a")), 60)
        assert "kazoo's thread ended" in membership.trouble()
    finally:
        await membership.close()


async def test_a_leader_that_may_not_write_any_more_leads_no_longer(make: Make, raw: Any, root: str) -> None:
    one = make(session_seconds=2)
    await one.start()
    leadership = await one.campaign(member("a"))
    raw.set_acls(f"{root}/resourcemanager/term", [make_acl("world", "anyone", read=True)])
    await asyncio.wait_for(leadership.lost(), SECONDS)
    assert leadership.standing(time.monotonic()) is Standing.OVER
    await leadership.resign()
    with pytest.raises(Refused, match="resourcemanager/term: NoAuth"):
        await one.campaign(member("a"))


async def test_nodes_that_others_put_among_the_contenders_are_passed_over(
    make: Make, raw: Any, root: str
) -> None:
    raw.create(f"{root}/resourcemanager/contenders/note", makepath=True)
    one = make()
    await one.start()
    leadership = await asyncio.wait_for(one.campaign(member("a")), SECONDS)
    assert leadership.term == 1


async def test_nodes_taken_away_by_hand_are_made_again(make: Make, raw: Any, root: str) -> None:
    """One process's, then all there are."""
    one = make()
    await one.start()
    await one.join(member("a"))
    await until(lambda: "a" in one.members(Role.RESMGR))
    for gone in ("resourcemanager/members/a", ""):
        raw.delete(f"{root}/{gone}".rstrip("/"), recursive=True)
        await until(lambda: raw.exists(f"{root}/resourcemanager/members/a") is not None)
        await until(lambda: "a" in one.members(Role.RESMGR))
    leadership = await asyncio.wait_for(one.campaign(member("a")), SECONDS)
    await until(lambda: one.leader(Role.RESMGR) is not None)
    await leadership.resign()


async def test_nodes_of_before_the_credentials_are_told(
    make: Make, root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever made them left them to everybody, and so they stay."""
    before = make()
    await before.start()
    await before.campaign(member("a"))
    credentials = tmp_path / "credentials"
    write_private(credentials, "peloton:hush-hush")
    after = make(credentials_file=str(credentials))
    await after.start()
    assert f"{root}/" in caplog.text
    assert "may be changed by anybody" in caplog.text
    caplog.clear()
    fresh = make(credentials_file=str(credentials), root=f"{root}/fresh")
    await fresh.start()
    assert "anybody" not in caplog.text


async def test_servers_that_lost_all_they_knew_are_told_anew(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """They refuse whoever has seen more than they know."""
    server = new_zookeeper(tmp_path / "zookeeper")
    server.start()
    one = ZooKeeperMembership(Connection(server.address, 2), "/peloton", 2)
    discovery = ZooKeeperDiscovery(server.address)
    try:
        await one.start()
        await one.join(member("a"))
        first = await one.campaign(member("a"))
        assert await asyncio.to_thread(discovery.address, "resmgr") == "127.0.0.1:2"
        server.stop()
        shutil.rmtree(server.folder / "data")
        server.start()
        await asyncio.wait_for(first.lost(), 60)
        await first.resign()
        await asyncio.wait_for(one.campaign(member("a")), 60)
        await until(lambda: "a" in one.members(Role.RESMGR))
        await until(lambda: one.leader(Role.RESMGR) is not None)
        async with asyncio.timeout(60):
            while await asyncio.to_thread(found, discovery) != "127.0.0.1:2":
                continue
    finally:
        await one.close()
        await asyncio.to_thread(discovery.close)
        server.kill()


def found(discovery: ZooKeeperDiscovery) -> str:
    try:
        return discovery.address("resmgr")
    except NoLeader:
        return ""


async def test_an_outage_is_told_again_and_again(
    zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    connection = Connection(zookeeper.address, 3)
    await connection.open()
    try:
        zookeeper.kill()
        await until(lambda: caplog.text.count("has not answered for") >= 2)
    finally:
        zookeeper.start()
        await connection.connected()
        await connection.close()


async def test_servers_that_answer_at_once_are_not_reported_as_silent(
    zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection may be made before the call that starts it has returned to the event loop."""
    monkeypatch.setattr("peloton.membership.connection.WARN_FIRST", 0.5)
    connected = threading.Event()
    start = Client.start_async

    def start_and_connect(client: Client) -> None:
        client.add_listener(lambda state: connected.set())
        start(client)
        assert connected.wait(30)

    monkeypatch.setattr(Client, "start_async", start_and_connect)
    connection = Connection(zookeeper.address, 3)
    await connection.open()
    try:
        clock = asyncio.get_running_loop()
        later = clock.time() + 1.0
        await until(lambda: clock.time() > later)
        assert "trying again" not in caplog.text
    finally:
        await connection.close()
