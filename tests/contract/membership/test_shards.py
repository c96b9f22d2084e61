"""What every registry of shards promises."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial

import pytest

from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.config.sources import Tree
from peloton.errors import Conflict, Fenced, Refused
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Member, Role
from peloton.membership.lease import Standing
from peloton.membership.shard_registry import OwnerSession, ShardedMembership, ShardRegistry
from peloton.sharding.assignment import assign
from peloton.sharding.table import ShardTable, hand_over
from tests.contract.membership.test_membership import settings  # noqa: F401 - a fixture

COUNT = 8


class Registries:
    """Registries of one installation, each of a process of its own as it were."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._open: list[tuple[ShardRegistry, ShardedMembership]] = []

    async def make(self, count: int = COUNT) -> ShardRegistry:
        one = membership(validated(DaemonSettings, {"membership": self._tree}, "test").membership)
        await one.start()
        self._open.append((one.shards(), one))
        await self._open[-1][0].start(count)
        return self._open[-1][0]

    async def close(self) -> None:
        for registry, one in self._open:
            await registry.close()
            await one.close()


@pytest.fixture
async def registries(settings: Tree) -> AsyncIterator[Registries]:  # noqa: F811
    made = Registries(settings)
    yield made
    await made.close()


def member(name: str) -> Member:
    return Member(Role.JOBMGR, name, Address("here", "127.0.0.1", 1, 2))


async def until(registry: ShardRegistry, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await registry.changed()


async def replace(registry: ShardRegistry, session: OwnerSession, table: ShardTable) -> None:
    await registry.replace(session, table, registry.seen().version)


async def take_all(registry: ShardRegistry, session: OwnerSession) -> ShardTable:
    """Give all shards that are free to a session."""
    table = assign(registry.seen().table, [session.name])
    await replace(registry, session, table)
    return table


def standing(session: OwnerSession) -> Standing:
    return session.standing(time.monotonic())


async def test_the_first_makes_a_table_that_nobody_owns(registries: Registries) -> None:
    one, other = await registries.make(), await registries.make()
    assert one.seen().table == other.seen().table == ShardTable.unowned(COUNT)
    assert not one.seen().sessions


async def test_the_number_of_shards_is_fixed(registries: Registries) -> None:
    await registries.make()
    with pytest.raises(Refused, match="has 8 shards, not 9"):
        await registries.make(9)


async def test_sessions_are_seen_leave_and_end(registries: Registries) -> None:
    one, other = await registries.make(), await registries.make()
    session = await one.begin(member("a"))
    assert session.name.startswith("a-") and standing(session) is Standing.HELD
    await until(other, lambda: session.name in other.seen().sessions)
    assert other.seen().sessions[session.name].address == Address("here", "127.0.0.1", 1, 2)
    assert not other.seen().sessions[session.name].leaving
    await session.announce_end()
    await until(other, lambda: other.seen().sessions[session.name].leaving)
    await session.end()
    assert standing(session) is Standing.OVER
    await until(other, lambda: not other.seen().sessions)
    again = await one.begin(member("a"))
    assert again.name != session.name, "a session never comes back"
    await until(other, lambda: list(other.seen().sessions) == [again.name])
    assert not other.seen().sessions[again.name].leaving


async def test_a_table_is_replaced_over_the_version_that_was_read(registries: Registries) -> None:
    one, other = await registries.make(), await registries.make()
    session, second = await one.begin(member("a")), await other.begin(member("b"))
    version = other.seen().version
    table = await take_all(one, session)
    with pytest.raises(Conflict, match="version"):
        await other.replace(second, assign(ShardTable.unowned(COUNT), [second.name]), version)
    await until(other, lambda: other.seen().version > version)
    assert other.seen().table == table


async def test_a_living_session_loses_nothing_but_by_itself(registries: Registries) -> None:
    one, other = await registries.make(), await registries.make()
    session, second = await one.begin(member("a")), await other.begin(member("b"))
    table = await take_all(one, session)
    await until(other, lambda: other.seen().table == table)
    robbed = assign(table, [second.name])
    with pytest.raises(Conflict, match="lives"):
        await replace(other, second, robbed)
    wanted = assign(table, [session.name, second.name])
    await replace(other, second, wanted)
    await until(one, lambda: one.seen().table == wanted)
    given = [number for number, shard in enumerate(wanted.shards) if shard.successor]
    await replace(one, session, hand_over(wanted, session.name, given))
    await until(other, lambda: len(other.seen().table.owned(second.name)) == COUNT / 2)


async def test_a_session_that_has_ended_loses_all_and_writes_nothing(registries: Registries) -> None:
    one, other = await registries.make(), await registries.make()
    session, second = await one.begin(member("a")), await other.begin(member("b"))
    table = await take_all(one, session)
    wanted = assign(table, [session.name, second.name])
    await session.end()
    with pytest.raises(Fenced, match="is over"):
        await replace(one, session, hand_over(wanted, session.name, [COUNT - 1]))
    await until(other, lambda: other.seen().table == table and list(other.seen().sessions) == [second.name])
    await replace(other, second, assign(table, other.seen().sessions))
    await until(one, lambda: len(one.seen().table.owned(second.name)) == COUNT)
    assert min(one.seen().table.owned(second.name).values()) > table.generation


async def test_many_write_and_no_write_is_lost(registries: Registries) -> None:
    """Each adds one generation to the table: in the end there are as many as writes that succeeded."""
    made = [await registries.make() for _ in range(3)]
    sessions = [await registry.begin(member(f"m{number}")) for number, registry in enumerate(made)]
    await take_all(made[0], sessions[0])
    written = 1

    def newer(registry: ShardRegistry, version: int) -> bool:
        return registry.seen().version > version

    async def write(registry: ShardRegistry, session: OwnerSession) -> None:
        nonlocal written
        for _ in range(5):
            seen = registry.seen()
            with suppress(Conflict):
                await registry.replace(
                    session, seen.table.changed({}, seen.table.generation + 1), seen.version
                )
                written += 1
            await until(registry, partial(newer, registry, seen.version))

    async with asyncio.timeout(60):
        await asyncio.gather(*map(write, made, sessions))
    await until(made[0], lambda: made[0].seen().table.generation >= written)
    assert made[0].seen().table.generation == written


HOLDER = """
import asyncio, json, sys
from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Member, Role
from peloton.sharding.assignment import assign

async def main():
    settings = validated(DaemonSettings, {"membership": json.loads(sys.argv[1])}, "test")
    mine = membership(settings.membership)
    await mine.start()
    shards = mine.shards()
    await shards.start(8)
    session = await shards.begin(Member(Role.JOBMGR, "child", Address("here", "127.0.0.1", 3, 4)))
    await shards.replace(session, assign(shards.seen().table, [session.name]), shards.seen().version)
    print(session.name, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_owner_loses_its_shards(registries: Registries, settings: Tree) -> None:  # noqa: F811
    """Within the session's length and a tick or two where there is one, else at once."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, json.dumps(settings), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        name = (await child.stdout.readline()).decode().strip()
        mine = await registries.make()
        session = await mine.begin(member("a"))
        assert len(mine.seen().table.owned(name)) == COUNT and name in mine.seen().sessions
        os.kill(child.pid, signal.SIGKILL)
        await until(mine, lambda: name not in mine.seen().sessions)
        await replace(mine, session, assign(mine.seen().table, mine.seen().sessions))
        await until(mine, lambda: len(mine.seen().table.owned(session.name)) == COUNT)
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
