"""Services: run again after a pause that grows with their failures; stopped and started as a whole."""

from __future__ import annotations

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.throttling import THROTTLED
from peloton.model.states import HealthState, JobState, TaskState
from peloton.model.workflow import Workflow, WorkflowOptions, WorkflowState, WorkflowType
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

S = TaskState


def running(instances: int = 3, checked: bool = False) -> Service:
    it = Service(service(instances, checked=checked))
    it.settle()
    return it


def test_a_service_runs_and_its_job_does() -> None:
    it = running()
    assert it.states() == ["RUNNING"] * 3
    assert it.runtime.state is JobState.RUNNING
    assert {task.goal for task in it.rows.values()} == {S.RUNNING}


@pytest.mark.parametrize("end", [S.FAILED, S.SUCCEEDED, S.KILLED])
def test_an_instance_that_ends_runs_again_after_a_pause(end: TaskState) -> None:
    it = running()
    it.end(1, end)
    assert (it.rows[1].state, it.rows[1].message, it.rows[1].failure_count) == (end, THROTTLED, 1)
    assert it.rows[1].throttled
    it.wait(29)
    it.settle()
    assert it.rows[1].state is end
    it.wait(2)
    it.settle()
    assert (it.rows[1].state, it.rows[1].run, it.rows[1].failure_count) == (S.RUNNING, 2, 1)


def test_the_pause_doubles_up_to_an_hour() -> None:
    it = running(1)
    for pause in (30, 60, 120, 240, 480, 960, 1920, 3600, 3600):
        run = it.rows[0].run
        it.end(0)
        it.wait(pause - 1)
        it.settle()
        assert it.rows[0].run == run
        it.wait(2)
        it.settle()
        assert (it.rows[0].run, it.rows[0].state) == (run + 1, S.RUNNING)


def test_a_lost_instance_runs_again_at_once() -> None:
    it = running()
    it.end(2, S.LOST)
    it.settle()
    assert (it.rows[2].state, it.rows[2].run, it.rows[2].failure_count) == (S.RUNNING, 2, 0)


def test_a_new_leader_keeps_to_the_pause() -> None:
    it = running()
    it.end(0)
    it.wait(20)
    it.fall()
    it.settle()
    assert it.states()[0] == "FAILED"
    it.wait(11)
    it.settle()
    assert it.rows[0].state is S.RUNNING


def test_health_is_unknown_until_the_first_check() -> None:
    it = running(1, checked=True)
    seen = [it.rows[0].health]
    for healthy in (True, False):
        it.say(0, 1, S.RUNNING, healthy=healthy)
        seen.append(it.rows[0].health)
    assert seen == [HealthState.UNKNOWN, HealthState.HEALTHY, HealthState.UNHEALTHY]


def test_an_unhealthy_instance_that_mesos_kills_runs_again() -> None:
    it = running(1, checked=True)
    it.end(0, S.KILLED, healthy=False)
    assert (it.rows[0].health, it.rows[0].failure_count) == (HealthState.INVALID, 1)
    it.wait(31)
    it.settle()
    assert (it.rows[0].state, it.rows[0].run) == (S.RUNNING, 2)


def test_a_stopped_service_is_killed_and_can_be_started_again() -> None:
    it = running()
    it.end(1)
    version = it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    assert str(version) == "1-2-0"
    it.settle()
    assert (it.states(), it.runtime.state) == (["KILLED", "FAILED", "KILLED"], JobState.KILLED)
    it.fall()
    it.wait(1000)
    it.settle()
    assert it.runtime.state is JobState.KILLED
    it.ask(ev.JobGoalRequested(JOB, JobState.RUNNING))
    it.settle()
    assert (it.states(), it.runtime.state) == (["RUNNING"] * 3, JobState.RUNNING)


def test_one_instance_is_stopped_and_started() -> None:
    it = running()
    assert it.ask(ev.StopRequested(JOB, [1])) == [1]
    it.settle()
    assert (it.states(), it.runtime.state) == (["RUNNING", "KILLED", "RUNNING"], JobState.RUNNING)
    it.wait(1000)
    it.settle()
    assert it.rows[1].state is S.KILLED
    assert it.ask(ev.StartRequested(JOB, [1])) == [1]
    it.settle()
    assert it.states() == ["RUNNING"] * 3


