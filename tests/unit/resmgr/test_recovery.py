from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS, SystemClock
from peloton.errors import Unavailable
from peloton.model.job import JobRuntime, JobSpec, Sla
from peloton.model.payload import ApiVersion, Payload
from peloton.model.pool import PoolConfig
from peloton.model.resources import ZERO, Resources
from peloton.model.states import JobState, JobType, TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.wire.job import job_spec
from peloton.wire.payload import job_config
from resmgr.__main__ import build_driver
from resmgr.clients import HostmgrClient, HostmgrsClient
from resmgr.core.state.needs import NewTask
from resmgr.core.state.queues import PoolQueues
from resmgr.drivers.capacity import Capacity
from resmgr.drivers.recovery import Recovery
from resmgr.drivers.status_stream import PullOptions, StatusStream
from storage.interface import Store, Tasks
from tests.stored import recreate
from tests.unit.resmgr.shell import Hostmgr, run_id, settings
from tests.unit.resmgr.world import CAPACITY, JOB, OTHER_JOB, kinds, needs
from tests.waiting import until

S = TaskState


class Paged:
    """The tasks of a store in small pages; `read` ones come without any wait."""

    def __init__(self, tasks: Tasks, size: int) -> None:
        self._tasks = tasks
        self._size = size
        self._rows: dict[str, dict[int, TaskRuntime]] = {}

    async def read(self, job: str) -> None:
        self._rows[job] = {i: task async for page in self._tasks.list(job) for i, task in page.items()}

    async def list(self, job: str) -> AsyncIterator[Mapping[int, TaskRuntime]]:
        if job not in self._rows:
            await self.read(job)
        rows = list(self._rows[job].items())
        for at in range(0, len(rows), self._size):
            yield dict(rows[at : at + self._size])

    def __getattr__(self, name: str) -> object:
        return getattr(self._tasks, name)


def queues(made: Restart) -> PoolQueues:
    """The queues of pool `a`."""
    scheduler = made.driver.scheduler
    return scheduler.pending.of(scheduler.tree.get("a"))


class Restart:
    """A resmgr that begins to lead over what the store holds."""

    def __init__(self, store: Store, hostmgr: Hostmgr) -> None:
        self.store = store
        self.hostmgr = hostmgr
        self.driver = build_driver(settings(Path("unused")), SystemClock())
        self.recovery = Recovery(self.driver, store.jobs, store.tasks)
        options = PullOptions(batch=1000, poll=0.02, pause=0.01)
        self.statuses = StatusStream(self.driver, HostmgrClient(hostmgr), options, self.recovery.resync)

    async def begin(self, tasks: Tasks | None = None) -> None:
        self.driver.scheduler.load_pools(await self.store.pools.all())
        await self.statuses.open()
        if tasks is not None:
            self.recovery = Recovery(self.driver, self.store.jobs, tasks, log_interval=0.0)
        await self.recovery.restore()

    def states(self) -> dict[tuple[str, int], TaskState]:
        return {(task.job.id, task.instance): task.state for task in self.driver.scheduler.registry}

    def cpu(self) -> float:
        return self.driver.scheduler.tree.get("a").allocation()["total"].cpu / 1000

    async def until(self, condition: Callable[[], bool]) -> None:
        """Pull events until it holds."""
        pulling = asyncio.create_task(self.statuses.run())
        try:
            await until(lambda: condition() or pulling.done())
            assert not pulling.done(), pulling.exception()
        finally:
            pulling.cancel()


def spec(cpu: float = 2, minimum: int = 0) -> JobSpec:
    return JobSpec(
        version=1,
        name="job",
        type=JobType.BATCH,
        pool_id="a",
        instance_count=100,
        sla=Sla(preemptible=True, minimum_running_instances=minimum),
        default=TaskSpec(Resources.of(cpu, 1, 1)),
        overrides={},
        payload=Payload(ApiVersion.V0, b""),
    )


def stored(made: JobSpec) -> JobSpec:
    """With the payload that the store keeps."""
    config = job_config(made.payload)
    config.name, config.respoolID.value, config.instanceCount = made.name, made.pool_id, made.instance_count
    config.sla.preemptible = True
    config.sla.minimumRunningInstances = made.sla.minimum_running_instances
    config.defaultConfig.resource.cpuLimit = made.default.resources.cpu / 1000
    config.defaultConfig.resource.memLimitMb = 1
    return job_spec(config, made.version)


def runtimes(states: Mapping[int, TaskState], run: int = 1, at: int = 0) -> dict[int, TaskRuntime]:
    return {
        instance: TaskRuntime(
            state=state,
            goal=S.SUCCEEDED,
            run=run,
            config_version=1,
            desired_config_version=1,
            desired_run=run,
            host="h1" if state in (S.LAUNCHED, S.RUNNING) else "",
            updated_at=at,
        )
        for instance, state in states.items()
    }


