from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from peloton.clock import SystemClock
from peloton.config.errors import ConfigError
from peloton.config.loading import load
from peloton.model.pool import PoolConfig
from peloton.model.states import TaskState, TaskType
from peloton.waking import Signal
from resmgr.__main__ import build_driver
from resmgr.config import ResmgrSettings
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.preemption.policy import Victim
from resmgr.core.state.cooperative import Steps
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import NewTask
from resmgr.drivers.metrics import measure
from tests.unit.resmgr.shell import Shell, settings, wire_gang
from tests.unit.resmgr.world import JOB, World, kinds, needs
from tests.waiting import until


async def test_admission_wakes_when_something_changes(shell: Shell) -> None:
    driver = shell.driver
    running = asyncio.create_task(driver.run())
    pool = await shell.pool()
    waiting = asyncio.create_task(shell.dequeue(timeout=20_000))
    await asyncio.sleep(0)
    request = wire_gang(0)
    await shell.enqueue(pool, request)
    assert [len(gang.tasks) for gang in await asyncio.wait_for(waiting, 60)] == [1]
    running.cancel()


async def test_leases_are_watched(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resmgr.drivers.loop.LEASE_SECONDS", 0.01)
    monkeypatch.setattr("resmgr.core.state.leases.ABSENCE", 0.0)
    present = {"placement/one"}
    driver = build_driver(settings(Path("unused")), SystemClock(), lambda: present)
    shell = Shell(shell.store)
    shell.driver._members = driver._members
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    await shell.dequeue()
    watching = asyncio.create_task(shell.driver.watch_leases())
    present.clear()
    await until(lambda: shell.driver.scheduler.ready[TaskType.BATCH])
    watching.cancel()


async def test_a_long_poll_is_a_sign_of_life(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resmgr.drivers.loop.TOUCH_SECONDS", 0.005)
    driver = shell.driver
    holder = driver.scheduler.leases.touch("placement/one", 0.0)
    assert holder is not None
    await driver.poll(holder, Signal(), lambda: holder.last_seen > 0.0, 10_000)
    assert holder.last_seen > 0.0


def test_gauges_show_pools_and_queues() -> None:
    world = World()
    world.enqueue(0, of=needs(30))
    world.enqueue(1, of=needs(80))
    world.admit()
    measure(world.scheduler)

    def value(name: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(name, labels)

    assert value("resmgr_pool_allocation", pool="/a", kind="cpu") == 30
    assert value("resmgr_pool_demand", pool="/", kind="cpu") == 80
    assert value("resmgr_pool_entitlement", pool="/a", kind="memory") == 1000
    assert value("resmgr_pool_limit", pool="/", kind="cpu") == 100
    assert value("resmgr_pool_pending", pool="/a", queue="pending") == 1
    assert value("resmgr_ready_gangs", type="BATCH") == 1
    assert value("resmgr_tasks") == 2


def test_gauges_of_pools_follow_the_pools() -> None:
    two = (
        PoolConfig("a", "a", "root", kinds(limit=80)),
        PoolConfig("b", "b", "root", kinds(limit=70)),
    )

    def limit(path: str) -> float | None:
        return REGISTRY.get_sample_value("resmgr_pool_limit", {"pool": path, "kind": "cpu"})

    measure(World(*two).scheduler)
    assert (limit("/a"), limit("/b")) == (80, 70)
    measure(World(two[0]).scheduler)
    assert (limit("/a"), limit("/b")) == (80, None)


def test_histograms_show_how_long_gangs_and_runs_waited() -> None:
    world = World()
    world.enqueue(0, of=needs(60))
    world.enqueue(1, of=needs(60))
    world.admit()
    world.dequeue()
    world.place(0)
    world.hand_over()
    world.now += 2
    world.observe(0, TaskState.RUNNING)
    world.observe(0, TaskState.RUNNING)
    world.now += 18
    world.observe(0, TaskState.SUCCEEDED)
    world.admit()
    measure(world.scheduler)

    def under(name: str, seconds: str) -> float | None:
        return REGISTRY.get_sample_value(f"resmgr_pending_to_{name}_bucket", {"pool": "/a", "le": seconds})

    assert [under("ready_seconds", end) for end in ("0.01", "10.0", "30.0", "+Inf")] == [1, 1, 2, 2]
    assert [under("running_seconds", end) for end in ("1.0", "3.0", "+Inf")] == [0, 1, 1]
    assert REGISTRY.get_sample_value("resmgr_pending_to_ready_seconds_sum", {"pool": "/a"}) == 20


def test_a_restored_run_does_not_count_in_the_histograms() -> None:
    world = World()
    new = NewTask(JOB, 0, 1, needs())
    world.scheduler.restore(world.pool(), new, TaskState.LAUNCHED, "h1", world.now)
    world.observe(0, TaskState.RUNNING)
    assert not any(world.pool().to_running.counts)


def test_settings_come_from_files_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "resmgr.yaml"
    file.write_text(
        "storage: {path: /x/y.db}\nplacement: {placing_timeout: 5}\nadmission: {cycle_limit: 7}\n"
    )
    made = load(ResmgrSettings, [file], {"ENABLE_PREEMPTION": "false"})
    assert made.limits == Limits(preemption=False, placing=5.0, cycle_limit=7)
    assert settings(Path("x")).limits == Limits()
    file.write_text("storage: {path: /x/y.db}\nplacement: {tries: 0}\n")
    with pytest.raises(ConfigError, match=r"placement\.tries: 0"):
        load(ResmgrSettings, [file])


async def test_other_work_runs_during_a_check(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_of_others: list[int] = []

    def steps(preemptor: Preemptor, now: float) -> Steps[list[Victim]]:
        for _ in range(10):
            yield
            runs_of_others.append(others)
        return []

    monkeypatch.setattr(Preemptor, "steps", steps)
    others, done = 0, asyncio.create_task(shell.driver.preempt())
    while not done.done():
        others += 1
        await asyncio.sleep(0)
    assert done.result() == []
    assert len(set(runs_of_others)) == 10


async def test_many_deadlines_at_once_take_several_cycles(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("resmgr.drivers.loop", "resmgr.core.placing.expiry"):
        monkeypatch.setattr(f"{module}.AT_ONCE", 2)
    pool = await shell.pool()
    await shell.enqueue(pool, *(wire_gang(instance) for instance in range(5)))
    await shell.dequeue()
    scheduler, now = shell.driver.scheduler, shell.driver.now()
    for task in scheduler.registry:
        assert task.gang is not None
        scheduler.deadlines.set(task.gang, now)
    placing = []
    for _ in range(3):
        more = shell.driver.cycle()
        placing.append((sum(task.state is TaskState.PLACING for task in scheduler.registry), more))
    assert placing == [(3, True), (1, True), (0, False)]


async def test_a_task_that_ends_during_the_answer_is_left_out(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resmgr.services.tasks._AT_ONCE", 2)
    pool = await shell.pool()
    await shell.enqueue(pool, *(wire_gang(instance) for instance in range(4)))
    telling = asyncio.create_task(shell.states())
    await asyncio.sleep(0)
    shell.driver.scheduler.kill(JOB, 3)
    assert len(await telling) == 3
