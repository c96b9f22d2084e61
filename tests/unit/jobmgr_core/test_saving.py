"""How much work is lost where the run of a task ends that saves its work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.services.common.reasons import reason_of
from peloton.clock import NANOSECONDS
from peloton.model.ids import Run
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus, Termination
from peloton.model.workload import TaskWorkload
from storage.codec import TASK_RUNTIME
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_interrupted_leaders import WALL, Leader

S = TaskState
START = WALL - 100 * NANOSECONDS


def leader(file: str = "last", **changes: object) -> Leader:
    plain = spec(1, max_failures=3)
    made = replace(plain, default=replace(plain.default, workload=TaskWorkload(checkpoint_file=file)))
    row = TaskRuntime(S.RUNNING, S.SUCCEEDED, 1, 1, 1, 1, host="h", agent_id="a", start_time=START)
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, START)
    held = Leader(made, runtime, {0: replace(row, **changes)})  # type: ignore[arg-type]
    held.run_cycle()
    return held


def status(state: TaskState, saved: float = 0.0, run: int = 1) -> ev.Statuses:
    """A status of now, of a run that saved its work some seconds before; 0: it does not tell of any."""
    saved_at = WALL - round(saved * NANOSECONDS) if saved else 0
    return ev.Statuses([(Run(JOB, 0, run), TaskStatus("", state, WALL, uuid=b"1", saved_at=saved_at))])


def lost(held: Leader, *statuses: ev.Statuses) -> float:
    """The seconds that are lost with these statuses, by the job and by its task."""
    before = held.core.active.jobs[JOB].job.runtime.resource_usage.get("lost", 0.0)
    cycles = [held.run_cycle(each) for each in statuses]
    change = cycles[-1].changes[JOB]
    assert change.runtime is not None
    after = change.runtime.resource_usage.get("lost", 0.0)
    assert after == change.task(0).resource_usage.get("lost", 0.0)
    assert change.lost_seconds == pytest.approx(after - before)
    return after - before


def test_work_since_the_last_checkpoint_is_lost_and_that_before_is_not() -> None:
    held = leader()
    assert lost(held, status(S.RUNNING, saved=30), status(S.FAILED)) == pytest.approx(30, abs=0.1)
    assert held.task(0).run == 2


def test_the_last_status_may_tell_a_later_checkpoint() -> None:
    assert lost(leader(), status(S.RUNNING, 30), status(S.LOST, saved=2)) == pytest.approx(2, abs=0.1)


def test_without_a_checkpoint_all_work_is_lost() -> None:
    assert lost(leader(), status(S.FAILED)) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [
        (TerminationReason.PREEMPTED_RESOURCES, 30.0),
        (TerminationReason.KILLED_HOST_MAINTENANCE, 30.0),
        (TerminationReason.KILLED_ON_REQUEST, 0.0),
    ],
)
def test_what_somebody_stopped_is_not_lost(reason: TerminationReason, seconds: float) -> None:
    goal = S.KILLED if reason is TerminationReason.KILLED_ON_REQUEST else S.SUCCEEDED
    held = leader(state=S.KILLING, goal=goal, desired_run=2, termination=Termination(reason))
    assert lost(held, status(S.KILLED, saved=30)) == pytest.approx(seconds, abs=0.1)


def test_nothing_is_lost_by_success_or_without_checkpoints() -> None:
    assert lost(leader(), status(S.SUCCEEDED, saved=30)) == 0.0
    assert lost(leader(file=""), status(S.FAILED)) == 0.0


def test_a_running_task_says_when_it_has_saved_and_its_next_run_does_not() -> None:
    held = leader()
    held.run_cycle(status(S.RUNNING, saved=30))
    job = held.core.active.jobs[JOB].job
    assert reason_of(job, 0) == "last checkpoint 2023-11-14T22:12:50Z"
    held.run_cycle(status(S.RUNNING, saved=60))
    assert reason_of(job, 0) == "last checkpoint 2023-11-14T22:12:50Z", "an earlier one came late"
    held.run_cycle(status(S.FAILED))
    assert reason_of(job, 0) == ""


def test_the_next_leader_knows_the_last_checkpoint_and_that_it_tells_of_no_step() -> None:
    held = leader()
    cycle = held.run_cycle(status(S.RUNNING, saved=30))
    assert cycle.changes[JOB].events == [], "a checkpoint is no step of the run"
    stored = TASK_RUNTIME.decode(TASK_RUNTIME.encode(cycle.changes[JOB].tasks[0]))
    following = Leader(
        held.core.active.jobs[JOB].job.spec, held.core.active.jobs[JOB].job.runtime, {0: stored}
    )
    following.run_cycle()
    assert reason_of(following.core.active.jobs[JOB].job, 0) == "last checkpoint 2023-11-14T22:12:50Z"
    assert lost(following, status(S.FAILED)) == pytest.approx(30, abs=0.1)
    assert following.task(0).run == 2 and following.task(0).saved_at == 0
