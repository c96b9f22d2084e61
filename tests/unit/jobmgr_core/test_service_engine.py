"""Services over the engine, its drivers and a real store: leaders come and go in the middle of an update."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from jobmgr.core.state.limits import Limits
from jobmgr.drivers.prune import WORKFLOWS_KEPT
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from mesos.v1 import mesos_pb2
from peloton.clock import ManualClock
from peloton.errors import Conflict, InvalidArgument, NotFound
from peloton.model.ids import parse_mesos_task_id
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import (
    EntityVersion,
    Range,
    WorkflowOptions,
    WorkflowState,
)
from storage.interface import Store
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import next_leader, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S, W = TaskState, WorkflowState
FAST = Limits(
    kill_again_after=0.05,
    kill_again_most=0.2,
    confirm_after=0.05,
    ask_after=0.05,
    throttle_first=0.05,
    throttle_most=0.2,
)


def ends_at_once(runs: Callable[[int, int], bool]) -> World:
    """A world in which the runs of which `runs(instance, run)` is false fail as soon as they run."""

    def behaviour(run: str) -> list[tuple[int, str]]:
        _, instance, number = parse_mesos_task_id(run)
        if runs(instance, number):
            return runs_on(run)
        return [*runs_on(run), (mesos_pb2.TASK_FAILED, "Command exited with status 1")]

    return World(behaviour)


def state(engine: Engine) -> WorkflowState | None:
    job = engine.job(JOB)
    return None if job is None or job.workflow is None else job.workflow.state


async def test_a_service_is_run_again_when_its_instances_exit(store: Store) -> None:
    world = ends_at_once(lambda instance, run: run > 2)
    engine = Engine(store, limits=FAST)
    async with Running(engine, world):
        await engine.create_job(JOB, service(3))
        await until(lambda: len(world.alive) == 3, "the third runs of all three are alive")
        await reach(engine, S.RUNNING, 3)
    assert sorted(world.launched) == [f"{JOB}-{i}-{run}" for i in range(3) for run in (1, 2, 3)]


async def test_leaders_fall_in_the_middle_of_an_update(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, service(6))
        await reach(running.engine, S.RUNNING, 6)
        new = replace(service(7, command="new"), version=2)
        begun = await Workflows(running.engine).replace(JOB, new, WorkflowOptions(batch_size=2))
        assert begun.version == EntityVersion(2, 1, 1)
    for launches in (8, 10, 12):
        async with Running(await next_leader(store, FAST), world) as running:
            await until(lambda n=launches: len(world.launched) >= n, f"{launches} launches")  # type: ignore[misc]
    async with Running(await next_leader(store, FAST), world) as running:
        engine = running.engine
        await until(lambda: state(engine) is W.SUCCEEDED, "the update is done")
        job = await engine.load(JOB)
        assert [task.config_version for _, task in job.created()] == [2] * 7
        found = await Workflows(engine).find(begun.workflow_id)
        assert (found.workflow.done, found.workflow.failed, found.workflow.remaining) == (7, 0, 0)
        events = await Workflows(engine).events(begun.workflow_id, 0)
        assert [event.state.name for event in events] == ["SUCCEEDED", "ROLLING_FORWARD"]
    assert not world.twice


async def test_a_bad_config_is_rolled_back(store: Store) -> None:
    bad: set[str] = set()

    def behaviour(run: str) -> list[tuple[int, str]]:
        """Second runs are those of the bad config."""
        if run.endswith("-2"):
            bad.add(run)
            return [*runs_on(run), (mesos_pb2.TASK_FAILED, "Command exited with status 1")]
        return runs_on(run)

    world = World(behaviour)
    engine = Engine(store, limits=FAST)
    async with Running(engine, world):
        await engine.create_job(JOB, service(4))
        await reach(engine, S.RUNNING, 4)
        options = WorkflowOptions(
            batch_size=1, max_instance_attempts=1, max_failure_instances=1, rollback_on_failure=True
        )
        await Workflows(engine).replace(JOB, service(4, command="bad"), options)
        await until(lambda: state(engine) is W.ROLLED_BACK, "the update is rolled back")
        await reach(engine, S.RUNNING, 4)
        job = await engine.load(JOB)
        assert {task.config_version for _, task in job.created()} == {1}
    assert 1 <= len(bad) < 4


async def test_a_service_is_created_in_batches_stopped_started_and_deleted(store: Store) -> None:
    world, engine = World(runs_on), Engine(store, limits=FAST)
    async with Running(engine, world):
        begun = await Workflows(engine).create_job(JOB, service(4), WorkflowOptions(batch_size=1), "mine")
        assert begun.version == EntityVersion(1, 1, 1)
        await until(lambda: state(engine) is W.SUCCEEDED, "all are added")
        with pytest.raises(Conflict, match="unexpected entity version"):
            await Workflows(engine).stop_job(JOB, EntityVersion(9, 9, 9))
        assert await Workflows(engine).stop_job(JOB, begun.version) == EntityVersion(1, 2, 1)
        await reach(engine, S.KILLED, 4)
        await Workflows(engine).start_job(JOB)
        await reach(engine, S.RUNNING, 4)
        with pytest.raises(Conflict):
            await Workflows(engine).delete_job(JOB)
        deleted: list[str] = []
        engine.on_delete = deleted.append
        await Workflows(engine).delete_job(JOB, force=True)
        await until(lambda: deleted, "the job is deleted")
        await until(lambda: not world.alive, "nothing is left in Mesos")
    with pytest.raises(NotFound):
        await Workflows(engine).find(begun.workflow_id)


async def test_what_an_update_would_do_is_told(store: Store) -> None:
    world, engine = World(runs_on), Engine(store, limits=FAST)
    async with Running(engine, world):
        await engine.create_job(JOB, service(3))
        await reach(engine, S.RUNNING, 3)
        changed = await Workflows(engine).diff(JOB, service(5, command="new"))
        assert (changed.added, changed.updated) == ((Range(3, 5),), (Range(0, 3),))
        same = await Workflows(engine).diff(JOB, service(2))
        assert (same.unchanged, same.removed) == ((Range(0, 2),), (Range(2, 3),))
        assert (await engine.load(JOB)).runtime.config_version == 1


async def test_the_config_of_stopped_instances_is_compared_too(store: Store) -> None:
    engine = Engine(store, limits=FAST)
    async with Running(engine, World(runs_on)):
        await engine.create_job(JOB, service(3))
        await reach(engine, S.RUNNING, 3)
        await Workflows(engine).stop_job(JOB)
        await reach(engine, S.KILLED, 3)
        changed = await Workflows(engine).diff(JOB, service(5, command="new"))
        assert (changed.added, changed.updated, changed.unchanged) == ((Range(3, 5),), (Range(0, 3),), ())
        same = await Workflows(engine).diff(JOB, service(3))
        assert (same.updated, same.unchanged) == ((), (Range(0, 3),))


async def test_a_batch_job_has_no_workflows(store: Store) -> None:
    engine = Engine(store, limits=FAST)
    async with Running(engine, World(runs_on)):
        await engine.create_job(JOB, spec(1))
        with pytest.raises(InvalidArgument, match="only services"):
            await Workflows(engine).restart(JOB, (), WorkflowOptions())


async def test_a_stopped_service_is_deleted_as_v0_does(store: Store) -> None:
    engine = Engine(store, limits=FAST)
    async with Running(engine, World(runs_on)):
        await engine.create_job(JOB, service(2))
        await reach(engine, S.RUNNING, 2)
        await engine.stop(JOB, None)
        await until(lambda: engine.job(JOB).runtime.state is JobState.KILLED, "it is KILLED")  # type: ignore[union-attr]
        await engine.delete(JOB)
        assert engine.job(JOB) is None
        with pytest.raises(NotFound):
            await store.jobs.runtime(JOB)


async def test_old_workflows_are_deleted(store: Store) -> None:
    engine = Engine(store, limits=FAST)
    async with Running(engine, World(runs_on)):
        await engine.create_job(JOB, service(2))
        await reach(engine, S.RUNNING, 2)
        begun = []
        for _ in range(WORKFLOWS_KEPT + 3):
            begun.append(
                (await Workflows(engine).restart(JOB, (), WorkflowOptions(batch_size=1))).workflow_id
            )
            await Workflows(engine).abort(JOB)

        async def kept() -> list[str]:
            return [each.id for each in await store.workflows.list(JOB, 100)]

        async with asyncio.timeout(60):
            while await kept() != begun[: -WORKFLOWS_KEPT - 1 : -1]:  # noqa: ASYNC110 - the store only answers
                await asyncio.sleep(0.01)
        with pytest.raises(NotFound):
            await Workflows(engine).find(begun[0])
        assert [each.state.name for each in await Workflows(engine).events(begun[-1])][-1] == "INITIALIZED"


async def test_a_workflow_without_progress_is_logged_and_counted(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    world, clock = World(lambda run: runs_on(run) if run.endswith("-1") else []), ManualClock()
    engine = Engine(store, clock)
    async with Running(engine, world):
        await engine.create_job(JOB, service(2))
        await reach(engine, S.RUNNING, 2)
        begun = await Workflows(engine).restart(JOB, (), WorkflowOptions(batch_size=1))
        await until(lambda: len(world.launched) == 3, "the first instance is launched again")
        assert REGISTRY.get_sample_value("jobmgr_silent_workflows") == 0
        clock.advance(1801)
        await engine.lanes.flush()
        assert REGISTRY.get_sample_value("jobmgr_silent_workflows") == 1
        told = f"workflow {begun.workflow_id} of job {JOB} makes no progress"
        assert f"{told}: waits for instances: 1 in flight (0)" in caplog.text
        current = await Workflows(engine).current(JOB)
        assert current is not None
        assert current.workflow.reason.endswith("; no progress for 30 min")
