"""What leaked is repaired by audit with the store, where two comparisons in a row agree."""

from __future__ import annotations

import asyncio

import pytest

from peloton.errors import Unavailable
from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.state.needs import NewTask
from resmgr.drivers.store_audit import StoreAudit
from storage.interface import Store
from tests.stored import recreate
from tests.unit.resmgr.test_recovery import Restart, fill, prepared, queues, runtimes
from tests.unit.resmgr.world import JOB, OTHER_JOB, needs
from tests.waiting import until

S = TaskState


async def recovered(store: Store, states: dict[int, TaskState], minimum: int = 0) -> Restart:
    made = await prepared(store, states, minimum)
    await made.begin()
    await made.recovery.requeue()
    return made


def comparison(made: Restart, interval: float = 3600.0) -> StoreAudit:
    return StoreAudit(made.driver, made.recovery, interval)


async def test_equal_tasks_stay(store: Store) -> None:
    made = await recovered(store, {0: S.RUNNING, 1: S.PENDING, 2: S.SUCCEEDED, 3: S.INITIALIZED})
    before, audit = made.states(), comparison(made)
    for _ in range(3):
        await audit.audit()
    assert made.states() == before
    assert made.cpu() == 2


async def test_what_is_over_is_forgotten(store: Store) -> None:
    """Ended, given up for a newer run, without a row, or of a job that has ended: all unheard of here."""
    made = await recovered(store, dict.fromkeys(range(6), S.RUNNING))
    await fill(store, {0: S.RUNNING, 1: S.PENDING}, job=OTHER_JOB)
    await made.recovery.resync()
    scheduler = made.driver.scheduler
    scheduler.enqueue(scheduler.tree.get("a"), [NewTask(OTHER_JOB, 1, 1, needs(2))], made.driver.now())
    await store.write_all(JOB, runtimes({0: S.SUCCEEDED, 1: S.LOST}))
    await store.write_all(JOB, runtimes({2: S.INITIALIZED}, run=2))
    await recreate(store, JOB, without=[3])
    await store.jobs.retire(OTHER_JOB)
    audit = comparison(made)
    await audit.audit()
    assert len(made.states()) == 8, "it may be reported in a moment"
    await audit.audit()
    assert made.states() == {(JOB, 4): S.RUNNING, (JOB, 5): S.RUNNING}
    assert made.cpu() == 4
    assert len(queues(made)) == 0


async def test_what_is_on_a_host_is_taken_in(store: Store) -> None:
    """Launched while the store was read, at the time of the last change of leaders."""
    made = await recovered(store, {0: S.INITIALIZED, 1: S.PENDING, 2: S.RUNNING})
    await store.write_all(JOB, runtimes({0: S.RUNNING, 1: S.LAUNCHED}))
    await store.write_all(JOB, runtimes({2: S.RUNNING}, run=2))
    audit = comparison(made)
    await audit.audit()
    assert (made.cpu(), made.states()[JOB, 1]) == (2, S.PENDING)
    await audit.audit()
    assert made.cpu() == 6
    assert made.states() == {(JOB, 0): S.RUNNING, (JOB, 1): S.LAUNCHED, (JOB, 2): S.RUNNING}


async def test_waiting_tasks_are_queued_as_a_gang(store: Store) -> None:
    made = await recovered(store, {9: S.RUNNING}, minimum=3)
    await store.write_all(JOB, runtimes(dict.fromkeys(range(4), S.PENDING)))
    audit = comparison(made)
    await audit.audit()
    await audit.audit()
    gangs = [[task.instance for task in gang.tasks] for gang in queues(made).pending]
    assert gangs == [[0, 1, 2], [3]]


async def test_what_differs_for_a_moment_only_is_left(store: Store) -> None:
    """An end that was reported here, and then in jobmgr."""
    made = await recovered(store, {0: S.RUNNING, 1: S.RUNNING})
    made.driver.scheduler.observe(Run(JOB, 0, 1), S.SUCCEEDED, made.driver.now())
    audit = comparison(made)
    await audit.audit()
    await store.write_all(JOB, runtimes({0: S.SUCCEEDED}))
    await audit.audit()
    assert made.states() == {(JOB, 1): S.RUNNING}


async def test_the_audit_continues_after_a_failure_of_the_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await recovered(store, {0: S.RUNNING})
    await store.write_all(JOB, runtimes({0: S.SUCCEEDED}))
    active, failed = store.jobs.active, 0

    async def at_times() -> object:
        nonlocal failed
        failed += 1
        if failed < 3:
            raise Unavailable("not now")
        return await active()

    monkeypatch.setattr(store.jobs, "active", at_times)
    audit = asyncio.create_task(comparison(made, 0.01).run())
    await until(lambda: not made.states() or audit.done())
    assert not audit.done()
    audit.cancel()
