"""What holds of membership in ZooKeeper only: its nodes, its session, its outages, who may change it."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from peloton.config.errors import ConfigError
from peloton.config.private import write_private
from peloton.errors import Refused
from peloton.membership.interface import Role
from peloton.membership.lease import Standing
from tests.servers.zookeeper import ZooKeeperServer
from tests.waiting import until

from .conftest import SECONDS, Make, Relay, expire, member, standing


async def test_the_nodes_are_what_existing_clients_expect(make: Make, raw: Any, root: str) -> None:
    one = make()
    await one.start()
    await one.join(member("a", Role.JOBMGR))
    for role in (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR):
        await one.campaign(member("a", role))
    for name in ("jobmanager", "resourcemanager", "hostmanager"):
        value, stat = await asyncio.to_thread(raw.get, f"{root}/{name}/leader")
        held = json.loads(value)
        assert held == {
            "hostname": "here", "ip": "127.0.0.1", "http": 1, "grpc": 2, "version": held["version"],
        }  # fmt: skip
        assert stat.ephemeralOwner
    assert raw.get_children(f"{root}/jobmanager/members") == ["a"]


async def test_an_expired_session_ends_leadership_and_begins_anew(
    make: Make, zookeeper: ZooKeeperServer
) -> None:
    one, other = make(), make()
    await one.start()
    await other.start()
    await one.join(member("a"))
    first = await one.campaign(member("a"))
    waiting = asyncio.create_task(other.campaign(member("b")))
    await until(lambda: "a" in other.members(Role.RESMGR))
    await asyncio.to_thread(expire, one._connection._client, zookeeper)
    await asyncio.wait_for(first.lost(), 60)
    assert standing(first) is Standing.OVER
    second = await asyncio.wait_for(waiting, 60)
    assert second.term > first.term
    await until(lambda: "a" in other.members(Role.RESMGR) and "a" in one.members(Role.RESMGR))
    await first.resign()
    again = asyncio.create_task(one.campaign(member("a")))
    await second.resign()
    third = await asyncio.wait_for(again, 60)
    assert third.term > second.term and standing(third) is Standing.HELD


async def test_a_leader_goes_on_when_zookeeper_is_back_in_time(
    make: Make, zookeeper: ZooKeeperServer
) -> None:
    """Meanwhile it does nothing. What was seen of others stays."""
    relay = Relay(zookeeper.address)
    await relay.start()
    one = make(servers=relay.address, session_seconds=10)
    other = make(servers=relay.address, session_seconds=10)
    await one.start()
    await other.start()
    await one.join(member("a"))
    leadership = await one.campaign(member("a"))
    await until(lambda: "a" in other.members(Role.RESMGR) and other.leader(Role.RESMGR) is not None)
    await relay.cut()
    await until(lambda: standing(leadership) is Standing.SUSPENDED)
    assert "has not answered for" in other.trouble()
    assert other.leader(Role.RESMGR) is not None and "a" in other.members(Role.RESMGR)
    await relay.start()
    await until(lambda: standing(leadership) is Standing.HELD)
    await until(lambda: other.trouble() == "")
    assert other.leader(Role.RESMGR) is not None and "a" in other.members(Role.RESMGR)
    await one.close()
    await other.close()
    await relay.cut()


async def test_a_leader_steps_down_when_zookeeper_stays_away(make: Make, zookeeper: ZooKeeperServer) -> None:
    """And leads again, or another does, when it is back."""
    one, other = make(session_seconds=2), make(session_seconds=2)
    await one.start()
    await other.start()
    first = await one.campaign(member("a"))
    waiting = asyncio.create_task(other.campaign(member("b")))
    await asyncio.to_thread(zookeeper.stop)
    try:
        await asyncio.wait_for(first.lost(), SECONDS)
        assert standing(first) is Standing.OVER
        await first.resign()
    finally:
        await asyncio.to_thread(zookeeper.start)
    again = asyncio.create_task(one.campaign(member("a")))
    done, left = await asyncio.wait({waiting, again}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
    (winner,) = done
    assert winner.result().term > first.term
    assert len(left) == 1
    left.pop().cancel()


async def test_a_frozen_server_ends_the_lease(make: Make, zookeeper: ZooKeeperServer) -> None:
    """A connection that is there and says nothing."""
    one = make(session_seconds=2)
    await one.start()
    leadership = await one.campaign(member("a"))
    zookeeper.freeze()
    try:
        await asyncio.wait_for(leadership.lost(), SECONDS)
        assert standing(leadership) is Standing.OVER
    finally:
        zookeeper.thaw()


async def test_one_server_of_several_is_enough_and_all_may_lie_below_a_node(
    make: Make, zookeeper: ZooKeeperServer, raw: Any, root: str
) -> None:
    one = make(servers=f"127.0.0.1:1,{zookeeper.address}/deep{root}", root="/peloton")
    await one.start()
    leadership = await one.campaign(member("a"))
    assert raw.exists(f"/deep{root}/peloton/resourcemanager/leader")
    await leadership.resign()
    assert not raw.exists(f"/deep{root}/peloton/resourcemanager/leader")


async def test_what_another_program_left_at_the_leaders_place_is_replaced(
    make: Make, raw: Any, root: str
) -> None:
    raw.create(f"{root}/resourcemanager/leader", b"{}", makepath=True)
    one = make()
    await one.start()
    assert one.leader(Role.RESMGR) is None
    await one.campaign(member("a"))
    await until(lambda: one.leader(Role.RESMGR) == member("a").address)


async def test_a_leaders_node_taken_away_by_hand_ends_its_leadership(make: Make, raw: Any, root: str) -> None:
    one = make()
    await one.start()
    leadership = await one.campaign(member("a"))
    raw.delete(f"{root}/resourcemanager/leader")
    await asyncio.wait_for(leadership.lost(), SECONDS)
    await leadership.resign()
    assert raw.get_children(f"{root}/resourcemanager/contenders") == ["a-0000000000"]
    again = await one.campaign(member("a"))
    assert again.term > leadership.term


async def test_only_who_has_the_credentials_may_change_nodes(
    make: Make, raw: Any, root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ours, wrong = tmp_path / "ours", tmp_path / "wrong"
    write_private(ours, "peloton:hush-hush\n")
    write_private(wrong, "peloton:guessed-it")
    one = make(credentials_file=str(ours))
    await one.start()
    await one.campaign(member("a"))
    value, _ = raw.get(f"{root}/resourcemanager/leader")
    assert json.loads(value)["grpc"] == 2
    with pytest.raises(NoAuthError):
        raw.set(f"{root}/resourcemanager/leader", b"me")
    with pytest.raises(NoAuthError):
        raw.create(f"{root}/resourcemanager/contenders/x")
    stranger = make(credentials_file=str(wrong))
    await stranger.start()
    with pytest.raises(Refused, match="NoAuth"):
        await stranger.join(member("b"))
    assert "hush-hush" not in caplog.text and "guessed-it" not in caplog.text


def test_credentials_that_cannot_be_read(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    with pytest.raises(ConfigError, match=r"credentials_file: .*No such file"):
        make(credentials_file=str(file))
    file.write_text("peloton:hush-hush")
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="its mode 0640 lets others use it"):
        make(credentials_file=str(file))
    write_private(file, "hush-hush")
    with pytest.raises(ConfigError, match="is not one line, user:password") as refused:
        make(credentials_file=str(file))
    assert "hush-hush" not in str(refused.value)
