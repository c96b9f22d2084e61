"""What a job manager may rely on at hostmgr: at its services over gRPC, and at the world of unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import pytest

from hostmgr.services.early_acknowledgements import EarlyAcknowledgements
from hostmgr.services.events import EventStream
from hostmgr.services.holds import HoldService
from hostmgr.services.launches import LaunchOnHosts
from hostmgr.services.reconcile import ReconcileTasks
from jobmgr.clients.hostmgr import HostmgrClient
from jobmgr.clients.trials import TrialsClient
from jobmgr.core.launch_answers import LaunchResult
from jobmgr.core.state.instructions import Launch, Release
from jobmgr.ports.hostmgr import MOST_TRIALS, HeldKill, Hold, Hostmgr, LaunchedTask, StreamBroken
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.jobmgr import INIT_STREAM
from peloton.errors import Conflict, PelotonError, Unavailable
from peloton.membership.interface import Role
from peloton.model.ids import Run, task_id
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.eventstream.eventstream_pb2 import InitStreamRequest
from peloton.private.eventstream.eventstream_pb2_grpc import add_EventStreamServiceServicer_to_server
from peloton.private.hostmgr.holds.holds_pb2_grpc import add_HoldServiceServicer_to_server
from peloton.private.hostmgr.launching.launching_pb2_grpc import add_LaunchServiceServicer_to_server
from peloton.private.hostmgr.passing.passing_pb2_grpc import add_PassingServiceServicer_to_server
from peloton.private.hostmgr.reconcile.reconcile_pb2_grpc import add_ReconcileServiceServicer_to_server
from peloton.rpc.client import LeaderClient
from peloton.rpc.server import service
from tests.contract.ports.leading import claiming, leading
from tests.contract.storage import samples
from tests.unit.hostmgr import served
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.world import World, runs_on

WAIT = 0.05
HOST = "host0"
RUN = Run(JOB, 0, 1)
RUNTIME = TaskRuntime(TaskState.LAUNCHED, TaskState.SUCCEEDED, 1, 1, 1, 1)
TASK = LaunchedTask(RUN, spec(1), RUNTIME, (), (), None)


class Neighbour(Protocol):
    """A hostmgr behind the port."""

    port: Hostmgr

    def claim(self) -> str:
        """Claim a host for a launch; return the id of the claim."""

    def run(self) -> None:
        """Let Mesos report the run as running."""


class InWorld:
    """The hostmgr of the job manager's own tests."""

    def __init__(self) -> None:
        self._world = World(runs_on)
        self.port: Hostmgr = HostmgrClient(self._world)

    def claim(self) -> str:
        return "offer-1"

    def run(self) -> None:
        self._world.status(f"{JOB}-0-1", mesos_pb2.TASK_RUNNING)


class Served:
    """hostmgr's services over gRPC."""

    def __init__(self, made: served.Served, client: LeaderClient) -> None:
        self._made = made
        self._claims: list[str] = []
        self.client = client
        self.port: Hostmgr = HostmgrClient(client)

    def owner(self, shards: str) -> Hostmgr:
        """Return the port as it is for an owner of shards."""
        return self.owner_by(lambda: shards)

    def owner_by(self, shards: Callable[[], str]) -> Hostmgr:
        """Return the port as it is for an owner of shards that change."""
        return HostmgrClient(claiming(self.client, shards))

    def report(self, job_id: str, run: int) -> None:
        """Let Mesos report a run as running."""
        self._made.status(f"{job_id}-0-{run}", mesos_pb2.TASK_RUNNING, b"%d" % run)

    def claim(self) -> str:
        self._made.offer(len(self._claims) + 1)
        self._claims.append(self._made.claim())
        return self._claims[-1]

    def run(self) -> None:
        self._made.status(f"{JOB}-0-1", mesos_pb2.TASK_RUNNING, b"1")

    @property
    def claimed(self) -> bool:
        """Whether the host is claimed."""
        return any(self._made.manager.hosts.claims.get(each) for each in self._claims)

    def launched(self) -> list[str]:
        """Return the runs that Mesos is told to launch."""
        return [
            task.task_id.value
            for call in self._made.driver.calls
            for operation in call.accept.operations
            for task in operation.launch.task_infos
        ]

    def killed(self) -> list[str]:
        """Return the runs that Mesos was told to kill since this was asked last."""
        calls = self._made.driver.calls
        killed = [call.kill.task_id.value for call in calls if call.HasField("kill")]
        calls.clear()
        return killed

    def maintained(self) -> list[str]:
        """Return the runs all of whose kills were for maintenance."""
        return [run for run, maintenance in self._made.manager.runs.killed() if maintenance]


