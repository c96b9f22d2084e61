"""Launches that go wrong."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from jobmgr.core.launch_answers import MAX_CALL_FAILURES, LaunchAnswer, LaunchResult
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.drivers import launch, secret_files
from jobmgr.drivers.launch import Launcher
from jobmgr.drivers.secret_files import SecretFiles
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.engine.engine import Engine
from jobmgr.engine.outbox import Queue
from jobmgr.engine.task_access import TOKEN, TaskAccess
from jobmgr.ports.hostmgr import LaunchCall, LaunchedTask, Launches
from mesos.v1 import mesos_pb2
from peloton.backoff import Backoff
from peloton.clock import NANOSECONDS
from peloton.config.errors import ConfigError
from peloton.errors import NotFound, PelotonError, Refused, RemoteFailure, Unavailable
from peloton.identity.task_tokens import TaskClaim, TaskKeys
from peloton.model.ids import JobId, Run
from peloton.model.job import JobSpec
from peloton.model.payload import SecretBytes, SecretRef
from peloton.model.pool import PoolConfig
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.wire.job import config_payload, job_spec
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, config, spec
from tests.unit.jobmgr_core.steps import ended, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

OTHER = "0f3f5c2a-0000-4000-8000-000000000002"


async def test_a_launch_without_a_valid_claim_is_retried_as_the_next_run(store: Store) -> None:
    world = World()
    world.failures["LaunchTasks"] = deque([Refused("invalid offers")])
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await ended(running.engine)
        task = (await running.engine.load(JOB)).tasks[0]
        await until(lambda: len(world.called("UpdateTasksState")) > 1, "resmgr has the states")
    assert world.launched == [f"{JOB}-0-2"]
    assert task.failure_count == 0
    reported = [each for request in world.called("UpdateTasksState") for each in request.taskStates]
    assert (f"{JOB}-0-1", TaskState.LOST) in {(each.mesosTaskId.value, each.state) for each in reported}


async def test_a_launch_with_unknown_outcome_is_reconciled(store: Store) -> None:
    world = World()
    world.failures["LaunchTasks"] = deque([Unavailable("gone"), Refused("invalid offers")])
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await ended(running.engine)
        task = (await running.engine.load(JOB)).tasks[0]
    assert world.launched == [f"{JOB}-0-2"]
    assert (task.state, task.failure_count) == (TaskState.SUCCEEDED, 0)
    (request,) = world.called("ReconcileTasks")
    assert request.runs[0].mesos_task_id == f"{JOB}-0-1"
    assert request.runs[0].agent_id


async def test_a_launch_is_repeated_with_the_same_claim(store: Store) -> None:
    world = World()
    world.failures["LaunchTasks"] = deque([Unavailable("gone"), Unavailable("gone")])
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2))
        await ended(running.engine)
    assert len({request.id.value for request in world.called("LaunchTasks")}) == 1
    assert len(world.launched) == 2


async def test_a_stopping_leader_finishes_its_launches_and_takes_no_more(store: Store) -> None:
    world = World()
    world.launches.clear()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(400))
        await reach(running.engine, TaskState.LAUNCHED, 400)
        await until(lambda: world.called("LaunchTasks"), "a launch is under way")
        called = len(world.called("LaunchTasks"))
        finishing = asyncio.ensure_future(running.finish())
        await running.engine.create_job(OTHER, spec(4))
        other = running.engine.job(OTHER)
        assert other is not None
        await until(lambda: other.counts == {TaskState.PENDING: 4} and not world.queued, "more is placed")
        assert not finishing.done()
        world.launches.set()
        await asyncio.wait_for(finishing, 60)
        assert len(world.called("LaunchTasks")) == 100 > called
    assert len(world.launched) == 400
    stored = [task.state async for page in store.tasks.list(OTHER) for task in page.values()]
    assert stored == [TaskState.PENDING] * 4


async def test_an_unanswered_launch_delays_a_stopping_leader_for_a_bounded_time(store: Store) -> None:
    world = World()
    world.failures["LaunchTasks"] = deque([Unavailable("gone")] * 10_000)
    async with Running(Engine(store), world, finish_within=0.2) as running:
        await running.engine.create_job(JOB, spec(1))
        await until(lambda: world.called("LaunchTasks"), "a launch is under way")
        await asyncio.wait_for(running.finish(), 60)
        assert running.engine.job(JOB) is not None


async def test_all_tasks_of_a_revocable_job_are_launched_as_revocable(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2, preemptible=True, revocable=True))
        await ended(running.engine)
    tasks = [task for request in world.called("LaunchTasks") for task in request.tasks]
    assert [task.config.revocable for task in tasks] == [True, True]


async def test_ports_are_assigned_by_name(store: Store) -> None:
    wire = config(2)
    wire.defaultConfig.ports.add(name="http", envName="HTTP")
    wire.defaultConfig.ports.add(name="fixed", value=80)
    wire.defaultConfig.ports.add(name="admin", envName="ADMIN")
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, job_spec(wire, 1))
        await reach(running.engine, TaskState.RUNNING, 2)
        job = running.engine.job(JOB)
        assert job is not None
        ports = [dict(task.ports) for task in job.tasks]
    assert ports == [{"http": 31000, "fixed": 80, "admin": 31001}] * 2
    (launch,) = world.called("LaunchTasks")
    assert dict(launch.tasks[0].ports) == {"http": 31000, "admin": 31001}


async def test_a_placement_without_waiting_runs_is_released(store: Store) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await reach(running.engine, TaskState.PENDING, 1)
        held = dict(world.queued)
        await running.engine.stop(JOB, None)
        await ended(running.engine)
        world.queued, world.hold = held, False
        await until(lambda: world.released, "the claim is released")
    assert not world.launched


async def no_pools() -> tuple[PoolConfig, ...]:
    return ()


class NoSecrets:
    async def read(self, job_id: JobId, key: str) -> bytes:
        raise NotFound(key)

    async def keys(self, pool_id: str) -> Sequence[str]:
        return ()

    async def put(self, pool_id: str, contents: SecretBytes) -> None:
        raise AssertionError(pool_id)

    async def drop(self, pool_id: str, keys: Sequence[str]) -> None:
        raise AssertionError(pool_id)


class OneLaunch(Launcher):
    """Of one run."""

    def __init__(self, hostmgr: Launches, holds: bool = True) -> None:
        self._outcome: asyncio.Future[ev.Event] = asyncio.get_running_loop().create_future()
        self.released: Queue[ins.Release] = Queue()
        super().__init__(
            hostmgr,
            lambda job_id: None,
            self._outcome.set_result,
            self.released,
            SystemLabels(no_pools),
            NoSecrets(),
            holds=lambda job_id: holds,
        )

    def _task(self, run: Run, secrets: SecretFiles) -> LaunchedTask:
        runtime = TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 1, 1, 1, 1)
        return LaunchedTask(run, spec(1), runtime, (), (), None)

    async def outcome(self) -> ev.Event:
        queue: Queue[ins.Launch] = Queue()
        queue.put([ins.Launch("host", "agent", "offer", (Run(JOB, 0, 1),))])
        working = asyncio.create_task(self.launch(queue))
        try:
            return await self._outcome
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


class Away:
    """A hostmgr that fails so often; between two calls seven minutes pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, failure: PelotonError) -> None:
        self.calls = 0
        self._times = times
        self._failure = failure
        loop = asyncio.get_running_loop()
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + 420 * self.calls)
        monkeypatch.setattr(launch, "backoff", lambda: Backoff(0.001, 0.001))

    def launch(self, claim: ins.Launch, tasks: Sequence[LaunchedTask]) -> LaunchCall:
        assert [task.run for task in tasks] == [Run(JOB, 0, 1)]
        return self._call

    async def _call(self) -> LaunchAnswer:
        self.calls += 1
        if self.calls <= self._times:
            raise self._failure
        return LaunchAnswer(LaunchResult.LAUNCHED)

    async def release(self, claims: Sequence[ins.Release]) -> None:
        raise AssertionError(claims)


