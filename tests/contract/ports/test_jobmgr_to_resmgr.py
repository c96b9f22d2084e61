"""What a job manager may rely on at resmgr: at its services over gRPC, and at the world of unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from jobmgr.clients.resmgr import ResmgrClient
from jobmgr.core.state.events import Span
from jobmgr.core.state.instructions import Compare
from jobmgr.ports.resmgr import Resmgr, WaitingTask
from peloton.membership.interface import Role
from peloton.model.ids import JobId, MesosTaskId, Run, parse_mesos_task_id, task_id
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.resmgr.holding.holding_pb2_grpc import add_HoldingServiceServicer_to_server
from peloton.private.resmgr.preemption.preemption_pb2_grpc import add_PreemptionServiceServicer_to_server
from peloton.private.resmgr.queueing.queueing_pb2_grpc import add_QueueServiceServicer_to_server
from peloton.private.resmgr.waiting.waiting_pb2_grpc import add_WaitingServiceServicer_to_server
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import add_ResourceManagerServiceServicer_to_server
from peloton.rpc.client import LeaderClient
from peloton.rpc.server import service
from resmgr.services.holding import HoldingService
from resmgr.services.preemption import PreemptionService
from resmgr.services.queueing import QueueService
from storage.selection.factory import open_store
from tests.contract.ports.leading import claiming, leading
from tests.contract.storage import samples
from tests.unit.jobmgr_core.specs import JOB, POOL, spec
from tests.unit.jobmgr_core.world import World
from tests.unit.resmgr.shell import Shell, settings
from tests.unit.resmgr.test_preemption_service import crowded

WAIT = 0.05
NEW = TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 1, 1, 1, 1)


class Neighbour(Protocol):
    """A resmgr behind the port."""

    port: Resmgr
    pool: str

    async def place(self) -> None:
        """Let an engine place what is enqueued."""

    async def preempt(self) -> None:
        """Let a run be preempted."""


class InWorld:
    """The resmgr of the job manager's own tests."""

    def __init__(self) -> None:
        self._world = World()
        self.port: Resmgr = ResmgrClient(self._world)
        self.pool = POOL

    async def place(self) -> None:
        """It places by itself."""

    async def preempt(self) -> None:
        self._world.preempted = [f"{JOB}-0-1"]


class Served:
    """resmgr's services over gRPC."""

    def __init__(self, shell: Shell, port: Resmgr, pool: str, client: LeaderClient) -> None:
        self._shell = shell
        self.client = client
        self.port = port
        self.pool = pool

    async def place(self) -> None:
        while self._shell.driver.cycle():
            pass
        await self._shell.place(*await self._shell.dequeue())

    async def place_apart(self) -> dict[str, list[JobId]]:
        """Let an engine place each gang on a host of its own; return the jobs by their owners."""
        while self._shell.driver.cycle():
            pass
        gangs = await self._shell.dequeue()
        for number, gang in enumerate(gangs):
            await self._shell.place(gang, host=f"h{number}")
        return {gang.owner: [task.jobId.value for task in gang.tasks] for gang in gangs}

    async def preempt(self) -> None:
        await crowded(self._shell)
        assert await self._shell.driver.preempt()

    def owner(self, name: str, shards: str) -> Resmgr:
        """Return the port as it is for an owner of shards."""
        return ResmgrClient(claiming(self.client, lambda: shards, f"jobmgr/{name}"))


@asynccontextmanager
async def serving(path: Path, alike: bool = False) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        store = await open_store(settings(path / "peloton.db").storage)
        stack.push_async_callback(store.close)
        shell = Shell(store)
        driver = shell.driver
        services = [
            service(add_ResourceManagerServiceServicer_to_server, shell.tasks),
            service(add_HoldingServiceServicer_to_server, HoldingService(driver)),
            service(add_PreemptionServiceServicer_to_server, PreemptionService(driver)),
            service(add_WaitingServiceServicer_to_server, shell.waiting),
        ]
        if alike:
            services.append(service(add_QueueServiceServicer_to_server, QueueService(driver)))
        client = await stack.enter_async_context(leading(Role.RESMGR, Role.JOBMGR, services))
        yield Served(shell, ResmgrClient(client), await shell.pool("other", reservation=30), client)


