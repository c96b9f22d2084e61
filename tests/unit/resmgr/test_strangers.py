"""A run that is on a host and that this leader has missed is looked up in the store when it is reported."""

from __future__ import annotations

import pytest

from peloton.errors import Unavailable
from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from resmgr.core.state.strangers import MOST, Strangers
from resmgr.drivers.recovery import Recovery
from resmgr.drivers.strangers import COMPARISONS, StrangerLookup
from storage.interface import Store
from tests.unit.resmgr.test_recovery import Restart, prepared, runtimes
from tests.unit.resmgr.world import JOB, OTHER_JOB

S = TaskState


async def missed(store: Store, states: dict[int, TaskState]) -> Restart:
    """A leader that has read the store before these states were stored there: nothing was enqueued yet."""
    made = await prepared(store, dict.fromkeys(states, S.INITIALIZED))
    await made.begin()
    await made.recovery.requeue()
    await store.write_all(JOB, runtimes(states))
    return made


def report(made: Restart, instance: int, state: TaskState, run: int = 1, job: str = JOB) -> bool:
    return made.driver.scheduler.observe(Run(job, instance, run), state, made.driver.now())


def lookup(made: Restart) -> StrangerLookup:
    return StrangerLookup(made.driver, made.recovery)


@pytest.mark.parametrize("state", [S.LAUNCHED, S.STARTING, S.RUNNING])
async def test_a_run_that_is_reported_on_a_host_is_charged(store: Store, state: TaskState) -> None:
    made = await missed(store, {0: state, 1: S.RUNNING})
    assert not report(made, 0, state)
    assert await lookup(made).look() == 1
    assert made.states() == {(JOB, 0): state}
    assert made.cpu() == 2
    assert await lookup(made).look() == 0, "it is looked up once"


async def test_a_run_that_has_ended_is_not_taken_in(store: Store) -> None:
    made = await missed(store, {0: S.RUNNING, 1: S.SUCCEEDED})
    report(made, 0, S.RUNNING)
    report(made, 0, S.SUCCEEDED)
    report(made, 1, S.RUNNING)
    assert await lookup(made).look() == 0
    assert made.states() == {}


async def test_a_run_that_is_not_the_current_one_or_not_stored_is_not_taken_in(store: Store) -> None:
    made = await missed(store, {0: S.RUNNING})
    report(made, 0, S.RUNNING, run=7)
    report(made, 99, S.RUNNING)
    report(made, 0, S.RUNNING, job=OTHER_JOB)
    assert await lookup(made).look() == 0
    assert made.states() == {}


async def test_an_earlier_run_of_a_known_task_is_not_looked_up(store: Store) -> None:
    made = await missed(store, {0: S.RUNNING})
    report(made, 0, S.RUNNING)
    await lookup(made).look()
    report(made, 0, S.RUNNING, run=0)
    assert not made.driver.scheduler.strangers


async def test_a_run_that_had_ended_before_it_was_reported_again_is_forgotten(store: Store) -> None:
    """The job manager stores the end of a run after this leader has seen it; an older report comes last."""
    made = await missed(store, {0: S.KILLING, 1: S.RUNNING})
    looking = lookup(made)
    for instance in (0, 1):
        report(made, instance, S.KILLED)
        report(made, instance, S.RUNNING)
    assert await looking.look() == 2
    assert await looking.compare() == 0
    assert len(made.states()) == 2
    await store.write_all(JOB, runtimes({0: S.KILLED}))
    assert await looking.compare() == 1
    assert made.states() == {(JOB, 1): S.RUNNING}
    await store.jobs.delete(JOB)
    assert await looking.compare() == 1
    assert made.states() == {}
    assert await looking.compare() == 0


async def test_what_was_taken_in_is_compared_for_some_time_only(store: Store) -> None:
    made = await missed(store, {0: S.RUNNING})
    looking = lookup(made)
    report(made, 0, S.RUNNING)
    await looking.look()
    for _ in range(COMPARISONS):
        assert await looking.compare() == 0
    await store.write_all(JOB, runtimes({0: S.SUCCEEDED}))
    assert await looking.compare() == 0


class Failing:
    """A store that cannot be read once, or in which a run ends while it is read."""

    def __init__(self, store: Store, made: Restart, end: bool) -> None:
        self._store = store
        self._made = made
        self._end = end
        self.failures = 0 if end else 1

    async def get(self, job_id: JobId, instance: int) -> TaskRuntime:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the store cannot be read")
        found = await self._store.tasks.get(job_id, instance)
        if self._end:
            report(self._made, instance, S.SUCCEEDED)
        return found


async def test_it_is_looked_up_again_where_the_store_cannot_be_read(store: Store) -> None:
    made = await missed(store, {0: S.RUNNING})
    report(made, 0, S.RUNNING)
    made.recovery = Recovery(made.driver, store.jobs, Failing(store, made, end=False))  # type: ignore[arg-type]
    looking = lookup(made)
    with pytest.raises(Unavailable):
        await looking.look()
    assert await looking.look() == 1


async def test_a_run_that_ends_while_it_is_looked_up_is_not_taken_in(store: Store) -> None:
    made = await missed(store, {0: S.RUNNING})
    report(made, 0, S.RUNNING)
    made.recovery = Recovery(made.driver, store.jobs, Failing(store, made, end=True))  # type: ignore[arg-type]
    assert await lookup(made).look() == 0
    assert made.states() == {}


def test_what_is_noted_is_bounded() -> None:
    strangers = Strangers()
    for instance in range(MOST + 5):
        strangers.note(Run(JOB, instance, 1))
    assert len(strangers) == MOST
    assert strangers.ask(2) == [Run(JOB, 0, 1), Run(JOB, 1, 1)]
    strangers.note(Run(JOB, 0, 1))
    assert len(strangers) == MOST - 2, "it is being looked up"
    assert strangers.answered(Run(JOB, 0, 1))
    assert not strangers.answered(Run(JOB, 0, 1))
