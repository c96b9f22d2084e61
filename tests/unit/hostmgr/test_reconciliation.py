"""Reconciliation in batches."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hostmgr.drivers.reconciliation import Reconciliation
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from tests.unit.hostmgr.test_manager import Fixture

BATCH = 10
RUNS = [f"6f7d1b0e-9a3e-4a4b-8f4e-7b1d8f9a0c11-{number}-1" for number in range(25)]


class NoJobs:
    """The part of the store that holds jobs."""

    def __init__(self) -> None:
        self.jobs = self

    async def active(self) -> list[str]:
        return []


class OldRows:
    """The part of the store that holds tasks: each is KILLING on its agent, as before its end was stored."""

    def __init__(self) -> None:
        self.tasks = self

    async def get(self, job_id: str, instance: int) -> TaskRuntime:
        return TaskRuntime(TaskState.KILLING, TaskState.KILLED, 1, 1, 1, desired_run=1, agent_id="S0")


async def test_a_kill_of_a_run_that_has_ended_does_not_bring_it_back() -> None:
    """Its end is known here before jobmgr has stored it; Mesos would say nothing of it any more."""
    it = Fixture()
    unused: Any = OldRows()
    reconciliation = Reconciliation(it.manager, it.manager.core.reconciler, unused, it.clock, BATCH)
    it.manager.runs.launched(RUNS[0], "S0")
    it.manager.runs.remove(RUNS[0])
    await reconciliation.locate(RUNS[:2])
    assert list(it.manager.runs.on("S0")) == [RUNS[1]], "the other one is of a term before"


async def test_repeated_requests_are_sent_in_batches_too() -> None:
    """After a change of masters it may be every task there is."""
    it, store = Fixture(), NoJobs()
    await it.subscribe()
    for run in RUNS:
        it.manager.runs.launched(run, "S0")
    it.backend.on_disconnected("gone")
    await it.subscribe()
    unused: Any = store
    reconciliation = Reconciliation(it.manager, it.manager.core.reconciler, unused, it.clock, BATCH)
    running = asyncio.create_task(reconciliation.run())
    requested: list[str] = []
    async with asyncio.timeout(20):
        while len(requested) < len(RUNS):
            await asyncio.sleep(0.01)
            requested = [task.task_id.value for call in it.driver.calls for task in call.reconcile.tasks]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert sorted(requested) == sorted(RUNS)
    assert max(len(call.reconcile.tasks) for call in it.driver.calls) == BATCH
