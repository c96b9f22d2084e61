"""An engine that has some of the shards leaves the jobs of others alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as do
from jobmgr.drivers import holds
from jobmgr.engine import held_shards
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import HeldShards, Phase
from jobmgr.engine.outbox import Outbox, Queue
from jobmgr.engine.split import part_of
from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import Unavailable
from peloton.model.ids import JobId, Run, task_id
from peloton.model.shard import shard_of
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus
from peloton.model.volume import Volume, VolumeState, volume_id
from storage.interface import Store
from tests.unit.jobmgr_core.sharing import House, job_in
from tests.unit.jobmgr_core.specs import spec
from tests.unit.jobmgr_core.steps import FAST, begin_term
from tests.unit.jobmgr_core.test_lanes import Faulty
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

OURS, THEIRS = 3, 4
"""Shards."""
OUR, THEIR = job_in(OURS), job_in(THEIRS)
NOW = 1_700_000_000 * NANOSECONDS


@asynccontextmanager
async def holding(store: Store, world: World, *numbers: int) -> AsyncIterator[Engine]:
    """An engine that has some shards, in a world that reports about all."""
    await begin_term(store)
    engine = Engine(store, limits=FAST, lanes=2, shards=HeldShards(whole=False))
    async with Running(engine, world):
        await open_more(engine, *numbers)
        yield engine


async def open_more(engine: Engine, *numbers: int) -> None:
    active = await engine.store.jobs.active()
    for number in numbers:
        engine.recovery.add(number, [job_id for job_id in active if shard_of(job_id) == number])
    await until(lambda: set(numbers) <= set(engine.shards.open), f"shards {numbers} are open")


async def running_jobs(store: Store, world: World) -> None:
    """Both jobs run, and their leader is gone."""
    await begin_term(store)
    async with Running(Engine(store, limits=FAST), world) as running:
        for job_id in (OUR, THEIR):
            await running.engine.create_job(job_id, spec(2))
        await until(lambda: count(running.engine, OUR, THEIR) == 4, "all run")


def count(engine: Engine, *jobs: JobId) -> int:
    found = (engine.job(job_id) for job_id in jobs)
    return sum(job.counts.get(TaskState.RUNNING, 0) for job in found if job is not None)


async def test_runs_of_other_shards_are_no_orphans(store: Store) -> None:
    world = World(runs_on)
    await running_jobs(store, world)
    async with holding(store, world, OURS) as engine:
        world.status(f"{THEIR}-0-1", mesos_pb2.TASK_RUNNING)
        world.status(f"{THEIR}-1-2", mesos_pb2.TASK_RUNNING)
        world.status(f"{OUR}-1-1", mesos_pb2.TASK_FINISHED)
        world.status(f"{OUR}-0-1", mesos_pb2.TASK_FINISHED)
        await until(lambda: engine.job(OUR) is None, "our job has ended")
        assert not world.called("KillTasks")
        with pytest.raises(Unavailable, match=f"shard {THEIRS} is not owned here"):
            await engine.find(THEIR)
        await open_more(engine, THEIRS)
        assert await engine.find(THEIR) is not None


async def test_a_shard_is_finished_once_launches_that_wait_for_other_lanes_are_made(store: Store) -> None:
    """Its next owner would take the run for lost, since Mesos does not know it."""
    faulty, world = Faulty(store), World(runs_on)
    async with holding(faulty, world, OURS, THEIRS) as engine:
        engine.lanes._launches._patience = 0.5
        world.hold = True
        for job_id in (OUR, THEIR):
            await engine.create_job(job_id, spec(1))
        await until(lambda: len(world.queued) == 2, "both are to be placed, on one host")
        faulty.jobs_down = {THEIR}
        world.hold = False
        await until(lambda: launched(engine, OUR), "our launch waits for the lane that cannot store")
        assert not world.launched
        await asyncio.wait_for(engine.finish(OURS), 60)
        assert world.launched == [f"{OUR}-0-1"]
        faulty.jobs_down = set()


def launched(engine: Engine, job_id: JobId) -> bool:
    job = engine.job(job_id)
    return job is not None and job.counts.get(TaskState.LAUNCHED, 0) == 1


async def test_holds_for_instances_of_other_shards_stay(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "CHECK_SECONDS", 0.05)
    world = World(runs_on)
    await running_jobs(store, world)
    world.held = {task_id(OUR, 0): "host-0", task_id(THEIR, 0): "host-0"}
    async with holding(store, world, OURS) as engine:
        await until(lambda: task_id(OUR, 0) not in world.held, "ours is released")
        assert list(world.held) == [task_id(THEIR, 0)]
        await open_more(engine, THEIRS)
        await until(lambda: not world.held, "both are")


class Volumes(World):
    """A world that destroys volumes at once."""

    def __init__(self) -> None:
        super().__init__(runs_on)
        self.destroyed: list[str] = []

    async def DestroyVolumes(self, request: object) -> object:
        self.destroyed += [each.disk.persistence.id for each in request.volumes]  # type: ignore[attr-defined]
        raise Unavailable("try again")


async def test_volumes_of_other_shards_stay_until_these_are_open(store: Store) -> None:
    world = Volumes()
    await begin_term(store)
    for job_id in (OUR, THEIR):
        await store.volumes.write(
            Volume(
                volume_id(job_id, 0, 1),
                job_id,
                0,
                "host",
                100,
                "data",
                VolumeState.CREATED,
                VolumeState.DELETED,
                NOW,
                NOW,
            )
        )
    async with holding(store, world, OURS) as engine:
        await until(lambda: world.destroyed, "ours is destroyed")
        assert set(world.destroyed) == {volume_id(OUR, 0, 1)}
        await open_more(engine, THEIRS)
        await until(lambda: volume_id(THEIR, 0, 1) in world.destroyed, "both are")
        engine.drop(THEIRS)
        tried = len(world.destroyed)
        again = world.destroyed.count(volume_id(OUR, 0, 1)) + 1
        await until(lambda: world.destroyed.count(volume_id(OUR, 0, 1)) > again, "ours is tried again")
        assert volume_id(THEIR, 0, 1) not in world.destroyed[tried + 1 :], "one may have been under way"


async def test_a_job_that_has_ended_is_read_again_after_it_was_elsewhere(store: Store) -> None:
    world = World()
    async with holding(store, world, OURS) as engine:
        await engine.create_job(OUR, spec(1))
        await until(lambda: engine.job(OUR) is None, "it has ended")
        held = await engine.load(OUR)
        assert await engine.load(OUR) is held, "it is kept"
        engine.drop(OURS)
        with pytest.raises(Unavailable):
            await engine.load(OUR)
        await engine.lanes.dropped(OURS)
        await open_more(engine, OURS)
        assert await engine.load(OUR) is not held


async def test_a_call_waits_a_moment_for_a_shard_that_is_being_drained(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_shards, "PATIENCE_SECONDS", 0.1)
    async with holding(store, World(runs_on), OURS) as engine:
        await engine.create_job(OUR, spec(1))
        engine.shards.drain(OURS)
        with pytest.raises(Unavailable, match=r"moves to another job manager, for more than 0\.1 s"):
            await engine.find(OUR)
        monkeypatch.setattr(held_shards, "PATIENCE_SECONDS", 30.0)
        asked = asyncio.create_task(engine.find(OUR))
        await asyncio.sleep(0)
        engine.shards.resume(OURS)
        assert await asked is not None
        engine.shards.drain(OURS)
        asked = asyncio.create_task(engine.find(OUR))
        await asyncio.sleep(0)
        engine.drop(OURS)
        with pytest.raises(Unavailable, match="another job manager's"):
            await asked


@pytest.mark.parametrize("finished", [True, False], ids=["drained", "being drained"])
async def test_a_shard_that_is_kept_after_all_misses_no_event(tmp_path: Path, finished: bool) -> None:
    house = House(tmp_path, runs_on)
    try:
        one = await house.instance("a")
        await house.settled((one, 64))
        for job_id in (OUR, THEIR):
            await one.engine.create_job(job_id, spec(2))
        await until(lambda: count(one.engine, OUR, THEIR) == 4, "all run")
        if finished:
            await one.work.drain(OURS)
            assert one.shards.phase(OURS) is None
        else:
            one.engine.shards.drain(OURS)
        for job_id in (OUR, THEIR):
            for instance in range(2):
                house.world.status(f"{job_id}-{instance}-1", mesos_pb2.TASK_FINISHED)
        await until(lambda: one.engine.job(THEIR) is None, "the other one goes on")
        await until(lambda: house.world.stored[THEIRS] == 12, "its events are stored")
        one.work.resume(OURS)
        await until(lambda: one.shards.phase(OURS) is Phase.OPEN, "it is open")
        await house.ended([OUR])
        assert not house.world.killed
    finally:
        await house.close()


def drops(job_id: JobId) -> bool:
    return job_id == THEIR


def test_instructions_for_jobs_that_are_dropped_are_forgotten() -> None:
    outbox = Outbox()
    for job_id in (OUR, THEIR):
        run = Run(job_id, 0, 1)
        volume = Volume("v", job_id, 0, "host", 1, "d", VolumeState.CREATED, VolumeState.DELETED, NOW, NOW)
        outbox.send(
            [
                do.Enqueue(job_id, (((0, 1),),)),
                do.Enqueue(job_id, (((0, 1),),), again=True),
                do.Compare(job_id, (ev.Span(0, 1, 1),)),
                do.Withdraw(job_id, ((0, 1),)),
                do.Kill((run, Run(job_id, 1, 1)), ((run, "host"),)),
                do.ReleaseHolds((task_id(job_id, 0),)),
                do.RenewHolds(job_id, ((0, "host"),)),
                do.ShutDown(((run, "agent"),)),
                do.Keep((run,)),
                do.Settle(((run, TaskState.RUNNING),)),
                do.Reconcile(((run, "agent"),)),
                do.Retire(job_id),
                do.Retire(job_id, delete=True),
                do.Prune(job_id, "workflow"),
                do.DestroyVolume(volume),
                do.FollowHosts(job_id),
            ]
        )
    queues = [each for each in vars(outbox).values() if isinstance(each, Queue)]
    used = [queue for queue in queues if len(queue)]
    assert len(used) == len(queues) - 1, "all but that of launches"
    assert {len(queue) for queue in used} == {2}
    assert outbox.drop(drops) == [do.Compare(THEIR, (ev.Span(0, 1, 1),))]
    assert {len(queue) for queue in used} == {1}


def of_runs(*runs: Run) -> Sequence[ev.Event]:
    """An event of each kind about runs."""
    placement = ev.Placement("host", "agent", "offer", (), tuple(runs))
    return (
        ev.Statuses([(run, TaskStatus("", TaskState.RUNNING, NOW)) for run in runs]),
        ev.PendingReasons([(run, TaskState.PENDING, "") for run in runs]),
        ev.Preempted([(run, "reason") for run in runs]),
        ev.Draining(list(runs), "", {}),
        ev.Placed([placement]),
        ev.Launched(tuple(runs)),
        ev.LaunchRefused(tuple(runs), "no", faulty=False),
        ev.LaunchUncertain(tuple(runs)),
        ev.SecretMissing(tuple(runs), "no"),
    )


def test_an_event_is_cut_to_the_runs_of_our_jobs() -> None:
    ours, theirs = Run(OUR, 0, 1), Run(THEIR, 0, 1)

    def part(event: ev.Event) -> ev.Event | None:
        return part_of(event, lambda job_id: job_id == OUR, lambda job_id: job_id == OUR, lambda job_id: None)

    for both, our, their in zip(of_runs(ours, theirs), of_runs(ours), of_runs(theirs), strict=True):
        assert part(both) == our
        assert part(our) is our
        assert part(their) is None
    for kept in (
        ev.ResmgrChanged(),
        ev.Compared(THEIR, ()),
        ev.Placed([ev.Placement("h", "a", "o", (), ())]),
    ):
        assert part(kept) == kept
    assert part(ev.Enqueued(THEIR, [(0, 1)])) is None