@pytest.fixture(params=["world", "services"])
async def resmgr(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Neighbour]:
    if request.param == "world":
        yield InWorld()
        return
    async with serving(tmp_path) as served:
        yield served


def waiting(instance: int, run: int = 1) -> list[WaitingTask]:
    """A gang of one."""
    return [WaitingTask(JOB, spec(10), instance, replace(NEW, run=run, desired_run=run))]


def compare(first: int, end: int, run: int = 1) -> list[Compare]:
    return [Compare(JOB, (Span(first, end, run),))]


async def test_gangs_are_taken_also_again(resmgr: Neighbour) -> None:
    gangs = [waiting(0), waiting(1), [*waiting(2), *waiting(3)]]
    assert not await resmgr.port.enqueue(resmgr.pool, gangs)
    assert not await resmgr.port.enqueue(resmgr.pool, gangs)
    assert not await resmgr.port.missing(compare(0, 4))


async def test_runs_that_are_not_held_are_missing(resmgr: Neighbour) -> None:
    assert not await resmgr.port.enqueue(resmgr.pool, [waiting(1)])
    assert dict(await resmgr.port.missing(compare(0, 3))) == {JOB: [(0, 1), (2, 1)]}
    assert dict(await resmgr.port.missing(compare(1, 2, run=2))) == {JOB: [(1, 2)]}, "a later run"


async def test_withdrawn_tasks_are_missing(resmgr: Neighbour) -> None:
    assert not await resmgr.port.enqueue(resmgr.pool, [waiting(0), waiting(1)])
    assert not await resmgr.port.withdraw([Run(JOB, 0, 1), Run(JOB, 7, 1)])
    assert dict(await resmgr.port.missing(compare(0, 2))) == {JOB: [(0, 1)]}


async def test_a_withdrawal_that_comes_late_or_again_leaves_a_newer_run(resmgr: Neighbour) -> None:
    assert not await resmgr.port.enqueue(resmgr.pool, [waiting(0, run=2), waiting(1, run=2)])
    for _ in range(2):
        assert not await resmgr.port.withdraw([Run(JOB, 0, 1), Run(JOB, 1, 2)])
        assert dict(await resmgr.port.missing(compare(0, 2, run=2))) == {JOB: [(1, 2)]}


async def test_a_placement_is_handed_over_once(resmgr: Neighbour) -> None:
    assert not await resmgr.port.placements(10, WAIT)
    assert not await resmgr.port.enqueue(resmgr.pool, [waiting(0), waiting(1)])
    await resmgr.place()
    [placement] = await resmgr.port.placements(10, 10.0)
    assert set(placement.runs) == {Run(JOB, 0, 1), Run(JOB, 1, 1)}
    assert placement.hostname and placement.agent_id and placement.offer_id
    assert not await resmgr.port.placements(10, WAIT)
    await resmgr.port.settle([(run, TaskState.RUNNING) for run in placement.runs])


async def test_a_run_that_is_handed_over_and_not_launched_is_placed_anew(resmgr: Neighbour) -> None:
    assert not await resmgr.port.enqueue(resmgr.pool, [waiting(0)])
    await resmgr.place()
    [placement] = await resmgr.port.placements(10, 10.0)
    await resmgr.port.settle([(run, TaskState.READY) for run in placement.runs])
    await resmgr.place()
    [again] = await resmgr.port.placements(10, 10.0)
    assert again.runs == placement.runs


