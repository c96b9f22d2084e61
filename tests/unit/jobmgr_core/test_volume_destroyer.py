"""The driver that destroys deleted volumes: it goes on until each is gone from its host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jobmgr.drivers.volumes import UNSEEN_SECONDS, VolumeDestroyer
from jobmgr.engine.outbox import Queue
from peloton.clock import NANOSECONDS, ManualClock
from peloton.errors import NotFound, PelotonError, Refused, Unavailable
from peloton.model.volume import Volume, VolumeId, VolumeState, volume_id
from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_core.specs import JOB
from tests.waiting import until

NOW = 1_700_000_000 * NANOSECONDS
V = VolumeState


def volume(instance: int, state: VolumeState = V.CREATED, goal: VolumeState = V.DELETED) -> Volume:
    return Volume(volume_id(JOB, instance, 1), JOB, instance, "host", 100, "data", state, goal, NOW, NOW)


class Hostmgr:
    """Knows one host. `answers` are what its next calls raise; then the volume is gone."""

    def __init__(self, *answers: PelotonError | None) -> None:
        self.answers = list(answers)
        self.there = True
        self.asked = 0

    async def is_host_known(self, hostname: str) -> bool:
        assert hostname == "host"
        return self.there

    async def destroy_volume(self, volume: VolumeId) -> None:
        await asyncio.sleep(0)
        self.asked += 1
        failure = self.answers.pop(0) if self.answers else NotFound("no agent has the volume")
        if failure is not None:
            raise failure


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    yield opened
    await opened.close()


@asynccontextmanager
async def destroying(store: Store, hostmgr: Hostmgr, clock: ManualClock) -> AsyncIterator[Queue[Volume]]:
    queue: Queue[Volume] = Queue()
    running = asyncio.create_task(VolumeDestroyer(hostmgr, store, clock, 0.01).run(queue))
    yield queue
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled(), running.exception()


async def gone(store: Store, wanted: Volume) -> None:
    async with asyncio.timeout(60):
        while (await store.volumes.get(wanted.id)).state is not V.DELETED:  # noqa: ASYNC110 - the store gives no notice
            await asyncio.sleep(0.005)


async def test_a_volume_is_destroyed_however_often_it_takes(store: Store) -> None:
    """Claimed, in use, and then destroyed by the second call of two; the first was lost."""
    hostmgr = Hostmgr(Unavailable("claimed"), Refused("in use"), None, None)
    await store.volumes.write(volume(0))
    async with destroying(store, hostmgr, ManualClock(epoch=NOW)) as queue:
        queue.put([volume(0)])
        await gone(store, volume(0))
    assert hostmgr.asked == 5


async def test_a_new_leader_goes_on_with_what_is_stored(store: Store) -> None:
    kept, done = volume(1, goal=V.CREATED), volume(2, state=V.DELETED)
    for each in (volume(0), kept, done):
        await store.volumes.write(each)
    async with destroying(store, Hostmgr(None), ManualClock(epoch=NOW)):
        await gone(store, volume(0))
    assert [each for each in await store.volumes.all() if each.instance] == [kept, done]


async def test_a_volume_stays_deleted_while_its_host_is_away(store: Store) -> None:
    hostmgr = Hostmgr()
    hostmgr.there = False
    await store.volumes.write(volume(0))
    clock = ManualClock(epoch=NOW + round(2 * UNSEEN_SECONDS * NANOSECONDS))
    async with destroying(store, hostmgr, clock):
        await until(lambda: hostmgr.asked > 3, "hostmgr was asked again")
        assert (await store.volumes.get(volume(0).id)).state is V.CREATED
        hostmgr.there, hostmgr.answers = True, [None]
        await gone(store, volume(0))


async def test_a_volume_that_was_never_made_is_gone_after_a_while(store: Store) -> None:
    """hostmgr's map of agents may be older than the volume: it is not believed at once."""
    hostmgr, clock = Hostmgr(), ManualClock(epoch=NOW)
    unmade = volume(0, state=V.INITIALIZED)
    await store.volumes.write(unmade)
    async with destroying(store, hostmgr, clock):
        await until(lambda: hostmgr.asked > 3, "hostmgr was asked again")
        assert (await store.volumes.get(unmade.id)).state is V.INITIALIZED
        clock.advance(UNSEEN_SECONDS)
        await gone(store, unmade)