async def test_a_launch_is_retried_as_long_as_a_claim_may_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """hostmgr's settings say how long, and hostmgr when it is over."""
    hostmgr = Away(monkeypatch, 20, Unavailable("not subscribed with the Mesos master"))
    assert await OneLaunch(hostmgr).outcome() == ev.Launched((Run(JOB, 0, 1),))
    assert hostmgr.calls == 21


async def test_a_launch_that_hostmgr_fails_repeatedly_is_reconciled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostmgr = Away(monkeypatch, 1000, RemoteFailure("hostmgr LaunchTasks: INTERNAL"))
    assert await OneLaunch(hostmgr).outcome() == ev.LaunchUncertain((Run(JOB, 0, 1),))
    assert hostmgr.calls == MAX_CALL_FAILURES


async def test_the_claim_of_a_launch_that_is_given_up_with_its_shard_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """hostmgr may never have got the call, and would keep the host claimed for minutes."""
    hostmgr = Away(monkeypatch, 1000, Unavailable("this instance owns no shards now"))
    given_up = OneLaunch(hostmgr, holds=False)
    assert await given_up.outcome() == ev.LaunchUncertain((Run(JOB, 0, 1),))
    assert hostmgr.calls == 1
    assert await given_up.released.take(1) == [ins.Release("host", "agent", "offer")]


