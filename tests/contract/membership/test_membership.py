"""What every membership adapter promises."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from peloton.membership.interface import Address, Member, Membership, Role
from peloton.membership.local import LocalMembership

MakeMembership = Callable[[], Membership]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeMembership]:
    made: list[Membership] = []

    def one() -> Membership:
        made.append(LocalMembership(tmp_path))
        return made[-1]

    yield one
    for membership in made:
        await membership.close()


def member(name: str, role: Role = Role.RESMGR) -> Member:
    return Member(role, name, Address("here", "127.0.0.1", 1, 2))


async def until(membership: Membership, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
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
    second = await asyncio.wait_for(waiting, 10)
    assert second.term > first.term
    await second.resign()
    await until(one, lambda: one.leader(Role.RESMGR) is None)


HOLDER = """
import asyncio, sys
from pathlib import Path
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local import LocalMembership

async def main():
    membership = LocalMembership(Path(sys.argv[1]))
    await membership.start()
    me = Member(Role.RESMGR, "child", Address("here", "127.0.0.1", 3, 4))
    await membership.join(me)
    await membership.campaign(me)
    print("leading", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_leader_is_followed_at_once(make: MakeMembership, tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"leading\n"
        mine = make()
        await mine.start()
        assert mine.leader(Role.RESMGR) == Address("here", "127.0.0.1", 3, 4)
        waiting = asyncio.create_task(mine.campaign(member("a")))
        os.kill(child.pid, signal.SIGKILL)
        leadership = await asyncio.wait_for(waiting, 10)
        assert leadership.term == 2
        await until(mine, lambda: "child" not in mine.members(Role.RESMGR))
        await leadership.resign()
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