@asynccontextmanager
async def serving(launching: bool = True) -> AsyncIterator[Served]:
    made = served.Served()
    await made.subscribe()
    manager = made.manager
    services = [
        *made.services,
        service(add_EventStreamServiceServicer_to_server, EventStream(manager.status_updates)),
        service(add_PassingServiceServicer_to_server, EarlyAcknowledgements(manager.status_updates)),
        service(add_HoldServiceServicer_to_server, HoldService(manager)),
        service(add_ReconcileServiceServicer_to_server, ReconcileTasks(manager)),
    ]
    if launching:
        services.append(service(add_LaunchServiceServicer_to_server, LaunchOnHosts(manager)))
    async with leading(Role.HOSTMGR, Role.JOBMGR, services) as client:
        try:
            yield Served(made, client)
        finally:
            made.watches.close()


@pytest.fixture(params=["world", "services"])
async def hostmgr(request: pytest.FixtureRequest) -> AsyncIterator[Neighbour]:
    if request.param == "world":
        yield InWorld()
        return
    async with serving() as made:
        yield made


async def test_a_claim_takes_one_launch_which_may_be_repeated(hostmgr: Neighbour) -> None:
    claim = Launch(HOST, "S0", hostmgr.claim(), (RUN,))
    call = hostmgr.port.launch(claim, [TASK])
    assert (await call()).result is LaunchResult.LAUNCHED
    assert (await call()).result is LaunchResult.LAUNCHED
    other = await hostmgr.port.launch(claim, [TASK._replace(run=Run(JOB, 1, 1))])()
    assert other.result is LaunchResult.CLAIM_OVER and other.message


async def test_claims_are_released_also_again(hostmgr: Neighbour) -> None:
    release = Release(HOST, "S0", hostmgr.claim())
    await hostmgr.port.release([release])
    await hostmgr.port.release([release])


async def test_statuses_come_from_the_stream_that_is_open(hostmgr: Neighbour) -> None:
    stream, begin = await hostmgr.port.open_stream()
    assert await hostmgr.port.statuses(stream, begin, begin, 10, WAIT) is None
    hostmgr.run()
    batch = await hostmgr.port.statuses(stream, begin, begin, 10, 10.0)
    assert batch is not None
    [(run, status)] = batch.runs
    assert (run, status.state) == (RUN, TaskState.RUNNING)
    assert (batch.count, batch.first, batch.end, list(batch.offsets)) == (1, begin, begin + 1, [begin])
    again = await hostmgr.port.statuses(stream, begin, begin, 10, 10.0)
    assert again is not None and again.runs == batch.runs, "it is not let go"
    await hostmgr.port.acknowledge(stream, batch.offsets)
    assert await hostmgr.port.statuses(stream, batch.end, batch.end, 10, WAIT) is None
    with pytest.raises(StreamBroken):
        await hostmgr.port.statuses("another", begin, begin, 10, WAIT)