def with_secret(of: JobSpec) -> JobSpec:
    ref = SecretRef("an id", "/etc/key", "a key")
    return job_spec(config(of.instance_count), 1, replace(of.payload, secrets=(ref,)))


async def test_a_run_is_launched_with_its_secret(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, with_secret(spec(2)), {"a key": b"hidden"})
        await ended(running.engine)
    sent = [task for request in world.called("LaunchTasks") for task in request.tasks]
    assert len(sent) == 2
    for task in sent:
        (volume,) = task.config.container.volumes
        assert (volume.container_path, volume.source.secret.value.data) == ("/etc/key", b"hidden")
    stored = await store.jobs.config(JOB, 1)
    assert b"hidden" not in stored.payload.data


async def test_a_run_that_asks_for_it_is_launched_with_a_token(store: Store, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"the authorities")
    keys = TaskKeys([b"k" * 32])
    files = {"PELOTON_CA_FILE": tmp_path / "ca.pem", "PELOTON_KEY_FILE": None}
    access = TaskAccess(lambda: "one:1,two:2", lambda: 5 * NANOSECONDS, keys, 60, files=files)
    world, given = World(), config(2)
    given.instanceConfig[1].workload.token = True
    async with Running(Engine(store), world, access=access) as running:
        await running.engine.create_job(JOB, job_spec(given, 1, config_payload(given)))
        await ended(running.engine)
    sent = [task for request in world.called("LaunchTasks") for task in request.tasks]
    [without] = [task.config for task in sent if task.id.value == f"{JOB}-0"]
    assert not without.HasField("container")
    assert not {each.name for each in without.command.environment.variables} & {"JOBMGR_URL", TOKEN}
    [own] = [task.config for task in sent if task.id.value == f"{JOB}-1"]
    held = {each.container_path: each.source.secret.value.data for each in own.container.volumes}
    token = held.pop(".peloton/token").decode()
    assert keys.read(token) == TaskClaim(Run(JOB, 1, 1), 65)
    assert held == {".peloton/ca.pem": b"the authorities"}
    assert own.container.type == mesos_pb2.ContainerInfo.MESOS
    assert {each.name: each.value for each in own.command.environment.variables} == {
        "JOBMGR_URL": "one:1,two:2",
        "PELOTON_CA_FILE": ".peloton/ca.pem",
        "PELOTON_TOKEN_FILE": ".peloton/token",
    }