def test_a_service_whose_instances_were_all_stopped_one_by_one_is_killed() -> None:
    it = running()
    it.end(2)
    for instance in range(3):
        assert it.runtime.state.name != "KILLED"
        it.ask(ev.StopRequested(JOB, [instance]))
        it.settle()
    assert it.states() == ["KILLED", "KILLED", "FAILED"]
    assert (it.runtime.state, it.runtime.goal) == (JobState.KILLED, JobState.RUNNING)
    it.fall()
    it.settle()
    assert it.runtime.state.name == "KILLED"
    it.ask(ev.StartRequested(JOB, [1]))
    assert it.runtime.state.name == "PENDING"
    it.settle()
    assert it.runtime.state.name == "RUNNING"


def test_a_service_whose_instances_are_all_stopped_for_an_update_is_not_killed() -> None:
    it = running(2)
    it.update(service(2, command="new"), batch_size=1, stop_before_update=True)
    while it.states() != ["KILLING"] * 2:
        it.cycle()
    it.steer(ev.WorkflowAction.PAUSE)
    it.settle()
    assert (it.states(), it.runtime.state) == (["KILLED"] * 2, JobState.PENDING)


def test_a_service_that_is_being_created_is_not_killed_by_the_stop_of_its_first_instances() -> None:
    fresh = Workflow("create", JOB, WorkflowType.UPDATE, WorkflowState.INITIALIZED, WorkflowOptions(1), 1, 0)
    it = Service(service(3), created=fresh)
    it.cycle()
    it.steer(ev.WorkflowAction.PAUSE)
    it.ask(ev.StopRequested(JOB, [0]))
    it.settle()
    assert (it.states(), it.runtime.state) == (["KILLED"], JobState.PENDING)


def test_throttled_instances_are_known_until_they_run_again() -> None:
    it = running()
    it.end(1)
    it.end(2)
    assert (it.core.active.jobs[JOB].job.throttled, it.runtime.state) == ({1, 2}, JobState.RUNNING)
    it.end(0)
    assert it.runtime.state is JobState.PENDING
    it.fall()
    assert it.core.active.jobs[JOB].job.throttled == {0, 1, 2}
    it.ask(ev.StopRequested(JOB, [1]))
    assert it.core.active.jobs[JOB].job.throttled == {0, 2}
    it.wait(31)
    assert it.core.active.jobs[JOB].job.throttled == set()


def test_a_restart_of_a_stopped_instance_starts_it() -> None:
    it = running()
    it.ask(ev.StopRequested(JOB, [1]))
    it.settle()
    assert it.ask(ev.RestartRequested(JOB, [1])) == [1]
    it.settle()
    assert (it.states(), it.rows[1].goal) == (["RUNNING"] * 3, S.RUNNING)


def test_restarting_instances_of_a_stopped_service_is_refused_by_what_the_job_is() -> None:
    it = running()
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    assert str(it.ask(ev.RestartRequested(JOB, [1]))).endswith("a job that is being stopped")
    it.settle()
    refused = str(it.ask(ev.RestartRequested(JOB, [1])))
    assert refused == "cannot restart tasks in a job that is stopped: start or restart the job"
    it.ask(ev.JobGoalRequested(JOB, JobState.DELETED))
    assert str(it.ask(ev.RestartRequested(JOB, [1]))).startswith("cannot restart tasks in a")


def test_an_instance_that_waits_for_its_next_run_can_be_stopped() -> None:
    it = running()
    it.end(1)
    assert it.ask(ev.StopRequested(JOB, [1])) == [1]
    it.wait(1000)
    it.settle()
    assert it.rows[1].state is S.FAILED


def test_a_service_that_is_to_be_deleted_ends_and_is_gone() -> None:
    it = running()
    it.ask(ev.JobGoalRequested(JOB, JobState.DELETED))
    it.settle()
    assert it.deleted
    assert not it.core.active.jobs


def test_a_service_that_fails_in_starting_is_patient() -> None:
    it = Service(service(1))
    it.cycle()
    it.act()
    it.place()
    it.act()
    it.say(0, 1, S.STARTING)
    it.alive[0, 1] = S.STARTING
    it.wait(4 * 3600)
    assert (it.rows[0].state, it.rows[0].run) == (S.STARTING, 1)
