"""Instances that share the jobs of one store: engines, each with the owner of its shards, over one world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import grpc

from jobmgr.clients.hostmgr import HostmgrClient
from jobmgr.clients.resmgr import ResmgrClient
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import HeldShards, Opened
from jobmgr.engine.shard_work import EngineShards
from jobmgr.services.private.elsewhere import OtherOwners
from jobmgr.services.private.sharing import SharingService
from peloton.calls.rpc import Rpc
from peloton.clock import Clock, SystemClock
from peloton.daemon.shard_owner import ShardOwner
from peloton.errors import PelotonError, Unavailable
from peloton.leaders import Failure
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local_shards import LocalShards
from peloton.model.ids import JobId, parse_mesos_task_id, parse_task_id
from peloton.model.shard import SHARDS, shard_of
from peloton.private.eventstream import eventstream_pb2
from peloton.rpc.peers import Owner, PassedFailure, Peers
from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_core.steps import FAST
from tests.unit.jobmgr_core.world import Behaviour, Running, World, _holds, runs_well
from tests.waiting import until

PATIENCE_SECONDS = 20.0
"""How long the launch of a host waits for lanes."""


def job_in(shard: int, which: int = 0) -> JobId:
    """A job of a shard, another one for each `which`."""
    found = 0
    for number in range(100_000):
        job_id = f"0f3f5c2a-0000-4000-8000-{number:012}"
        if shard_of(job_id) == shard:
            if found == which:
                return job_id
            found += 1
    raise AssertionError(f"no job of shard {shard} is found")


class SharedWorld(World):
    """A world whose callers read by shards, as hostmgr's ring and resmgr's queues let them."""

    def __init__(self, behaviour: Behaviour = runs_well) -> None:
        super().__init__(behaviour)
        self.stored = [0] * SHARDS
        """Of each shard, the offset before which its owner has stored all events."""
        self.killed: list[str] = []
        """Runs that were alive when they were killed."""

    def reader(self, opened: Opened) -> Reader:
        """What a source of these shards reads from."""
        return Reader(self, opened)

    def _kill(self, request: Any) -> Any:
        self.killed += [task.value for task in request.taskIds if task.value in self.alive]
        return super()._kill(request)

    async def placements(self, request: Any, shards: Callable[[], set[int]]) -> Any:
        """Hand out the placements of tasks of some shards."""

        def mine() -> dict[str, Any]:
            return {each: task for each, task in self.queued.items() if _shard(each) in shards()}

        await _holds(lambda: bool(mine()) and not self.hold, request.timeout)
        taken = mine()
        others = {each: task for each, task in self.queued.items() if each not in taken}
        request.timeout = 0
        self.queued = taken
        answer = await self.GetPlacements(request)
        if not self.hold:
            self.queued = others
        else:
            self.queued = others | taken
        return answer

    async def preemptible(self, request: Any, shards: Callable[[], set[int]]) -> Any:
        """Hand out the runs of some shards that are to give way."""

        def mine() -> list[str]:
            return [run for run in self.preempted if _shard_of_run(run) in shards()]

        await _holds(lambda: bool(mine()), request.timeout)
        taken = mine()
        others = [run for run in self.preempted if run not in taken]
        request.timeout, self.preempted = 0, taken
        answer = await self.GetPreemptibleTasks(request)
        self.preempted = others
        return answer

    async def read_events(self, request: Any, shards: Callable[[], set[int]]) -> Any:
        """Return events of some shards, and let go of what their owner has stored."""
        for shard in shards():
            self.stored[shard] = max(self.stored[shard], request.purgeOffset)
        self._purge(min(self.stored))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeoutMs / 1000
        while len(self.events) <= request.beginOffset and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        read = self.events[request.beginOffset :][: request.limit]
        answer = eventstream_pb2.WaitForEventsResponse(nextOffset=request.beginOffset + len(read))
        answer.events.extend(
            each for each in read if _shard_of_run(each.mesosTaskStatus.task_id.value) in shards()
        )
        return answer


class Reader:
    """Calls the world to read what happens to the tasks of some shards."""

    def __init__(self, world: SharedWorld, opened: Opened) -> None:
        self._world = world
        self._opened = opened

    def _shards(self) -> set[int]:
        return set(self._opened.shards)

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        await asyncio.sleep(0)
        if not self._shards():
            raise Unavailable("no shards are open")  # the world would take the caller for one that has all
        match rpc.name:
            case "GetPlacements":
                return await self._world.placements(request, self._shards)
            case "GetPreemptibleTasks":
                return await self._world.preemptible(request, self._shards)
            case "InitStream":
                first = min(self._world.stored[shard] for shard in self._shards())
                return eventstream_pb2.InitStreamResponse(
                    streamID=self._world.stream, minOffset=first, previousPurgeOffset=first
                )
            case "WaitForEvents":
                return await self._world.read_events(request, self._shards)
        return await self._world.call(rpc, request, timeout, retry, waits)


class Instance:
    """A job manager that owns shards, as far as its engine goes."""

    def __init__(self, house: House, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.registry = LocalShards(house.folder / "shards")
        self.shards = HeldShards(whole=False)
        self.engine = Engine(
            store, house.clock, limits=FAST, lanes=house.lanes, fence=self._fence, shards=self.shards
        )
        self.engine.elsewhere = OtherOwners(cast(Peers, Neighbours(house, self)), (), self._term)
        # Else a lane that stores slowly, on a machine with other work, has its runs refused and made anew.
        self.engine.lanes._launches._patience = PATIENCE_SECONDS
        self.work = EngineShards(self.engine, lambda error: self.owner.give_up(error))
        member = Member(Role.JOBMGR, name, Address("here", "127.0.0.1", 1, 2))
        self.owner = ShardOwner(self.registry, member, self.work, SystemClock(), lambda: self._leads)
        self._leads: int | None = None
        self._owning: asyncio.Task[Any] | None = None
        self._stack = AsyncExitStack()

    def _fence(self, job_id: JobId) -> None:
        self.owner.fence(shard_of(job_id))

    def _term(self, shard: int) -> int:
        return self.owner.fence(shard)

    async def start(self, world: SharedWorld, leads: int | None) -> None:
        """Run the engine, and own what is assigned; the leader of a term assigns."""
        self._leads = leads
        await self.registry.start(SHARDS)
        await self._stack.enter_async_context(Sharing(self.engine, world))
        self._owning = asyncio.create_task(self.owner.run())

    async def lose(self) -> None:
        """Lose all shards at once, as where the session is over."""
        if self._owning is not None:
            self._owning.cancel()
            await asyncio.gather(self._owning, return_exceptions=True)

    async def close(self) -> None:
        """End everything."""
        await self.lose()
        await self._stack.aclose()
        await self.registry.close()
        await self.store.close()

    def active(self) -> set[JobId]:
        """The active jobs that it knows."""
        return set(self.engine.active_jobs())


class Neighbours:
    """The other instances, called without a network: `peloton.rpc.peers.Peers`, as far as it is asked."""

    def __init__(self, house: House, own: Instance) -> None:
        self._house = house
        self._own = own

    def owner(self, shard: int) -> Owner | None:
        session = self._own.registry.seen().table.shards[shard].owner
        return None if not session or session == self._own.owner.session else Owner(session, session)

    async def call(self, owner: Owner, path: str, request: Any, answer: type[Any], *more: Any) -> Any:
        found = [each for each in self._house.instances if each.owner.session == owner.session]
        if not found:
            raise PassedFailure(Failure.GONE, grpc.StatusCode.UNAVAILABLE, "it is gone", ())
        service = SharingService(found[0].engine, found[0].registry.seen, True)
        try:
            return await getattr(service, path.rpartition("/")[2])(request, None)
        except PelotonError as error:
            raise PassedFailure(Failure.GONE, grpc.StatusCode.UNAVAILABLE, str(error), ()) from None


class Sharing(Running):
    """An engine with its drivers, which read by shards."""

    def __init__(self, engine: Engine, world: SharedWorld) -> None:
        super().__init__(
            engine,
            world,
            resmgr_sources=lambda opened: ResmgrClient(world.reader(opened)),
            hostmgr_sources=lambda cluster, opened: HostmgrClient(world.reader(opened)),
        )


class House:
    """Instances over one store, one registry and one world."""

    def __init__(
        self, folder: Path, behaviour: Behaviour = runs_well, lanes: int = 1, clock: Clock | None = None
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.lanes = lanes
        self.world = SharedWorld(behaviour)
        self.instances: list[Instance] = []

    async def instance(self, name: str) -> Instance:
        """Add an instance that owns shards. The first one leads, and so assigns."""
        made = await self.add(name)
        await self.start(made)
        return made

    async def add(self, name: str) -> Instance:
        """Add an instance that is to be started."""
        made = Instance(self, name, await open_sqlite(SqliteSettings(path=self.folder / "store.db")))
        self.instances.append(made)
        return made

    async def start(self, instance: Instance) -> None:
        """Let an instance own shards. The first one leads."""
        leads = 1 if instance is self.instances[0] else None
        if leads:
            await instance.store.begin_term(Role.JOBMGR.value, leads)
        await instance.start(self.world, leads)

    async def settled(self, *shares: tuple[Instance, int]) -> None:
        """Wait until instances have these numbers of shards open, in all 64."""
        assert sum(number for _, number in shares) == SHARDS
        await until(
            lambda: all(len(each.shards.open) == number for each, number in shares),
            f"shares are {[number for _, number in shares]}",
            30.0,
        )

    def owner(self, shard: int) -> Instance:
        """Return the instance in which a shard is open."""
        (found,) = [each for each in self.instances if shard in each.shards.open]
        return found

    async def ended(self, jobs: Sequence[JobId]) -> None:
        """Wait until no instance has any of these jobs for active, nor the store."""
        await until(
            lambda: not any(each.active() & set(jobs) for each in self.instances), "the jobs have ended", 30.0
        )

    async def kill(self, instance: Instance) -> None:
        """End an instance: its calls that are under way have no effect."""
        self.instances.remove(instance)
        await instance.close()

    async def close(self) -> None:
        """End all instances."""
        for each in self.instances:
            await each.close()


def _shard(task: str) -> int:
    return shard_of(parse_task_id(task)[0])


def _shard_of_run(run: str) -> int:
    return shard_of(parse_mesos_task_id(run).job_id)
