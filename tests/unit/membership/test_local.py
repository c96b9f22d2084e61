"""What holds of the folder only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from peloton.membership.folder import registered
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local import LocalMembership


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[LocalMembership]:
    membership = LocalMembership(tmp_path)
    yield membership
    await membership.close()


async def until_leads(membership: LocalMembership, member: Member) -> None:
    async with asyncio.timeout(60):
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
    async with asyncio.timeout(60):
        while not one.trouble():  # noqa: ASYNC110 - it only answers
            await asyncio.sleep(0.01)
    assert str(leader) in one.trouble()
    leader.unlink()
    me = Member(Role.RESMGR, "me", Address("here", "127.0.0.1", 1, 2))
    await one.campaign(me)
    await until_leads(one, me)
    assert one.trouble() == ""


async def test_member_that_joins_right_after_another_is_seen(one: LocalMembership, tmp_path: Path) -> None:
    """Both may change the folder within one tick of its clock; and a member that leaves is seen as well."""
    await one.start()
    others = [LocalMembership(tmp_path) for _ in range(20)]
    names = [f"member-{number}" for number in range(20)]
    for name, other in zip(names, others, strict=True):
        await other.join(Member(Role.PLACEMENT, name, Address("here", "127.0.0.1", 1, 2)))
        registered(tmp_path)
    async with asyncio.timeout(60):
        while set(one.members(Role.PLACEMENT)) != set(names):
            await one.changed()
        for other in others[:10]:
            await other.close()
        while set(one.members(Role.PLACEMENT)) != set(names[10:]):
            await one.changed()
    for other in others[10:]:
        await other.close()


async def test_folder_that_is_made_anew_is_read(one: LocalMembership, tmp_path: Path) -> None:
    me = Member(Role.RESMGR, "me", Address("here", "127.0.0.1", 1, 2))
    await one.start()
    await one.join(me)
    first = await one.campaign(me)
    await until_leads(one, me)
    (tmp_path / "resourcemanager").rename(tmp_path / "away")
    (tmp_path / "resourcemanager" / "members").mkdir(parents=True)
    async with asyncio.timeout(60):
        while one.leader(Role.RESMGR) or one.members(Role.RESMGR):
            await one.changed()
    other = Member(Role.RESMGR, "other", Address("here", "127.0.0.1", 3, 4))
    await one.join(other)
    await one.campaign(other)
    await until_leads(one, other)
    assert set(one.members(Role.RESMGR)) == {"other"}
    await first.resign()


async def test_changes_are_seen_by_their_events(
    one: LocalMembership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that join and leave, one of them in a cluster that is new: without a look for hours."""
    monkeypatch.setattr("peloton.membership.folder_events.RESTING_SECONDS", 10_000.0)
    monkeypatch.setattr("peloton.membership.folder_events.QUIET_SECONDS", 0.0)
    await one.start()
    other = LocalMembership(tmp_path)
    for member in (
        Member(Role.PLACEMENT, "first", Address("here", "127.0.0.1", 1, 2)),
        Member(Role.HOSTMGR, "second", Address("here", "127.0.0.1", 1, 2), "east"),
        Member(Role.HOSTMGR, "third", Address("here", "127.0.0.1", 1, 2), "east"),
    ):
        await other.join(member)
        async with asyncio.timeout(60):
            while member.id not in one.members(member.group.role, member.group.cluster):
                await one.changed()
    await other.close()
    async with asyncio.timeout(60):
        while one.members(Role.PLACEMENT) or one.members(Role.HOSTMGR, "east"):
            await one.changed()
