"""Reconciliation in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from hostmgr.core.cluster_manager.reconciliation import ReconciliationLimits
from hostmgr.drivers.reconciliation import Reconciliation
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from tests.unit.hostmgr.test_manager import Fixture

BATCH = 10
JOB = "6f7d1b0e-9a3e-4a4b-8f4e-7b1d8f9a0c11"
RUNS = [f"{JOB}-{number}-1" for number in range(25)]


class NoJobs:
    """The part of the store that holds jobs."""

    def __init__(self) -> None:
        self.jobs = self
        self.read = asyncio.Event()

    async def active(self) -> list[str]:
        self.read.set()
        return []


class OldPage:
    """A store whose page of a job was read before the end of the runs, which is known when it comes."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.jobs = self.tasks = self
        self._end = end

    async def active(self) -> list[str]:
        return [JOB]

    async def list(self, job_id: str) -> AsyncIterator[dict[int, TaskRuntime]]:
        row = TaskRuntime(TaskState.RUNNING, TaskState.SUCCEEDED, 1, 1, 1, desired_run=1, agent_id="S0")
        self._end()
        yield {0: row, 1: row}


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


async def test_a_run_that_ends_while_the_store_is_read_is_not_brought_back() -> None:
    """Its state is requested; where the answer is lost with the connection, nothing would end it again."""
    it = Fixture()
    await it.subscribe()
    it.manager.runs.put(RUNS[0], "S0")
    it.manager.runs.put(RUNS[1], "S0")
    await _requested(it, OldPage(lambda: it.manager.runs.remove(RUNS[0])), {RUNS[0], RUNS[1]})
    assert list(it.manager.runs.on("S0")) == [RUNS[1]]


async def test_the_states_of_runs_that_the_store_does_not_have_are_requested_the_second_time() -> None:
    """The first time their jobs may be ending, or have just begun."""
    it, store = Fixture(), NoJobs()
    await it.subscribe()
    for run in RUNS:
        it.manager.runs.put(run, "S0")
    it.manager.runs.launched(f"{JOB}-100-1", "S0")
    waits = asyncio.create_task(_requested(it, store, set(RUNS)))
    await asyncio.wait_for(store.read.wait(), 60)
    assert it.driver.calls == []
    it.manager.runs.put(f"{JOB}-101-1", "S0")
    it.clock.advance(ReconciliationLimits().repeat_after)
    await waits
    assert max(len(call.reconcile.tasks) for call in it.driver.calls) == BATCH


async def _requested(it: Fixture, store: Any, wanted: set[str]) -> None:
    """Wait until exactly the states of these runs are requested."""
    reconciliation = Reconciliation(it.manager, it.manager.core.reconciler, store, it.clock, BATCH)
    running = asyncio.create_task(reconciliation.run())
    requested: set[str] = set()
    async with asyncio.timeout(60):
        while len(requested) < len(wanted):
            await asyncio.sleep(0.01)
            requested = {task.task_id.value for call in it.driver.calls for task in call.reconcile.tasks}
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert requested == wanted


async def test_repeated_requests_are_sent_in_batches_too() -> None:
    """After a change of masters it may be every task there is."""
    it = Fixture()
    await it.subscribe()
    for run in RUNS:
        it.manager.runs.launched(run, "S0")
    it.backend.on_disconnected("gone")
    await it.subscribe()
    await _requested(it, NoJobs(), set(RUNS))
    assert max(len(call.reconcile.tasks) for call in it.driver.calls) == BATCH
