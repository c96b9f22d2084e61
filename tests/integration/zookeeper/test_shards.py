"""What holds of the sessions of owners of shards in ZooKeeper only: leases, which end with its session."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from jobmgr.engine.shards import LeaderShards
from peloton.clock import SystemClock
from peloton.membership.interface import Role
from peloton.membership.lease import Standing
from peloton.model.shard import SHARDS
from storage.config import SqliteSettings
from storage.interface import unfenced
from storage.sqlite.store import open_sqlite
from tests.contract.storage.samples import job_id
from tests.servers.zookeeper import ZooKeeperServer
from tests.waiting import until

from .conftest import Make, Relay, expire, member

JOB = job_id(1)


async def test_a_leader_whose_session_is_deleted_gives_its_term_up(
    make: Make, raw: Any, root: str, tmp_path: Path
) -> None:
    one = make()
    await one.start()
    registry, given_up = one.shards(), list[str]()
    store = await open_sqlite(SqliteSettings(path=tmp_path / "store.db"))
    shards = LeaderShards(
        registry, member("a", Role.JOBMGR), store, SystemClock(), 1, unfenced, given_up.append
    )
    try:
        await shards.own_all()
        shards.fence(JOB)
        (name,) = await asyncio.to_thread(raw.get_children, f"{root}/jobmanager/shards/sessions")
        await asyncio.to_thread(raw.delete, f"{root}/jobmanager/shards/sessions/{name}")
        await until(lambda: bool(given_up))
        assert "is lost" in given_up[0]
    finally:
        await shards.close()
        await registry.close()
        await store.close()


async def test_a_session_that_expires_loses_its_shards(make: Make, zookeeper: ZooKeeperServer) -> None:
    one, other = make(), make()
    await one.start()
    await other.start()
    mine, theirs = one.shards(), other.shards()
    await mine.start(SHARDS)
    await theirs.start(SHARDS)
    session = await mine.begin(member("a", Role.JOBMGR))
    await until(lambda: session.name in theirs.seen().sessions)
    await asyncio.to_thread(expire, one._connection._client, zookeeper)
    await asyncio.wait_for(session.lost(), 60)
    assert session.standing(time.monotonic()) is Standing.OVER
    await until(lambda: not theirs.seen().sessions)
    await one._connection.connected()
    again = await mine.begin(member("a", Role.JOBMGR))
    await until(lambda: list(theirs.seen().sessions) == [again.name])
    await mine.close()
    await theirs.close()


async def test_a_session_ends_though_zookeeper_is_away_when_it_does(
    make: Make, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node would be in everybody's way for as long as the process lives."""
    monkeypatch.setattr("peloton.membership.zookeeper_shards.RESIGN_SECONDS", 0.1)
    relay = Relay(zookeeper.address)
    await relay.start()
    one, other = make(servers=relay.address, session_seconds=10), make()
    await one.start()
    await other.start()
    mine, theirs = one.shards(), other.shards()
    await mine.start(SHARDS)
    await theirs.start(SHARDS)
    session = await mine.begin(member("a", Role.JOBMGR))
    await until(lambda: session.name in theirs.seen().sessions)
    await relay.cut()
    await session.end()
    assert session.standing(time.monotonic()) is Standing.OVER
    await relay.start()
    await until(lambda: not theirs.seen().sessions)
    await mine.close()
    await theirs.close()
    await one.close()
    await relay.cut()
