"""A leader owns all shards for as long as its term lasts, because the table says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobmgr.engine.shards import LeaderShards
from peloton.clock import SystemClock
from peloton.errors import Fenced, Unavailable
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local_shards import LocalShards
from peloton.model.shard import SHARDS
from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.contract.storage.samples import job_id, task_runtime

JOB = job_id(1)


class Leader:
    """An instance in one term, as far as shards go."""

    def __init__(self, folder: Path, name: str, store: Store, term: int) -> None:
        self.registry = LocalShards(folder)
        self.store = store
        self.given_up: list[str] = []
        """The reasons for which it gave the term up."""
        self.deposed = False
        member = Member(Role.JOBMGR, name, Address("here", "127.0.0.1", 1, 2))
        self.shards = LeaderShards(
            self.registry, member, store, SystemClock(), term, self._leads, self.given_up.append
        )

    def _leads(self) -> None:
        if self.deposed:
            raise Fenced("another one leads")

    @property
    def owned(self) -> set[int]:
        """The shards of which the table says that somebody of this name owns them."""
        table = self.registry.seen().table
        return {number for number, shard in enumerate(table.shards) if shard.owner == self.session}

    @property
    def session(self) -> str:
        found = self.shards._owner._session
        return "" if found is None else found.name

    async def close(self) -> None:
        await self.shards.close()
        await self.registry.close()
        await self.store.close()


class House:
    """Leaders of one installation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Leader] = []

    async def leader(self, name: str, term: int) -> Leader:
        store = await open_sqlite(SqliteSettings(path=self._folder / "store.db"))
        await store.begin_term(Role.JOBMGR.value, term)
        self._made.append(Leader(self._folder / "shards", name, store, term))
        return self._made[-1]

    async def close(self) -> None:
        for leader in self._made:
            await leader.close()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    yield made
    await made.close()


async def until_given_up(leader: Leader) -> None:
    async with asyncio.timeout(60):
        while not leader.given_up:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_it_owns_all_and_the_store_knows_by_one_write(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await house.leader("a", 3)
    begun: list[dict[int, int]] = []
    begin = one.store.begin_shards

    async def note(role: str, terms: dict[int, int]) -> None:
        begun.append(dict(terms))
        await begin(role, terms)

    monkeypatch.setattr(one.store, "begin_shards", note)
    with pytest.raises(Fenced, match="not owned here"):
        one.shards.fence(JOB)
    await one.shards.own_all()
    assert one.owned == set(range(SHARDS))
    assert begun == [dict.fromkeys(range(SHARDS), 4)], "above the leader's term"
    assert one.shards.claim == "4:0-63"
    assert one.shards.claim is one.shards.claim, "it is made once, until an owner changes"
    one.shards.fence(JOB)
    await one.store.write_all(JOB, {0: task_runtime(1)})
    assert not one.given_up


async def test_the_next_leader_owns_all_in_newer_terms(house: House) -> None:
    one = await house.leader("a", 1)
    await one.shards.own_all()
    await one.shards.close()
    assert not one.given_up, "it has left in order"
    assert not one.shards.claim
    with pytest.raises(Fenced):
        one.shards.fence(JOB)
    other = await house.leader("b", 2)
    await other.shards.own_all()
    assert {shard.term for shard in other.registry.seen().table.shards} == {3}
    await other.store.write_all(JOB, {0: task_runtime(2)})
    with pytest.raises(Fenced):
        await one.store.write_all(JOB, {0: task_runtime(1)})


async def test_a_leader_that_is_deposed_gives_its_term_up(house: House) -> None:
    """And until its session is over the next one owns nothing."""
    one, other = await house.leader("a", 1), await house.leader("b", 2)
    await one.shards.own_all()
    one.deposed = True
    owning = asyncio.create_task(other.shards.own_all())
    await until_given_up(one)
    assert "another owner" in one.given_up[0]
    one.shards.fence(JOB)
    with pytest.raises(Fenced, match="not owned"):
        other.shards.fence(JOB)
    await one.shards.close()
    await asyncio.wait_for(owning, 60)
    assert other.owned == set(range(SHARDS))
    other.shards.fence(JOB)


async def test_a_session_that_does_not_end_is_named(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = await house.leader("a", 1), await house.leader("b", 2)
    await one.shards.own_all()
    monkeypatch.setattr("jobmgr.engine.shards.WAIT_SECONDS", 0.3)
    with pytest.raises(Unavailable, match=f"{SHARDS} of {SHARDS} shards are still owned by a-1 after 0.3 s"):
        await other.shards.own_all()


async def test_a_leader_that_the_store_fences_goes_on_in_newer_terms(house: House) -> None:
    """As where the registry was made anew over an old store."""
    one, earlier = await house.leader("a", 1), await house.leader("b", 1)
    await earlier.store.begin_shards(Role.JOBMGR.value, {5: 4})
    await asyncio.wait_for(one.shards.own_all(), 60)
    assert {shard.term for shard in one.registry.seen().table.shards} >= {4}
    assert not one.given_up
    await one.store.write_all(JOB, {0: task_runtime(1)})