async def test_without_keys_a_run_gets_addresses(store: Store) -> None:
    access = TaskAccess(lambda: "one:1", lambda: 0)
    assert access.of(Run(JOB, 0, 1)).files == [] and access.enough
    assert list(access.of(Run(JOB, 0, 1)).environment) == [("JOBMGR_URL", "one:1")]
    assert not TaskAccess(lambda: "one:1", lambda: 0, asks=True).enough
    with pytest.raises(Refused, match="gives no tokens"):
        access.token(Run(JOB, 0, 1))


def test_files_for_tasks_are_read_again_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match="task_access"):
        TaskAccess(str, lambda: 0, files={"PELOTON_CA_FILE": file})
    file.write_bytes(b"one")
    access = TaskAccess(str, lambda: 0, files={"PELOTON_CA_FILE": file})
    file.write_bytes(b"another")
    assert access.of(Run(JOB, 0, 1)).files == [(".peloton/ca.pem", b"another")]
    file.unlink()
    assert access.of(Run(JOB, 0, 1)).files == [(".peloton/ca.pem", b"another")]


@pytest.mark.parametrize("others", [False, True])
async def test_a_run_without_its_secret_is_killed(store: Store, others: bool) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, with_secret(spec(1)))
        if others:
            await running.engine.create_job(OTHER, spec(1))
            await ended(running.engine, OTHER)
        await ended(running.engine)
        job = await running.engine.load(JOB)
        await until(lambda: others or world.released, "the claim is released")
        await until(
            lambda: any(
                (each.mesosTaskId.value, each.state) == (f"{JOB}-0-1", TaskState.KILLED)
                for request in world.called("UpdateTasksState")
                for each in request.taskStates
            ),
            "resmgr is told",
        )
    task = job.tasks[0]
    assert (task.state, task.goal, task.run) == (TaskState.KILLED, TaskState.KILLED, 1)
    assert task.reason == "SECRET_NOT_FOUND"
    assert task.message == "the secret an id (/etc/key) is not stored"
    assert job.runtime.state is JobState.KILLED
    assert world.launched == [f"{OTHER}-0-1"] * others


async def test_a_run_whose_secret_cannot_be_decrypted_is_killed_and_others_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was changed in the store, or its key was removed too early: no reason to end the job manager."""
    read = store.secrets.read

    async def damaged(job_id: JobId, key: str) -> bytes:
        if job_id == JOB:
            raise Refused("it was changed in the store")
        return await read(job_id, key)

    monkeypatch.setattr(store.secrets, "read", damaged)
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, with_secret(spec(1)), {"a key": b"hidden"})
        await running.engine.create_job(OTHER, with_secret(spec(1)), {"a key": b"hidden"})
        for job in (JOB, OTHER):
            await ended(running.engine, job)
        task = (await running.engine.load(JOB)).tasks[0]
        assert (task.state, task.goal, task.reason) == (
            TaskState.KILLED,
            TaskState.KILLED,
            "SECRET_NOT_FOUND",
        )
        assert task.message == "the secret an id (/etc/key) cannot be read: it was changed in the store"
        assert (await running.engine.load(OTHER)).runtime.state is JobState.SUCCEEDED


async def test_secrets_are_read_until_the_store_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "backoff", lambda: Backoff(0.001, 0.001))
    read, left = store.secrets.read, [Unavailable("away"), Unavailable("away")]

    async def sometimes(job_id: JobId, key: str) -> bytes:
        if left:
            raise left.pop()
        return await read(job_id, key)

    monkeypatch.setattr(store.secrets, "read", sometimes)
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, with_secret(spec(1)), {"a key": b"hidden"})
        await ended(running.engine)
        assert (await running.engine.load(JOB)).runtime.state is JobState.SUCCEEDED
    assert not left