async def fill(
    store: Store, states: Mapping[int, TaskState], job: str = JOB, minimum: int = 0, run: int = 1, at: int = 0
) -> None:
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, 1)
    await store.jobs.create(job, stored(spec(minimum=minimum)), runtime)
    await store.write_all(job, runtimes(states, run, at))


async def prepared(store: Store, states: Mapping[int, TaskState], minimum: int = 0) -> Restart:
    await store.pools.write(PoolConfig("a", "a", "root", kinds()))
    await fill(store, states, minimum=minimum)
    return Restart(store, Hostmgr())


async def test_tasks_on_hosts_are_restored_with_allocation_and_waiting_ones_queued(
    store: Store,
) -> None:
    made = await prepared(
        store,
        {
            0: S.LAUNCHED,
            1: S.STARTING,
            2: S.RUNNING,
            3: S.KILLING,
            4: S.PENDING,
            5: S.INITIALIZED,
            6: S.SUCCEEDED,
            7: S.LAUNCHING,
        },
    )
    await made.begin()
    assert {instance: state for (_, instance), state in made.states().items()} == {
        0: S.LAUNCHED,
        1: S.STARTING,
        2: S.RUNNING,
        3: S.KILLING,
    }
    assert made.cpu() == 8
    assert not made.driver.recovered.is_set()
    await made.recovery.requeue()
    assert made.driver.recovered.is_set()
    assert {instance for (_, instance), state in made.states().items() if state is S.PENDING} == {4, 7}
    assert [task.instance for task in made.driver.scheduler.registry.on_host("h1")] == [0, 2]


async def test_a_new_leader_knows_since_when_runs_run_and_when_they_have_saved(store: Store) -> None:
    made = await prepared(store, {0: S.PENDING})
    wall = SystemClock().wall()
    start, saved = wall - 3600 * NANOSECONDS, wall - 60 * NANOSECONDS
    row = replace(runtimes({1: S.RUNNING})[1], start_time=start, saved_at=saved)
    await store.write_all(JOB, {1: row})
    await made.begin()
    now = made.driver.now()
    (task,) = made.driver.scheduler.registry.on_host("h1")
    assert now - task.since == pytest.approx(3600, abs=30)
    assert now - made.driver.scheduler.registry.saved[task] == pytest.approx(60, abs=30)


async def test_waiting_tasks_are_queued_in_gangs(store: Store) -> None:
    made = await prepared(store, dict.fromkeys(range(5), S.PENDING), minimum=3)
    await made.begin()
    await made.recovery.requeue()
    gangs = [[task.instance for task in gang.tasks] for gang in queues(made).pending]
    assert gangs == [[0, 1, 2], [3], [4]]


async def test_a_run_that_jobmgr_queued_meanwhile_is_left_as_it_is(store: Store) -> None:
    made = await prepared(store, {0: S.PENDING})
    await made.begin()
    await made.recovery.requeue()
    scheduler = made.driver.scheduler
    scheduler.set_capacity(CAPACITY, ZERO)
    scheduler.admit(made.driver.now())
    await made.recovery.restore()
    await made.recovery.requeue()
    assert made.states() == {(JOB, 0): S.READY}


async def test_a_gang_that_is_spread_over_pages_is_queued_as_one(store: Store) -> None:
    made = await prepared(store, dict.fromkeys(range(7), S.PENDING), minimum=5)
    await made.begin(Paged(store.tasks, 2))  # type: ignore[arg-type]
    await made.recovery.requeue()
    gangs = [[task.instance for task in gang.tasks] for gang in queues(made).pending]
    assert gangs == [[0, 1, 2, 3, 4], [5], [6]]


async def test_jobs_are_queued_in_the_order_in_which_they_began_to_wait(store: Store) -> None:
    """First in, first out, independent of ids."""
    made = await prepared(store, {})
    jobs = [f"{number}1111111-1111-4111-8111-111111111111" for number in (7, 3, 9, 5)]
    for at, job in enumerate(jobs):
        await fill(store, {0: S.PENDING, 1: S.PENDING}, job=job, at=10 + at)
    await made.begin()
    await made.recovery.requeue()
    queued = [gang.tasks[0].job.id for gang in queues(made).pending]
    assert queued == [job for job in jobs for _ in range(2)]


