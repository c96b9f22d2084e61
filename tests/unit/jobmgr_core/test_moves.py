"""Each move in the table of a task's moves is reached, and no other is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, get_type_hints

import pytest

from jobmgr.core.cycle import Core
from jobmgr.core.state import change
from jobmgr.core.state import events as ev
from jobmgr.core.state import job_states as job_state
from jobmgr.core.state.revisions import next_revision
from jobmgr.core.state.task_states import MACHINE, Cause, Details, state_after
from peloton.errors import IllegalTransition
from peloton.model.ids import JobId, Run, mesos_task_id
from peloton.model.job import JobRuntime
from peloton.model.retry import RuleEnds
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from tests.contract.storage.samples import task_runtime
from tests.interpreted import interpreted
from tests.unit.jobmgr_core.specs import JOB, spec, stored_job

S, C = TaskState, Cause
SECOND = 1_000_000_000
STATUS = {
    C.REPORTED_LAUNCHED: S.LAUNCHED,
    C.REPORTED_STARTING: S.STARTING,
    C.REPORTED_RUNNING: S.RUNNING,
    C.SUCCEEDED: S.SUCCEEDED,
    C.FAILED: S.FAILED,
    C.LOST: S.LOST,
    C.KILLED: S.KILLED,
    C.NOT_STARTED: S.LOST,
}
CREATION = (C.CREATED, C.CREATED_STOPPED)


class Driver:
    """A core with one job of two instances, of which the first is in a given state."""

    def __init__(self) -> None:
        self.core = Core()
        self.seconds = 0.0
        self.runtime = JobRuntime(JobState.PENDING, JobState.SUCCEEDED, 1, 1)

    def recovered(self, state: TaskState, goal: TaskState = S.SUCCEEDED) -> None:
        rows = {i: TaskRuntime(s, goal, 1, 1, 1, 1) for i, s in enumerate((state, S.PENDING))}
        self.core.active.recover(stored_job(self.runtime, rows, spec(2)))

    def send(self, *events: ev.Event) -> None:
        now = ev.Now(round(self.seconds * SECOND), self.seconds)
        self.core.commit(self.core.run_cycle(list(events), now))

    def place(self) -> None:
        self.send(ev.Placed([ev.Placement("host", "agent", "offer", (), (Run(JOB, 0, 1),))]))


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[TaskState, Cause]]]:
    seen: set[tuple[TaskState, Cause]] = set()

    def recording(job_id: JobId, instance: int, task: TaskRuntime, cause: Cause) -> TaskState:
        seen.add((task.state, cause))
        return state_after(job_id, instance, task, cause)

    monkeypatch.setattr(change, "state_after", recording)
    yield seen


def enqueue_refused(driver: Driver) -> None:
    driver.send()
    driver.send(ev.Compared(JOB, [(0, 1)]))
    driver.send(ev.EnqueueRefused(JOB, [(0, 1)], "the pool is full"))


def silent(driver: Driver) -> None:
    driver.send()
    driver.seconds = 181 * 60.0
    driver.send()


def cancelled(driver: Driver) -> None:
    driver.send()
    driver.send(ev.StopRequested(JOB, [0]))
    driver.send(ev.Withdrawn(JOB, [(0, 1)]))
    driver.send(ev.LaunchRefused([Run(JOB, 0, 1)], "invalid offers", faulty=False))


def survived(driver: Driver, state: TaskState) -> None:
    """A run is lost, and lives: resmgr has taken its replacement, or refused it."""
    driver.send(status(S.LOST))
    driver.send(status(S.RUNNING))
    refused = ev.EnqueueRefused(JOB, [(0, 2)], "the pool is full")
    driver.send(ev.Enqueued(JOB, [(0, 2)]) if state is S.PENDING else refused)
    driver.send(ev.Withdrawn(JOB, [(0, 2)]))


def status(state: TaskState) -> ev.Statuses:
    return ev.Statuses([(Run(JOB, 0, 1), TaskStatus(mesos_task_id(JOB, 0, 1), state, 0, uuid=b"agent"))])


STEPS: dict[Cause, Callable[[Driver], None]] = {
    C.ENQUEUED: lambda driver: driver.send(ev.Enqueued(JOB, [(0, 1)])),
    C.ENQUEUE_REFUSED: enqueue_refused,
    C.PLACED: Driver.place,
    C.SILENT: silent,
    C.CANCELLED: cancelled,
    C.KILL: lambda driver: driver.send(ev.StopRequested(JOB, [0])),
    C.NEXT_RUN: lambda driver: driver.send(ev.RestartRequested(JOB, [0])),
    C.REMOVED: lambda driver: driver.send(),
}


@interpreted
@pytest.mark.parametrize(("state", "cause"), [move for move in MACHINE.table if move[1] not in CREATION])
def test_each_move_is_reached(state: TaskState, cause: Cause, reached: set[tuple[TaskState, Cause]]) -> None:
    driver = Driver()
    if (state, cause) == (S.LAUNCHED, C.CANCELLED):  # the launch of a run that is stopped is refused
        driver.recovered(S.PENDING)
        driver.place()
    elif cause is C.SURVIVED:
        driver.recovered(S.LAUNCHED)
    else:
        driver.recovered(state, S.DELETED if cause is C.REMOVED else S.SUCCEEDED)
    if cause in STATUS:
        driver.send(status(STATUS[cause]))
    elif cause is C.SURVIVED:
        survived(driver, state)
    else:
        STEPS[cause](driver)
    assert (state, cause) in reached


@pytest.mark.parametrize("cause", CREATION)
def test_instances_are_created(cause: Cause) -> None:
    driver = Driver()
    driver.core.active.create(JOB, spec(2), driver.runtime)
    driver.send(*([ev.StopRequested(JOB, [0])] if cause is C.CREATED_STOPPED else []))
    assert driver.core.active.jobs[JOB].job.tasks[0].state is MACHINE.next(S.UNKNOWN, cause)


def test_an_illegal_move_describes_its_task() -> None:
    task = TaskRuntime(S.RUNNING, S.SUCCEEDED, 3, 1, 1, 3, host="host7", message="on its way")
    with pytest.raises(IllegalTransition) as caught:
        state_after(JOB, 5, task, C.PLACED)
    for part in (f"{JOB}-5", "run 3", "no PLACED in RUNNING", "host7", "on its way", "KILL"):
        assert part in str(caught.value)


def test_a_move_can_set_every_field_but_those_of_the_change() -> None:
    kept = {"state", "revision", "created_at", "updated_at"}
    assert get_type_hints(Details) == {
        name: kind for name, kind in get_type_hints(TaskRuntime).items() if name not in kept
    }


def test_a_revision_keeps_all_fields_that_it_is_not_about() -> None:
    """Each field is named where the next revision is made: one that was left out would lose its value."""
    old = replace(
        task_runtime(run=5),
        throttled=True,
        killed_for="stopped by ann",
        previous_state=TaskState.FAILED,
        saved_at=7,
        rule_ends=RuleEnds(),
    )
    unset = TaskRuntime(TaskState.UNKNOWN, TaskState.UNKNOWN, 0, 0, 0, 0, revision=0)
    same = [each.name for each in fields(TaskRuntime) if getattr(old, each.name) == getattr(unset, each.name)]
    assert same == [], "of a field with its default nobody sees whether it is kept"
    expected = replace(old, state=TaskState.LOST, revision=old.revision + 1, updated_at=9, host="h9")
    assert next_revision(old, TaskState.LOST, 9, {"host": "h9"}) == expected


def test_a_job_that_has_ended_does_not_grow() -> None:
    driver = Driver()
    driver.runtime = JobRuntime(JobState.SUCCEEDED, JobState.SUCCEEDED, 1, 1)
    row = TaskRuntime(S.SUCCEEDED, S.SUCCEEDED, 1, 1, 1, 1)
    driver.core.active.recover(stored_job(driver.runtime, {0: row}, spec(1)))
    driver.send(ev.JobUpdated(JOB, spec(2, version=2), 1))
    assert JOB not in driver.core.active.jobs


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED])
def test_a_job_that_has_ended_stays_as_it_is(state: JobState) -> None:
    for cause in job_state.JobCause:
        if job_state.MACHINE.allows(state, cause):
            assert job_state.MACHINE.next(state, cause) is state


@interpreted
def test_a_step_of_a_job_keeps_all_fields_that_it_is_not_about() -> None:
    """Each field is named where the next revision is made: one that was left out would lose its value."""
    changed = {
        *("state", "config_version", "start_time", "completion_time", "task_counts", "config_counts"),
        *("resource_usage", "revision", "updated_at"),
    }
    kept = [each.name for each in fields(JobRuntime) if each.name not in changed]
    runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1234)
    marks: dict[str, Any] = {
        "goal": JobState.SUCCEEDED,
        "unmet": (),
        "schedule": None,
        "released": 0,
        "suspended": 0,
    }
    for name in kept:
        setattr(runtime, name, marks.setdefault(name, 77))  # its class does not refuse it: see fast_init
    core = Core()
    core.active.create(JOB, spec(), runtime)
    core.commit(core.run_cycle([], ev.Now(5, 1.0)))
    after = core.active.jobs[JOB].job.runtime
    assert after is not runtime and after.revision == 2
    assert {name: getattr(after, name) for name in kept} == {name: marks[name] for name in kept}