async def test_owners_of_shards_get_their_events_and_let_them_go_alone() -> None:
    mine, theirs = (
        next(job for job in map(samples.job_id, range(99)) if shard_of(job) // (SHARDS // 2) == half)
        for half in (0, 1)
    )
    async with serving() as made:
        one, other = made.owner("5:0-31"), made.owner("5:32-63")
        stream, begin = await one.open_stream()
        assert await other.open_stream() == (stream, begin)
        for run, job in enumerate((mine, theirs, mine)):
            made.report(job, run + 1)
        batch = await one.statuses(stream, begin, begin, 10, 10.0)
        assert batch is not None and [run.run for run, _ in batch.runs] == [1, 3]
        assert (batch.first, batch.end, list(batch.offsets)) == (begin, begin + 3, [begin, begin + 2])
        batch = await other.statuses(stream, begin, begin, 10, 10.0)
        assert batch is not None and [run.run for run, _ in batch.runs] == [2] and batch.end == begin + 3
        assert await one.statuses(stream, begin + 3, begin + 3, 10, WAIT) is None
        assert await one.open_stream() == (stream, begin + 3)
        assert await other.open_stream() == (stream, begin), "it has let nothing go yet"
        made.report(mine, 4)
        batch = await other.statuses(stream, begin + 3, begin + 3, 10, 10.0)
        assert batch is not None and (batch.count, batch.first, batch.end) == (0, begin + 3, begin + 4)
        await made.owner("6:31").open_stream()
        with pytest.raises(Conflict, match="shard 31: term 5 is over"):
            await one.open_stream()


async def test_a_call_is_made_again_where_a_shard_of_its_claim_has_moved_meanwhile() -> None:
    async with serving() as made:
        stream, begin = await made.owner("6:31").open_stream()
        claims = ["5:0-31"]
        port = made.owner_by(lambda: claims.pop(0) if len(claims) > 1 else claims[0])
        with pytest.raises(Conflict, match="shard 31: term 5 is over"):
            await port.open_stream()
        claims[:] = ["5:0-31", "5:0-30"]
        assert await port.open_stream() == (stream, begin)
        claims[:] = [""]
        with pytest.raises(Unavailable, match="owns no shards"):
            await claiming(made.client, lambda: "").call(INIT_STREAM, InitStreamRequest(), timeout=0.05)


async def test_whoever_gets_all_shards_begins_where_any_owner_has_ended() -> None:
    async with serving() as made:
        shard = shard_of(JOB)
        one = made.owner(f"5:{shard}")
        stream, begin = await one.open_stream()
        made.report(JOB, 1)
        assert await one.statuses(stream, begin, begin, 10, 10.0) is not None
        assert await one.statuses(stream, begin + 1, begin + 1, 10, WAIT) is None
        assert await made.owner("6:0-63").open_stream() == (stream, begin)
        batch = await made.owner("6:0-63").statuses(stream, begin, begin, 10, 10.0)
        assert batch is not None and [run for run, _ in batch.runs] == [RUN], "once more"


async def test_a_killed_run_holds_its_host_until_that_is_released(hostmgr: Neighbour) -> None:
    task = spec(1).task(0)
    launched = hostmgr.port.launch(Launch(HOST, "S0", hostmgr.claim(), (RUN,)), [TASK])
    assert (await launched()).result is LaunchResult.LAUNCHED
    assert not await hostmgr.port.kill_and_hold([HeldKill(RUN, HOST, task, task)])
    hold = Hold(task_id(JOB, 0), HOST)
    assert [*await hostmgr.port.holds()] == [hold]
    await hostmgr.port.renew_holds([(hold, task)])
    assert not await hostmgr.port.release_holds([hold.task_id, task_id(JOB, 7)])
    assert not await hostmgr.port.holds()


async def test_unknown_runs_are_killed_shut_down_and_reconciled_without_an_error(hostmgr: Neighbour) -> None:
    assert await hostmgr.port.kill([RUN]) is None
    await hostmgr.port.shut_down([(RUN, "S0")])
    await hostmgr.port.reconcile([(RUN, "S0")])


async def test_kills_for_maintenance_reach_the_cluster_manager_as_such() -> None:
    async with serving() as made:
        runs = Run(JOB, 0, 1), Run(JOB, 1, 1)
        claim = Launch(HOST, "S0", made.claim(), runs)
        answer = await made.port.launch(claim, [TASK._replace(run=run) for run in runs])()
        assert answer.result is LaunchResult.LAUNCHED
        assert await made.port.kill(runs[:1], maintenance=True) is None
        assert made.maintained() == [f"{JOB}-0-1"]
        held = HeldKill(runs[1], HOST, spec(1).task(0), spec(1).task(0), maintenance=True)
        assert not await made.port.kill_and_hold([held])
        assert made.maintained() == [f"{JOB}-0-1", f"{JOB}-1-1"]
        assert await made.port.kill(runs) is None
        assert made.maintained() == [] and len(made.killed()) == 4, "Mesos kills in any case"


async def test_tasks_are_tried_and_not_launched() -> None:
    plain = task_pb2.TaskConfig(
        ports=[task_pb2.PortConfig(name="http")],
        volume=task_pb2.PersistentVolumeConfig(containerPath="data", sizeMB=7),
    )
    templated = task_pb2.TaskConfig(podTemplate="spec: {hostIPC: true}")
    async with serving() as made:
        trials = TrialsClient(made.client)
        first, second = await trials.try_tasks([plain.SerializeToString(), templated.SerializeToString()])
        assert first == "" and second.endswith("is not allowed: Mesos has no pods")
        assert await trials.try_tasks([plain.SerializeToString()] * MOST_TRIALS) == [""] * MOST_TRIALS
        with pytest.raises(PelotonError, match="at most 20"):
            await trials.try_tasks([b""] * (MOST_TRIALS + 1))
        assert not made.launched()


async def test_no_host_drains(hostmgr: Neighbour) -> None:
    assert not await hostmgr.port.draining_runs(0.0)


def one_of_each_half() -> tuple[str, str]:
    """A job of shards 0 to 31, and one of the others."""
    found = [samples.job_id(number) for number in range(99)]
    mine, theirs = (next(job for job in found if shard_of(job) // (SHARDS // 2) == half) for half in (0, 1))
    return mine, theirs


@pytest.mark.parametrize("older", [False, True])
async def test_a_launch_of_a_job_that_is_not_the_callers_does_not_happen(older: bool) -> None:
    """Its shard has moved while the launch was on its way. What hosts of its own have is launched."""
    mine, theirs = one_of_each_half()
    async with serving(launching=not older) as made:
        port = made.owner("5:0-31")
        other = Launch(HOST, "S0", made.claim(), (Run(mine, 0, 1), Run(theirs, 0, 1)))
        call = port.launch(other, [TASK._replace(run=run) for run in other.runs])
        if older:
            with pytest.raises(Conflict, match=f"job {theirs} is not the caller's"):
                await call()
            assert made.claimed, "nothing has happened"
            return
        answer = await call()
        assert answer.result is LaunchResult.CLAIM_OVER
        assert (
            f"job {theirs} is not the caller's: it does not name shard {shard_of(theirs)}" == answer.message
        )
        assert not made.launched() and not made.claimed, "the host is free for others"
        claim = Launch(HOST, "S0", made.claim(), (Run(mine, 0, 1),))
        answer = await port.launch(claim, [TASK._replace(run=Run(mine, 0, 1))])()
        assert answer.result is LaunchResult.LAUNCHED and made.launched() == [f"{mine}-0-1"]


async def test_kills_and_holds_of_jobs_that_are_not_the_callers_are_left_out() -> None:
    mine, theirs = one_of_each_half()
    runs = [Run(mine, 0, 1), Run(theirs, 0, 1)]
    async with serving() as made:
        made.claim()
        port = made.owner("5:0-31")
        failed = await port.kill(runs)
        assert failed is not None and failed.runs == 1 and f"job {theirs}" in failed.message
        assert made.killed() == [f"{mine}-0-1"]
        failure = await port.kill_and_hold(
            [HeldKill(run, HOST, spec(1).task(0), spec(1).task(0)) for run in runs]
        )
        assert f"job {theirs}" in failure and made.killed() == [f"{mine}-0-1"]
        assert [hold.task_id for hold in await port.holds()] == [task_id(mine, 0)]
        owner = made.owner("5:32-63")
        assert f"job {mine}" in await owner.release_holds([task_id(mine, 0)])
        await owner.renew_holds([(Hold(task_id(mine, 0), HOST), spec(1).task(0))])
        assert [hold.task_id for hold in await port.holds()] == [task_id(mine, 0)]
        assert not await port.release_holds([task_id(mine, 0)])
        assert await made.port.kill(runs) is None, "who names no shards has all"
        assert await made.owner("5:0-63").kill(runs) is None
        assert len(made.killed()) == 4
