"""What holds of the folder only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from peloton.membership.interface import Address, Member, Role
from peloton.membership.local import LocalMembership


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[LocalMembership]:
    membership = LocalMembership(tmp_path)
    yield membership
    await membership.close()


async def until_leads(membership: LocalMembership, member: Member) -> None:
    async with asyncio.timeout(5):
        while membership.leader(member.role) != member.address:
            await membership.changed()


async def test_foreign_files_among_members_are_ignored(one: LocalMembership, tmp_path: Path) -> None:
    """A folder cannot be removed like what a dead process left."""
    folder = tmp_path / "resourcemanager" / "members"
    (folder / "old").mkdir(parents=True)
    await one.start()
    me = Member(Role.RESMGR, "me", Address("here", "127.0.0.1", 1, 2))
    await one.join(me)
    await one.campaign(me)
    await until_leads(one, me)
    assert set(one.members(Role.RESMGR)) == {"me"}


async def test_failed_read_is_reported_and_repeated(one: LocalMembership, tmp_path: Path) -> None:
    """Too many open files, for example: here a link that leads nowhere."""
    await one.start()
    leader = tmp_path / "resourcemanager" / "leader"
    leader.symlink_to("leader")
    async with asyncio.timeout(5):
        while not one.trouble():  # noqa: ASYNC110 - it only answers
            await asyncio.sleep(0.01)
    assert str(leader) in one.trouble()
    leader.unlink()
    me = Member(Role.RESMGR, "me", Address("here", "127.0.0.1", 1, 2))
    await one.campaign(me)
    await until_leads(one, me)
    assert one.trouble() == ""