async def test_a_preempted_run_is_handed_out_once_and_has_a_reason(resmgr: Neighbour) -> None:
    assert not await resmgr.port.preempted(10, WAIT)
    await resmgr.preempt()
    runs: list[MesosTaskId] = [*await resmgr.port.preempted(10, 10.0)]
    assert len(runs) == 1
    assert not await resmgr.port.preempted(10, WAIT)
    reasons = await resmgr.port.preemption_reasons(runs)
    assert list(reasons) == runs and "/a" in reasons[runs[0]]
    await resmgr.port.keep([parse_mesos_task_id(runs[0])])


async def test_a_stream_of_reasons_is_answered_at_once_where_it_is_another(resmgr: Neighbour) -> None:
    first = await resmgr.port.reasons("", 0, 60.0)
    assert first.leader and first.stream and not first.deltas
    other = await resmgr.port.reasons("another", 5, 60.0)
    assert other.leader == first.leader and other.stream
    same = await resmgr.port.reasons(other.stream, other.last, WAIT)
    assert (same.stream, same.last, list(same.deltas)) == (other.stream, other.last, [])


@pytest.mark.parametrize("alike", [False, True])
async def test_what_concerns_jobs_that_are_not_the_callers_is_left_out(alike: bool, tmp_path: Path) -> None:
    """Their shards have moved while the call was on its way. The others of the call go on."""
    async with serving(tmp_path, alike) as made:
        one, other = made.owner("a", "5:0-31"), made.owner("b", "6:32-63")
        found = [samples.job_id(number) for number in range(99)]
        mine, theirs = (
            next(job for job in found if shard_of(job) // (SHARDS // 2) == half) for half in (0, 1)
        )
        gangs = [[waiting(0)[0]._replace(job_id=job)] for job in (theirs, mine)]
        refused = await one.enqueue(made.pool, gangs)
        why = f"job {theirs} is not the caller's: it does not name shard {shard_of(theirs)}"
        assert dict(refused) == {0: why}
        asked = [Compare(job, (Span(0, 1, 1),)) for job in (mine, theirs)]
        assert dict(await one.missing(asked)) == {theirs: [(0, 1)]}
        assert not await other.enqueue(made.pool, [gangs[0]])
        kept = await one.withdraw([Run(mine, 0, 1), Run(theirs, 0, 1)])
        assert dict(kept) == {task_id(theirs, 0): why}
        assert dict(await one.missing(asked)) == {mine: [(0, 1)]}
        await one.settle([(Run(theirs, 0, 1), TaskState.SUCCEEDED)])
        assert dict(await one.missing(asked)) == {mine: [(0, 1)]}, "its owner reports its states"
        await other.settle([(Run(theirs, 0, 1), TaskState.SUCCEEDED)])
        assert dict(await one.missing(asked)) == {mine: [(0, 1)], theirs: [(0, 1)]}
        assert not await made.port.enqueue(made.pool, gangs), "who names no shards has all"
        assert not await made.owner("c", "7:0-63").enqueue(made.pool, gangs)


async def test_owners_of_shards_get_what_is_of_their_jobs(tmp_path: Path) -> None:
    """Placements, reasons and preemptions; engines are told whose the gangs are."""
    async with serving(tmp_path) as made:
        one, other = made.owner("a", "5:0-31"), made.owner("b", "6:32-63")
        found = [samples.job_id(number) for number in range(99)]
        jobs = {
            each: next(job for job in found if shard_of(job) // (SHARDS // 2) == half)
            for half, each in enumerate(("a", "b"))
        }
        for name, port in (("a", one), ("b", other)):
            assert not await port.enqueue(made.pool, [[waiting(0)[0]._replace(job_id=jobs[name])]])
        given = await made.place_apart()
        assert given == {"jobmgr/a": [jobs["a"]], "jobmgr/b": [jobs["b"]]}
        [placement] = await other.placements(10, 10.0)
        assert placement.runs == (Run(jobs["b"], 0, 1),)
        assert not await other.placements(10, WAIT)
        [placement] = await one.placements(10, 10.0)
        assert placement.runs == (Run(jobs["a"], 0, 1),)
