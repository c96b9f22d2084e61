"""What every membership adapter promises."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.config.sources import Tree
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Leadership, Member, Membership, Role
from peloton.membership.lease import Standing
from tests.servers.zookeeper import ZooKeeperServer

MakeMembership = Callable[[], Membership]


@pytest.fixture(params=["local", "zookeeper"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    """Of an adapter, on ground of its own."""
    if request.param == "local":
        return {"kind": "local", "directory": str(tmp_path)}
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return {
        "kind": "zookeeper",
        "servers": server.address,
        "root": f"/{uuid.uuid4().hex}",
        "session_seconds": 3,
    }


@pytest.fixture
async def make(settings: Tree) -> AsyncIterator[MakeMembership]:
    made: list[Membership] = []

    def one() -> Membership:
        made.append(membership(validated(DaemonSettings, {"membership": settings}, "test").membership))
        return made[-1]

    yield one
    for each in made:
        await each.close()


def member(name: str, role: Role = Role.RESMGR) -> Member:
    return Member(role, name, Address("here", "127.0.0.1", 1, 2))


def host_manager(name: str, cluster: str, port: int) -> Member:
    return Member(Role.HOSTMGR, name, Address("here", "127.0.0.1", 1, port), cluster)


async def until(membership: Membership, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await membership.changed()


async def test_members_are_seen_and_go(make: MakeMembership) -> None:
    one, other = make(), make()
    await one.start()
    await other.start()
    await one.join(member("a"))
    await until(other, lambda: "a" in other.members(Role.RESMGR))
    assert other.members(Role.RESMGR)["a"].address.target == "127.0.0.1:2"
    await one.close()
    await until(other, lambda: "a" not in other.members(Role.RESMGR))


async def test_one_leads_and_the_next_has_a_higher_term(make: MakeMembership) -> None:
    one, other = make(), make()
    await one.start()
    await other.start()
    first = await one.campaign(member("a"))
    waiting = asyncio.create_task(other.campaign(member("b")))
    await until(other, lambda: other.leader(Role.RESMGR) is not None)
    assert not waiting.done()
    assert other.leader(Role.HOSTMGR) is None
    await first.resign()
    second = await asyncio.wait_for(waiting, 60)
    assert second.term > first.term
    await second.resign()
    await until(one, lambda: one.leader(Role.RESMGR) is None)


async def test_each_cluster_has_a_leader_of_its_own(make: MakeMembership) -> None:
    """Also one that begins after the others have started, beside the cluster without a name."""
    one, other = make(), make()
    await one.start()
    await other.start()
    members = [host_manager("a", "", 2), host_manager("b", "east", 3), host_manager("c", "west", 4)]
    for each in members:
        await one.join(each)
        await one.campaign(each)
    await until(other, lambda: list(other.clusters()) == ["east", "west"])
    await until(
        other,
        lambda: all(
            other.leader(Role.HOSTMGR, each.cluster) == each.address
            and other.members(Role.HOSTMGR, each.cluster) == {each.id: each}
            for each in members
        ),
    )
    assert other.leader(Role.HOSTMGR, "north") is None
    assert other.members(Role.HOSTMGR, "north") == {}


async def test_a_cluster_stays_known_without_its_host_managers(make: MakeMembership) -> None:
    one, other = make(), make()
    await one.start()
    await one.join(host_manager("b", "east", 3))
    leadership = await one.campaign(host_manager("b", "east", 3))
    await other.start()
    assert other.leader(Role.HOSTMGR, "east") is not None
    await leadership.resign()
    await one.close()
    await until(
        other, lambda: not other.leader(Role.HOSTMGR, "east") and not other.members(Role.HOSTMGR, "east")
    )
    assert other.clusters() == ["east"]


async def test_the_paths_of_a_cluster_are_below_those_of_the_role() -> None:
    """The paths without a cluster are those that published clients read (docs/behaviour/system.md)."""
    assert host_manager("a", "", 2).group.path == "hostmanager"
    assert host_manager("b", "east", 3).group.path == "hostmanager/clusters/east"


def standing(leadership: Leadership) -> Standing:
    return leadership.standing(time.monotonic())


async def test_a_leader_may_act_until_it_resigns(make: MakeMembership) -> None:
    one = make()
    await one.start()
    assert one.trouble() == ""
    leadership = await one.campaign(member("a"))
    assert standing(leadership) is Standing.HELD
    await leadership.resign()
    assert standing(leadership) is Standing.OVER


async def test_many_contend_and_each_leads_once(make: MakeMembership) -> None:
    """One leads at a time; terms grow in the order of leading."""
    memberships = [make() for _ in range(4)]
    for each in memberships:
        await each.start()
    leading, terms = 0, list[int]()

    async def lead(number: int) -> None:
        nonlocal leading
        leadership = await memberships[number].campaign(member(f"m{number}"))
        leading += 1
        assert leading == 1
        terms.append(leadership.term)
        await asyncio.sleep(0)
        leading -= 1
        await leadership.resign()

    async with asyncio.timeout(60):
        await asyncio.gather(*(lead(number) for number in range(4)))
    assert terms == sorted(set(terms)) and len(terms) == 4


async def test_who_gives_a_candidacy_up_is_in_nobodys_way(make: MakeMembership) -> None:
    one, two, three = make(), make(), make()
    for each in (one, two, three):
        await each.start()
    first = await one.campaign(member("a"))
    given_up = asyncio.create_task(two.campaign(member("b")))
    waiting = asyncio.create_task(three.campaign(member("c")))
    await until(three, lambda: three.leader(Role.RESMGR) is not None)
    given_up.cancel()
    await asyncio.wait([given_up])
    await first.resign()
    second = await asyncio.wait_for(waiting, 60)
    await second.resign()


HOLDER = """
import asyncio, json, sys
from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Member, Role

async def main():
    settings = validated(DaemonSettings, {"membership": json.loads(sys.argv[1])}, "test")
    mine = membership(settings.membership)
    await mine.start()
    me = Member(Role.RESMGR, "child", Address("here", "127.0.0.1", 3, 4))
    await mine.join(me)
    await mine.campaign(me)
    print("leading", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_leader_is_followed(make: MakeMembership, settings: Tree) -> None:
    """Once its session is over where there is one, else at once."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, json.dumps(settings), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"leading\n"
        mine = make()
        await mine.start()
        assert mine.leader(Role.RESMGR) == Address("here", "127.0.0.1", 3, 4)
        assert "child" in mine.members(Role.RESMGR)
        waiting = asyncio.create_task(mine.campaign(member("a")))
        os.kill(child.pid, signal.SIGKILL)
        leadership = await asyncio.wait_for(waiting, 60)
        assert leadership.term == 2
        await until(mine, lambda: "child" not in mine.members(Role.RESMGR))
        await leadership.resign()
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
