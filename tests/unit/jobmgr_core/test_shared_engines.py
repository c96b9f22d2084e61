"""Two engines on one store, each with the jobs of its shards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobmgr.engine.workflows import Workflows
from jobmgr.services.v1alpha.watch_filters import PodFilter
from jobmgr.services.v1alpha.watch_merge import Merge, Owned
from jobmgr.services.v1alpha.watches import Watches
from mesos.v1 import mesos_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch import watch_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.clock import SystemClock
from peloton.errors import Unavailable
from peloton.membership.interface import Role
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import JobState, TaskState
from peloton.sharding.claims import terms_of
from tests.unit.jobmgr_core.sharing import House, Instance, job_in
from tests.unit.jobmgr_core.specs import spec
from tests.unit.jobmgr_core.world import runs_on
from tests.waiting import until

HALF = SHARDS // 2
JOBS = [job_in(shard) for shard in range(0, SHARDS, 4)]
TASKS = 2


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path, lanes=3)
    yield made
    await made.close()


async def two(house: House) -> tuple[Instance, Instance]:
    """Two instances that have half of the shards each."""
    one = await house.instance("a")
    await house.settled((one, SHARDS))
    other = await house.instance("b")
    await house.settled((one, HALF), (other, HALF))
    return one, other


async def create(house: House) -> None:
    """Create a job of each fourth shard at its owner."""
    for job in JOBS:
        await house.owner(shard_of(job)).engine.create_job(job, spec(TASKS))


def of(instance: Instance) -> set[str]:
    """The jobs whose shards an instance has open."""
    return {job for job in JOBS if shard_of(job) in instance.shards.open}


def running(house: House) -> int:
    jobs = (job for each in house.instances for job in each.engine.lanes.in_memory())
    return sum(job.counts.get(TaskState.RUNNING, 0) for job in jobs)


def end_all(house: House) -> None:
    for run in list(house.world.alive):
        house.world.status(run, mesos_pb2.TASK_FINISHED)


async def check(house: House) -> None:
    """All jobs succeeded by the first run of each task, and nothing was killed."""
    await house.ended(JOBS)
    world = house.world
    assert not world.killed, "no run was an orphan"
    assert not world.twice
    assert sorted(world.launched) == sorted(f"{job}-{at}-1" for job in JOBS for at in range(TASKS))
    for job in JOBS:
        assert (await house.instances[0].store.jobs.runtime(job)).state is JobState.SUCCEEDED
    await until(lambda: min(world.stored) == len(world.events), "all events are stored by their owners")


async def test_each_does_the_work_of_its_shards(house: House) -> None:
    one, other = await two(house)
    house.world.behaviour = runs_on
    await create(house)
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    assert one.active() == of(one)
    assert other.active() == of(other)
    end_all(house)
    await check(house)


async def test_one_joins_while_tasks_run(house: House) -> None:
    """It takes half of the jobs over, and learns what happened to them meanwhile."""
    house.world.behaviour = runs_on
    one = await house.instance("a")
    await house.settled((one, SHARDS))
    await create(house)
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    joining = asyncio.create_task(house.instance("b"))
    end_all(house)
    other = await joining
    await house.settled((one, HALF), (other, HALF))
    await check(house)
    more = [job_in(shard, 1) for shard in other.shards.open]
    for job in more:
        await other.engine.create_job(job, spec(1))
    await until(lambda: len(house.world.alive) == len(more), "the new owner launches")


async def test_one_joins_and_tasks_that_wait_are_launched_once(house: House) -> None:
    house.world.hold = True
    one = await house.instance("a")
    await house.settled((one, SHARDS))
    await create(house)
    await until(lambda: len(house.world.queued) == TASKS * len(JOBS), "all wait in resmgr")
    other = await house.instance("b")
    await house.settled((one, HALF), (other, HALF))
    house.world.hold = False
    await check(house)


async def test_one_leaves_in_order(house: House) -> None:
    """Launches that are under way are finished before their shards are handed over."""
    one, other = await two(house)
    house.world.behaviour = runs_on
    house.world.launches.clear()
    await create(house)
    await until(lambda: len(house.world.called("LaunchTasks")) > 0, "launches are under way")
    leaving = asyncio.create_task(other.owner.leave())
    await until(lambda: len(other.shards.open) < HALF, "it drains")
    house.world.launches.set()
    await asyncio.wait_for(leaving, 60)
    await house.settled((one, SHARDS), (other, 0))
    assert not other.active()
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    end_all(house)
    await check(house)


async def test_one_loses_its_session(house: House) -> None:
    """Its jobs go on at the other one; calls about them raise Unavailable."""
    one, other = await two(house)
    house.world.behaviour = runs_on
    await create(house)
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    lost = of(other)
    await other.lose()
    await house.settled((one, SHARDS), (other, 0))
    for job in lost:
        for call in (other.engine.find(job), other.engine.stop(job, None), other.engine.load(job)):
            with pytest.raises(Unavailable, match="not owned here"):
                await call
    with pytest.raises(Unavailable):
        await other.engine.create_job(job_in(0, 1), spec(1))
    assert not other.active()
    end_all(house)
    await check(house)


async def test_a_request_in_hand_is_not_answered_as_of_an_ended_job(house: House) -> None:
    _, other = await two(house)
    house.world.behaviour = runs_on
    await create(house)
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    job = min(of(other))
    asked = asyncio.create_task(other.engine.stop(job, None))
    await asyncio.sleep(0)  # it is in the lane's inbox
    other.engine.drop(shard_of(job))
    with pytest.raises(Unavailable):
        await asked


async def test_an_owner_that_the_store_fences_goes_on_with_the_others(house: House) -> None:
    """As where it does not know yet that its session is over: what it writes of a lost shard is refused."""
    one, other = await two(house)
    house.world.behaviour = runs_on
    await create(house)
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    job = min(of(other))
    terms = {number: shard.term for number, shard in enumerate(other.registry.seen().table.shards)}
    before = await other.store.jobs.runtime(job)
    await one.store.begin_shards(Role.JOBMGR.value, {shard_of(job): terms[shard_of(job)] + 1})
    with pytest.raises(Unavailable):
        await other.engine.stop(job, None)
    assert await other.store.jobs.runtime(job) == before
    assert all(not task.done() for task in asyncio.all_tasks() if task.get_name() == "lanes")
    await until(lambda: len(one.shards.open) + len(other.shards.open) == SHARDS, "all are owned again")


class Watched:
    """A watch of one instance, whose messages are kept."""

    def __init__(self, instance: Instance) -> None:
        self.watches = Watches(instance.engine, Workflows(instance.engine).status, SystemClock(), gather=0.01)
        self.watches.share()
        instance.work.followers = (self.watches,)
        self.first = self.owned()
        self.watch = self.watches.open(PodFilter(watch_pb2.PodFilter()), 0)
        self.messages: list[pb.WatchResponse] = []
        self._reading = asyncio.create_task(self._read())
        self._telling = asyncio.create_task(self._tell(instance))

    def owned(self) -> Owned:
        return Owned(terms_of(self.watches.claim or ""), self.watches.generation)

    async def _read(self) -> None:
        async for each in self.watch.items():
            self.messages.append(pb.WatchResponse.FromString(each))

    async def _tell(self, instance: Instance) -> None:
        while True:
            self.watches.saw(instance.registry.seen().table.generation)
            await instance.registry.changed()

    async def close(self) -> None:
        for task in (self._reading, self._telling):
            task.cancel()
        await asyncio.gather(self._reading, self._telling, return_exceptions=True)


async def test_streams_of_owners_tell_all_that_happens_while_one_joins_and_leaves(house: House) -> None:
    """Read one after the other, the later owner's first: what comes late of the earlier one is old."""
    house.world.behaviour = runs_on
    one = await house.add("a")
    watched = {"a": Watched(one)}
    await house.start(one)
    await house.settled((one, SHARDS))
    await create(house)
    other = await house.add("b")
    watched["b"] = Watched(other)
    await house.start(other)
    await house.settled((one, HALF), (other, HALF))
    await until(lambda: running(house) == TASKS * len(JOBS), "all run")
    leaving = asyncio.create_task(other.owner.leave())
    end_all(house)
    await leaving
    await house.settled((one, SHARDS), (other, 0))
    await check(house)
    merge, told = Merge(), dict[str, pod_pb2.PodState.ValueType]()
    for name, each in watched.items():
        merge.joined(name, each.first)
    merge.begin()
    newest = one.registry.seen().table.generation
    await until(lambda: all(each.owned().generation == newest for each in watched.values()), "all is seen")
    await until(lambda: not any(each.watch._queued for each in watched.values()), "all is read")
    for name in ("b", "a"):
        for message in watched[name].messages:
            if message.HasField("shards"):
                merge.owns(name, Owned(terms_of(message.shards), message.generation))
            told.update(
                (pod.pod_name.value, pod.status.state)
                for pod in message.pods
                if merge.tells(name, pod.pod_name.value[:36], pod.pod_name.value)
            )
    for each in watched.values():
        await each.close()
    assert told == {f"{job}-{at}": pod_pb2.POD_STATE_SUCCEEDED for job in JOBS for at in range(TASKS)}