async def test_recovery_reports_progress_and_lets_other_tasks_run(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    made = await prepared(store, dict.fromkeys(range(4000), S.RUNNING))
    await fill(store, {0: S.PENDING}, job=OTHER_JOB)
    runs_of_others = 0

    async def others() -> None:
        nonlocal runs_of_others
        while True:
            await asyncio.sleep(0)
            runs_of_others += 1

    pages = Paged(store.tasks, 4000)
    await pages.read(JOB)
    other = asyncio.create_task(others())
    with caplog.at_level(logging.INFO, "resmgr.drivers.recovery"):
        await made.begin(pages)  # type: ignore[arg-type]
    other.cancel()
    assert runs_of_others >= 8, "while one page is taken in"
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("1 of 2 active jobs are read, 4000 tasks, in ") for line in lines)
    assert lines[-2].startswith("2 of 2 active jobs are read, 4001 tasks, in ")
    assert lines[-1] == "4000 tasks are on hosts, 1 gangs wait"
    names = ("jobs", "jobs_read", "tasks_read")
    assert [REGISTRY.get_sample_value(f"resmgr_recovery_{name}") for name in names] == [2, 2, 4001]


async def test_nothing_is_admitted_before_it_is_known_what_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are answered meanwhile, and reading goes on when the store answers again."""
    made = await prepared(store, dict.fromkeys(range(50), S.RUNNING))
    made.driver.scheduler.load_pools(await store.pools.all())
    made.driver.scheduler.set_capacity(CAPACITY, ZERO)
    active, go = store.jobs.active, asyncio.Event()
    failures = [Unavailable("the store does not answer")]

    async def slow() -> Sequence[str]:
        await go.wait()
        if failures:
            raise failures.pop()
        return await active()

    monkeypatch.setattr(store.jobs, "active", slow)
    monkeypatch.setattr("resmgr.drivers.recovery.FIRST_PAUSE", 0.001)
    running = [asyncio.create_task(each) for each in (made.recovery.run(), made.driver.run())]
    scheduler = made.driver.scheduler
    scheduler.enqueue(scheduler.tree.get("a"), [NewTask(OTHER_JOB, 0, 1, needs(2))], made.driver.now())
    made.driver.wake()
    for _ in range(20):
        await asyncio.sleep(0)
    assert made.states() == {(OTHER_JOB, 0): S.PENDING}
    assert REGISTRY.get_sample_value("resmgr_recovery_settled") == 0
    go.set()
    await until(made.driver.recovered.is_set)
    assert made.cpu() == 100
    assert made.states()[OTHER_JOB, 0] is S.PENDING, "what runs has all that there is"
    assert REGISTRY.get_sample_value("resmgr_recovery_settled") == 1
    for task in running:
        task.cancel()


async def test_events_are_applied_in_batches_and_purged(store: Store) -> None:
    made = await prepared(store, dict.fromkeys(range(4), S.LAUNCHED))
    await made.begin()
    await made.recovery.requeue()
    for instance in range(4):
        made.hostmgr.status(run_id(instance), mesos_pb2.TASK_RUNNING)
    made.hostmgr.status(run_id(0), mesos_pb2.TASK_FINISHED)
    made.hostmgr.status(run_id(1), mesos_pb2.TASK_UNREACHABLE)
    await made.until(lambda: len(made.states()) == 2 and made.hostmgr.purged == 6)
    assert set(made.states().values()) == {S.RUNNING}
    assert made.cpu() == 4


async def test_events_from_before_the_start_are_seen(store: Store) -> None:
    made = await prepared(store, {0: S.RUNNING})
    made.hostmgr.status(run_id(0), mesos_pb2.TASK_FAILED)
    await made.begin()
    await made.recovery.requeue()
    await made.until(lambda: not made.states())
    assert made.cpu() == 0


async def test_without_hostmgr_it_leads_and_reads_the_store_again_later(store: Store) -> None:
    made = await prepared(store, {0: S.RUNNING, 1: S.RUNNING})
    made.hostmgr.down = True
    await made.begin()
    await made.recovery.requeue()
    assert made.cpu() == 4
    await store.write_all(JOB, runtimes({0: S.SUCCEEDED}))
    made.hostmgr.down = False
    await made.until(lambda: made.cpu() == 2)
    assert set(made.states()) == {(JOB, 1)}


async def test_a_new_stream_or_a_gap_makes_it_read_the_store(store: Store) -> None:
    made = await prepared(store, dict.fromkeys(range(6), S.RUNNING))
    await made.begin()
    await made.recovery.requeue()
    await made.until(lambda: made.hostmgr.calls.count("WaitForEvents") > 0)
    await store.write_all(JOB, runtimes({0: S.FAILED, 1: S.LOST}))
    await store.write_all(JOB, runtimes({2: S.LAUNCHED, 3: S.INITIALIZED}, run=2))
    await recreate(store, JOB, without=[4])
    await fill(store, {0: S.RUNNING}, job=OTHER_JOB)
    made.hostmgr.restart(first=500)
    made.hostmgr.status(run_id(5), mesos_pb2.TASK_FINISHED)
    await made.until(lambda: made.hostmgr.purged == 501)
    registry = made.driver.scheduler.registry
    assert made.states() == {(JOB, 2): S.LAUNCHED, (OTHER_JOB, 0): S.RUNNING}
    held = registry.current(JOB, 2)
    assert held is not None
    assert held.run == 2
    assert not registry.orphans
    assert made.cpu() == 4
    assert made.hostmgr.calls.count("InitStream") == 2


async def test_a_queued_run_that_the_store_saw_launched_is_taken_out_of_its_queue(store: Store) -> None:
    made = await prepared(store, {0: S.PENDING, 1: S.PENDING})
    made.hostmgr.down = True
    await made.begin()
    await made.recovery.requeue()
    await store.write_all(JOB, runtimes({0: S.LAUNCHED, 1: S.KILLED}))
    made.hostmgr.down = False
    await made.until(lambda: made.states() == {(JOB, 0): S.LAUNCHED})
    assert made.cpu() == 2
    assert len(queues(made)) == 0


async def test_a_job_that_is_not_active_is_not_read(store: Store) -> None:
    made = await prepared(store, {0: S.RUNNING})
    await store.jobs.retire(JOB)
    await made.begin()
    assert made.states() == {}


async def test_a_job_of_a_deleted_pool_is_left_out(store: Store) -> None:
    made = await prepared(store, {0: S.RUNNING, 1: S.PENDING})
    await store.pools.delete("a")
    await made.begin()
    await made.recovery.requeue()
    assert made.states() == {}


async def test_capacity_is_requested_until_it_is_known(store: Store) -> None:
    made = await prepared(store, {})
    capacity = Capacity(made.driver, HostmgrsClient(made.hostmgr), first=0.005, interval=10.0)
    made.hostmgr.down = True
    updating = asyncio.create_task(capacity.run())
    await until(lambda: len(made.hostmgr.calls) > 1)
    assert made.driver.scheduler.tree.capacity is None
    made.hostmgr.down = False
    await until(lambda: made.driver.scheduler.tree.capacity)
    updating.cancel()
    assert made.driver.scheduler.tree.capacity == CAPACITY
    made.hostmgr.capacity = Resources.of(7)
    await capacity.fresh()
    assert made.driver.scheduler.tree.capacity == Resources.of(7)
    made.hostmgr.down = True
    await capacity.fresh()
    assert made.driver.scheduler.tree.capacity == Resources.of(7)


async def test_a_task_launched_while_the_store_is_read_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await prepared(store, {0: S.RUNNING, 1: S.RUNNING})
    await made.begin()
    await made.recovery.requeue()
    active = store.jobs.active

    async def meanwhile() -> Sequence[str]:
        jobs = await active()
        scheduler = made.driver.scheduler
        new = NewTask(OTHER_JOB, 0, 1, needs(2))
        scheduler.restore(scheduler.tree.get("a"), new, S.LAUNCHED, "h1", made.driver.now())
        return jobs

    monkeypatch.setattr(store.jobs, "active", meanwhile)
    await recreate(store, JOB, without=[1])
    await made.recovery.resync()
    assert made.states() == {(JOB, 0): S.RUNNING, (OTHER_JOB, 0): S.LAUNCHED}


async def test_an_orphan_does_not_outlive_the_leader_and_its_end_takes_nothing_from_the_current_run(
    store: Store,
) -> None:
    """The store knows run 2 only. Run 1 is on its host still: before the restart with its allocation."""
    restart = await prepared(store, {0: S.RUNNING, 1: S.PENDING})
    await restart.begin()
    await restart.recovery.requeue()
    scheduler, again = restart.driver.scheduler, [NewTask(JOB, 0, 2, needs(2))]
    scheduler.enqueue(scheduler.tree.get("a"), again, restart.driver.now())
    assert [run.run for run in scheduler.registry.orphans] == [1]
    assert restart.cpu() == 2, "the orphan's; run 2 waits"
    written = runtimes({0: S.RUNNING, 1: S.RUNNING}, run=2)
    await store.write_all(JOB, written)

    restart.hostmgr.status(run_id(0), mesos_pb2.TASK_RUNNING)
    restart.hostmgr.status(run_id(1), mesos_pb2.TASK_RUNNING)
    new = Restart(store, restart.hostmgr)
    await new.begin()
    await new.recovery.requeue()
    assert (new.cpu(), dict(new.driver.scheduler.registry.orphans)) == (4, {})
    restart.hostmgr.status(run_id(0), mesos_pb2.TASK_KILLED)
    await new.until(lambda: restart.hostmgr.purged == 3)
    assert new.cpu() == 4
    assert new.states() == {(JOB, 0): S.RUNNING, (JOB, 1): S.RUNNING}
    restart.hostmgr.status(run_id(0, 2), mesos_pb2.TASK_FINISHED)
    await new.until(lambda: new.cpu() == 2)
