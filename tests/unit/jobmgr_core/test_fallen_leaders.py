"""Leaders that fall while they write what a workflow has done: each event of it is told once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobmgr.core.workflow.history import without_repeats
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from mesos.v1 import mesos_pb2
from peloton.model.states import TaskState
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    WorkflowEvent,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from storage.interface import Store
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.steps import FAST, next_leader, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

W = WorkflowState
UPDATED = f"{JOB}-0-2"
"""The run of the updated instance. It is RUNNING when a test says so."""


def world() -> World:
    return World(lambda run: [] if run == UPDATED else runs_on(run))


async def updating(engine: Engine, world: World) -> str:
    """Bring an update of one instance to where its new run is launched; return the workflow's id."""
    await engine.create_job(JOB, service(1))
    await reach(engine, TaskState.RUNNING, 1)
    begun = await Workflows(engine).replace(
        JOB, replace(service(1, command="new"), version=2), WorkflowOptions(batch_size=1)
    )
    await until(lambda: UPDATED in world.launched, "the new run is launched")
    await reach(engine, TaskState.LAUNCHED, 1)
    return begun.workflow_id


async def done(engine: Engine) -> None:
    def ended() -> bool:
        job = engine.job(JOB)
        return job is not None and job.workflow is not None and job.workflow.state is W.SUCCEEDED

    await until(ended, "the update is done")


async def told(engine: Engine, workflow_id: str, instance: int | None) -> list[WorkflowState]:
    return [event.state for event in await Workflows(engine).events(workflow_id, instance)]


async def test_a_leader_begins_after_the_writes_that_the_last_one_had_begun(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is slow: the last leader has fallen, and what it was writing comes later."""
    cluster, writing, write_all = world(), asyncio.Event(), store.write_all

    async def noted(*args: Any) -> None:
        if len(args) > 5 and args[5]:
            writing.set()
        await write_all(*args)

    with closing(sqlite3.connect(tmp_path / "peloton.db", isolation_level=None)) as other:
        async with Running(Engine(store, limits=FAST), cluster) as running:
            workflow_id = await updating(running.engine, cluster)
            await running.engine.lanes.flush()
            monkeypatch.setattr(store, "write_all", noted)
            other.execute("BEGIN IMMEDIATE")
            cluster.status(UPDATED, mesos_pb2.TASK_RUNNING)
            async with asyncio.timeout(60):
                await writing.wait()
        following = asyncio.create_task(next_leader(store))
        ready, _ = await asyncio.wait([following], timeout=0.05)
        other.execute("ROLLBACK")
        assert not ready, "the next leader has read rows that the last one is still writing"
    async with Running(await following, cluster) as running:
        await done(running.engine)
        stored = await store.workflows.events(workflow_id, 0)
        assert [each.state for each in stored] == [W.SUCCEEDED, W.ROLLING_FORWARD]


@pytest.mark.parametrize("fatal", [(0, W.ROLLING_FORWARD), (0, W.SUCCEEDED), (WHOLE_WORKFLOW, W.SUCCEEDED)])
async def test_events_that_a_fallen_leader_stored_without_the_tasks_are_told_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, fatal: tuple[int, WorkflowState]
) -> None:
    """As in Cassandra, where a write over several partitions may be made in part."""
    cluster, fallen, write_all = world(), asyncio.Event(), store.write_all

    async def falls(job_id: str, tasks: Any, events: Any, runtime: Any, *rest: Any) -> None:
        steps: Sequence[WorkflowEvent] = rest[1] if len(rest) > 1 else ()
        if not fallen.is_set() and all((each.instance, each.state) != fatal for each in steps):
            await write_all(job_id, tasks, events, runtime, *rest)
            return
        if not fallen.is_set():
            fallen.set()
            await write_all(job_id, {}, (), None, (), steps)
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "write_all", falls)
    async with Running(Engine(store, limits=FAST), cluster) as running:
        await running.engine.create_job(JOB, service(1))
        await reach(running.engine, TaskState.RUNNING, 1)
        begun = await Workflows(running.engine).replace(
            JOB, replace(service(1, command="new"), version=2), WorkflowOptions(batch_size=1)
        )
        cluster.behaviour = runs_on
        async with asyncio.timeout(60):
            await fallen.wait()
    monkeypatch.undo()
    async with Running(await next_leader(store), cluster) as running:
        await done(running.engine)
        instance = await told(running.engine, begun.workflow_id, 0)
        assert instance == [W.SUCCEEDED, W.ROLLING_FORWARD]
        whole = await told(running.engine, begun.workflow_id, None)
        assert whole == [W.SUCCEEDED, W.ROLLING_FORWARD, W.INITIALIZED]
        both = await Workflows(running.engine).all_events(begun.workflow_id)
        assert [each.state for each in both[0]] == instance
        stored = await store.workflows.events(begun.workflow_id, fatal[0])
        assert [each.state for each in stored].count(fatal[1]) == 2


def history(instance: int, *states: WorkflowState) -> list[WorkflowEvent]:
    """Return events in these states, in the order of time."""
    return [
        WorkflowEvent("w", JOB, instance, WorkflowType.UPDATE, state, at) for at, state in enumerate(states)
    ]


def kept(events: list[WorkflowEvent]) -> list[int]:
    """Return the times of the events that are told, oldest first."""
    return [event.timestamp for event in without_repeats(events[::-1])][::-1]


def test_the_first_event_of_a_step_is_told() -> None:
    forward, back = W.ROLLING_FORWARD, W.ROLLING_BACKWARD
    assert kept(history(0, forward, forward, W.SUCCEEDED, W.SUCCEEDED)) == [0, 2]
    assert kept(history(0, forward, W.SUCCEEDED, forward, W.SUCCEEDED)) == [0, 1]
    assert kept(history(0, forward, W.FAILED, back, W.FAILED)) == [0, 1, 2, 3]
    assert kept(history(0, forward, W.FAILED, W.SUCCEEDED)) == [0, 1, 2]


def test_a_workflow_may_go_on_after_a_pause() -> None:
    states = (W.INITIALIZED, W.ROLLING_FORWARD, W.PAUSED, W.ROLLING_FORWARD, W.SUCCEEDED)
    assert kept(history(WHOLE_WORKFLOW, *states)) == [0, 1, 2, 3, 4]
