"""Owners of shards in a folder: they join, leave, end and begin again, and each shard has one owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from peloton.clock import SystemClock
from peloton.daemon import shard_owner
from peloton.daemon.shard_owner import ShardOwner
from peloton.errors import Fenced
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local_shards import LocalShards

COUNT = 16


class Work:
    """Notes what is asked, and when."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.open_shards: dict[int, int] = {}
        self.calls: list[tuple[str, int]] = []
        self.draining = asyncio.Event()
        """Set where what was begun is finished at once."""
        self.draining.set()

    async def open(self, shard: int, term: int) -> None:
        self.calls.append(("open", shard))
        await asyncio.sleep(0)
        self.open_shards[shard] = term
        self._house.note(shard)

    async def drain(self, shard: int) -> None:
        self.calls.append(("drain", shard))
        await self.draining.wait()
        self.open_shards.pop(shard)
        self._house.note(shard)

    def resume(self, shard: int) -> None:
        self.calls.append(("resume", shard))
        self.open_shards[shard] = 0

    def drop(self, shard: int) -> None:
        self.calls.append(("drop", shard))
        self.open_shards.pop(shard, None)


class Process:
    """A job manager as far as shards go."""

    def __init__(self, house: House, name: str) -> None:
        self.registry = LocalShards(house.folder)
        self.work = Work(house)
        member = Member(Role.JOBMGR, name, Address("here", "127.0.0.1", 1, 2))
        self.name = name
        self.owner = ShardOwner(self.registry, member, self.work, SystemClock(), lambda: house.term(self))
        self.running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.registry.start(COUNT)
        self.running = asyncio.create_task(self.owner.run())

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        await self.registry.close()

    def owned(self) -> set[int]:
        return set(self.work.open_shards)


class House:
    """All processes; the first that was started and runs assigns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        self.leadership_known = True
        self.asked = 0
        """How often it was asked who assigns while that was not known."""

    async def start(self, name: str) -> Process:
        self.processes.append(Process(self, name))
        await self.processes[-1].start()
        return self.processes[-1]

    async def stop(self, process: Process) -> None:
        self.processes.remove(process)
        await process.stop()
        for each in self.processes:
            each.owner.assign_again()

    def term(self, process: Process) -> int | None:
        if not self.leadership_known:
            self.asked += self.processes[0] is process
            return None
        return 1 if self.processes[0] is process else None

    def note(self, shard: int) -> None:
        owners = [each.name for each in self.processes if shard in each.work.open_shards]
        assert len(owners) <= 1, f"shard {shard} is owned by {owners}"

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - what changes has no event
                await asyncio.sleep(0.01)

    async def until_fair(self) -> None:
        """Wait until all shards are owned, by parts that differ by one at most."""

        def fair() -> bool:
            parts = [len(each.owned()) for each in self.processes]
            return sum(parts) == COUNT and max(parts) - min(parts) <= 1

        await self.until(fair)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    yield made
    for process in list(made.processes):
        await process.stop()


async def test_one_that_joins_while_nobody_knows_who_leads_gets_its_part_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change of the registry tells that the leader is certain again."""
    monkeypatch.setattr(shard_owner, "LOOK_AGAIN_SECONDS", 0.1)
    first, second = [await house.start(name) for name in ("a", "b")]
    await house.until_fair()
    house.leadership_known = False
    third = await house.start("c")
    await house.until(lambda: len(first.registry.seen().sessions) == 3 and house.asked > 0)
    assert not third.owned() and first.owned() | second.owned() == set(range(COUNT))
    house.leadership_known = True
    await house.until_fair()
    assert third.owned()


async def test_one_owns_all_and_those_that_join_get_their_parts(house: House) -> None:
    first = await house.start("a")
    await house.until_fair()
    assert first.owned() == set(range(COUNT))
    assert all(first.owner.fence(shard) == term for shard, term in first.work.open_shards.items())
    await house.start("b")
    await house.until_fair()
    await house.start("c")
    await house.until_fair()
    gone = COUNT - len(first.owned())
    await house.until(lambda: [name for name, _ in first.work.calls].count("drop") == gone)


async def test_who_leaves_in_order_hands_over_before_it_ends(house: House) -> None:
    first, second = await house.start("a"), await house.start("b")
    await house.until_fair()
    await asyncio.wait_for(first.owner.leave(), 60)
    assert not first.owned()
    await house.until(lambda: second.owned() == set(range(COUNT)))
    await house.stop(first)
    await house.until_fair()
    await asyncio.wait_for(second.owner.leave(), 60)
    assert second.owned() == set(range(COUNT)), "there is nobody to take them"


async def test_who_is_gone_is_followed(house: House) -> None:
    first, second = await house.start("a"), await house.start("b")
    await house.until_fair()
    await house.stop(first)
    await house.until(lambda: second.owned() == set(range(COUNT)))
    for shard in range(COUNT):
        with pytest.raises(Fenced):
            first.owner.fence(shard)


async def test_a_shard_stays_where_it_is_until_it_is_drained(house: House) -> None:
    """And it is kept where its successor is gone before that."""
    first = await house.start("a")
    await house.until_fair()
    first.work.draining.clear()
    second = await house.start("b")
    await house.until(lambda: any(name == "drain" for name, _ in first.work.calls))
    draining = [shard for name, shard in first.work.calls if name == "drain"]
    assert first.owned() == set(range(COUNT)) and not second.owned()
    assert all(first.owner.fence(shard) for shard in draining)
    await house.stop(second)
    await house.until(
        lambda: {shard for name, shard in first.work.calls if name == "resume"} >= set(draining)
    )
    assert first.owned() == set(range(COUNT))
    assert all(first.owner.fence(shard) for shard in range(COUNT))


async def test_an_owner_that_the_store_fences_begins_again(house: House) -> None:
    """Its knowledge is older than it thinks: it gives its session up, and gets shards in newer terms."""
    process = await house.start("a")
    await house.until_fair()
    before = dict(process.work.open_shards)

    async def fenced() -> None:
        raise Fenced("a newer term has begun")

    process.owner._start(99, fenced())
    await house.until(lambda: {name for name, _ in process.work.calls} >= {"drop"})
    await house.until_fair()
    assert all(term > before[shard] for shard, term in process.work.open_shards.items())
