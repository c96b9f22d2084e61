"""Workflows in the core: batches, failures, rollback, pause, and what they leave alone."""

from __future__ import annotations

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from peloton.errors import Conflict, InvalidArgument
from peloton.model.ids import Run
from peloton.model.states import HealthState, JobState, TaskState
from peloton.model.workflow import (
    EntityVersion,
    Range,
    Workflow,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from tests.unit.jobmgr_core.services import Service, running, service, state, told
from tests.unit.jobmgr_core.specs import JOB

S, W, T, A = TaskState, WorkflowState, WorkflowType, ev.WorkflowAction


def test_an_update_brings_all_instances_to_the_new_version() -> None:
    it = running()
    it.update(service(command="new"))
    assert state(it) is W.INITIALIZED
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.SUCCEEDED, [2, 2, 2], ["RUNNING"] * 3)
    assert [task.run for task in it.rows.values()] == [2, 2, 2]
    assert told(it) == ["INITIALIZED", "ROLLING_FORWARD", "SUCCEEDED"]
    assert told(it, 1) == ["ROLLING_FORWARD", "SUCCEEDED"]
    assert it.workflow is not None and (it.workflow.done, it.workflow.remaining) == (3, 0)
    assert it.runtime.config_counts == {2: 3}
    assert set(it.core.active.jobs[JOB].job.specs) == {2}


def test_no_more_than_a_batch_is_in_flight() -> None:
    it = running(10)
    it.update(service(10, command="new"), batch_size=3)
    most = 0
    while not state(it).terminal:
        it.step()
        most = max(most, it.states().count("RUNNING") * -1 + 10)
    assert most == 3
    assert it.versions() == [2] * 10


def test_a_batch_of_a_percentage_is_rounded_up() -> None:
    it = running(10)
    it.update(service(10, command="new"), batch_percentage=15)
    it.cycle()
    it.cycle()
    assert [task.desired_config_version for task in it.rows.values()].count(2) == 2


def test_unchanged_instances_get_the_version_without_a_restart() -> None:
    it = running()
    it.update(service())
    it.settle()
    assert (state(it), it.versions(), [task.run for task in it.rows.values()]) == (
        W.SUCCEEDED,
        [2, 2, 2],
        [1, 1, 1],
    )


def test_instances_are_added_and_removed_and_their_runs_go_on_counting() -> None:
    it = running()
    it.update(service(5))
    it.settle()
    assert (it.states(), it.versions()) == (["RUNNING"] * 5, [2] * 5)
    it.update(service(2), batch_size=1)
    it.settle()
    assert (state(it), sorted(it.tasks), it.runtime.task_counts) == (W.SUCCEEDED, [0, 1], {S.RUNNING: 2})
    it.fall()
    it.update(service(3))
    it.settle()
    assert (it.rows[2].state, it.rows[2].run, sorted(it.tasks)) == (S.RUNNING, 2, [0, 1, 2])
    assert it.runtime.config_counts == {4: 3}


def test_an_update_waits_for_health() -> None:
    it = running(2, checked=True)
    it.say(1, 1, S.RUNNING, healthy=True)
    it.say(0, 1, S.RUNNING, healthy=True)
    it.update(service(2, command="new", checked=True), batch_size=1)
    it.settle()
    assert it.versions() == [2, 1]
    assert it.rows[0].health is HealthState.UNKNOWN
    it.say(0, 2, S.RUNNING, healthy=True)
    it.settle()
    assert it.versions() == [2, 2]


def test_unavailable_instances_are_updated_first() -> None:
    it = running(4)
    it.end(2)
    it.update(service(4, command="new"), batch_size=1)
    it.cycle()
    it.cycle()
    assert [task.desired_config_version for task in it.rows.values()] == [1, 1, 2, 1]


def _goals(it: Service) -> list[TaskState]:
    return [task.goal for _, task in sorted(it.rows.items())]


def _without_room(it: Service) -> None:
    """Everything goes on, but resmgr finds no place."""
    for _ in range(5):
        it.cycle()
        it.act()
        it.run()


def test_instances_are_removed_beside_what_waits_for_their_room() -> None:
    it = running(5)
    it.update(service(3, command="new"), batch_size=1)
    _without_room(it)
    assert (it.rows[0].state, it.rows[0].run) == (S.PENDING, 2)
    it.wait(59)
    assert _goals(it)[4] is S.RUNNING, "it may find room yet"
    it.wait(2)
    assert _goals(it) == [*[S.RUNNING] * 3, S.DELETED, S.RUNNING]
    _without_room(it)
    assert [it.rows[i].state for i in (3, 4)] == [S.DELETED, S.RUNNING], "no more than a batch of them"
    it.wait(61)
    _without_room(it)
    assert sorted(it.tasks) == [0, 1, 2]
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.SUCCEEDED, [2] * 3, ["RUNNING"] * 3)


def test_what_a_rollback_finds_in_flight_is_removed_beside_what_waits_for_its_room() -> None:
    """It was added by the update that failed, and its next run may get the room."""
    it = running(2)
    bounds = {"max_instance_attempts": 1, "max_failure_instances": 1}
    it.update(service(3, command="new"), batch_size=1, rollback_on_failure=True, **bounds)
    it.step()
    it.step()
    assert (it.rows[0].state, it.rows[0].run, it.rows[2].state) == (S.PENDING, 2, S.RUNNING)
    it.end(2)
    it.place()
    it.act()
    it.run(0)
    it.end(0)
    _without_room(it)
    assert (it.rows[0].state, it.rows[0].run, state(it)) == (S.PENDING, 3, W.ROLLING_BACKWARD)
    it.wait(40)
    _without_room(it)
    assert it.rows[2].run == 2, "it runs again meanwhile"
    it.wait(61)
    _without_room(it)
    assert sorted(it.tasks) == [0, 1]
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.ROLLED_BACK, [1] * 2, ["RUNNING"] * 2)


def test_instances_are_not_removed_beside_what_does_not_wait_for_room() -> None:
    it = running(3, checked=True)
    it.update(service(2, command="new", checked=True), batch_size=1)
    it.settle()
    assert it.rows[0].state is S.RUNNING and it.rows[0].health is HealthState.UNKNOWN
    it.wait(600)
    assert _goals(it)[2] is S.RUNNING
    it.steer(A.PAUSE)
    it.end(0)
    _without_room(it)
    it.wait(600)
    _without_room(it)
    assert (it.rows[0].state, _goals(it)[2]) == (S.PENDING, S.RUNNING), "a paused update does not either"
    it.steer(A.RESUME)
    it.cycle()
    assert _goals(it)[2] is S.RUNNING
    it.fall()
    it.wait(61)
    it.cycle()
    assert _goals(it)[2] is S.DELETED, "also with the next leader"


def test_stopped_instances_stay_stopped_unless_asked_for() -> None:
    it = running()
    it.ask(ev.StopRequested(JOB, [1]))
    it.settle()
    it.update(service(command="new"))
    it.settle()
    assert (state(it), it.versions(), it.states()) == (
        W.SUCCEEDED,
        [2, 2, 2],
        ["RUNNING", "KILLED", "RUNNING"],
    )
    it.update(service(command="newer"), start_tasks=True)
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["RUNNING"] * 3)


def test_a_paused_update_goes_no_further_and_resumes() -> None:
    it = running(4)
    it.update(service(4, command="new"), batch_size=1)
    it.step()
    assert isinstance(it.steer(A.PAUSE), EntityVersion)
    it.settle()
    assert (state(it), it.versions()) == (W.PAUSED, [2, 1, 1, 1])
    it.fall()
    it.settle()
    assert it.versions() == [2, 1, 1, 1]
    it.steer(A.RESUME)
    it.settle()
    assert (state(it), it.versions()) == (W.SUCCEEDED, [2] * 4)


def test_it_can_start_paused() -> None:
    it = running()
    it.update(service(command="new"), start_paused=True)
    it.settle()
    assert (state(it), it.versions()) == (W.PAUSED, [1, 1, 1])


def test_an_aborted_update_leaves_instances_as_they_are() -> None:
    it = running(4)
    it.update(service(4, command="new"), batch_size=2)
    it.cycle()
    it.cycle()
    it.steer(A.ABORT)
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.ABORTED, [2, 2, 1, 1], ["RUNNING"] * 4)


def test_a_soft_abort_waits_for_what_is_in_flight() -> None:
    it = running(4)
    it.update(service(4, command="new"), batch_size=2)
    it.cycle()
    it.cycle()
    it.steer(A.ABORT_SOFTLY)
    assert state(it) is W.ROLLING_FORWARD
    it.settle()
    assert (state(it), it.versions()) == (W.ABORTED, [2, 2, 1, 1])


def test_a_newer_update_takes_the_place_of_one_that_runs() -> None:
    it = running(4)
    first = it.update(service(4, command="new"), batch_size=1)
    it.step()
    it.update(service(4, command="newer"), batch_size=2)
    assert it.workflows[first].state is W.ABORTED
    it.settle()
    assert (state(it), it.versions()) == (W.SUCCEEDED, [3] * 4)


def test_other_workflows_do_not_overlap() -> None:
    it = running()
    it.begin(T.RESTART, batch_size=1)
    refused = it.update(service(command="new"))
    assert isinstance(refused, InvalidArgument)
    assert "workflow: 'UPDATE' is not possible while RESTART" in str(refused)


def test_a_restart_is_of_its_instances_alone() -> None:
    it = running(5)
    it.begin(T.RESTART, ranges=(Range(1, 3),), batch_size=1)
    it.settle()
    assert (state(it), [task.run for task in it.rows.values()]) == (W.SUCCEEDED, [1, 2, 2, 1, 1])
    assert it.versions() == [1, 2, 2, 1, 1]


def test_a_restart_starts_what_is_stopped() -> None:
    it = running(4)
    it.ask(ev.StopRequested(JOB, [1]))
    it.settle()
    it.begin(T.RESTART, batch_size=1)
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["RUNNING"] * 4)
    assert [task.run for task in it.rows.values()] == [2] * 4
    assert [task.goal for task in it.rows.values()] == [S.RUNNING] * 4


def test_a_restart_of_a_stopped_service_makes_its_goal_running() -> None:
    it = running(3)
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    it.settle()
    version = it.runtime.desired_state_version
    it.begin(T.RESTART, batch_size=1)
    it.fall()
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["RUNNING"] * 3)
    assert (it.runtime.goal, it.runtime.state) == (JobState.RUNNING, JobState.RUNNING)
    assert it.runtime.desired_state_version == version + 1


def test_a_restart_of_a_service_that_is_being_stopped_lets_it_run() -> None:
    it = running(2)
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    assert it.states() == ["KILLING"] * 2
    it.begin(T.RESTART)
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["RUNNING"] * 2)


def test_a_restart_of_ranges_of_a_stopped_service_starts_these_alone() -> None:
    it = running(4)
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    it.settle()
    it.begin(T.RESTART, ranges=(Range(1, 3),), batch_size=1)
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["KILLED", "RUNNING", "RUNNING", "KILLED"])
    assert it.runtime.goal is JobState.RUNNING


def test_an_instance_that_is_stopped_after_it_was_restarted_stays_stopped() -> None:
    it = running(3)
    it.begin(T.RESTART, batch_size=1)
    while it.states()[0] != "RUNNING" or it.rows[0].run == 1:
        it.step()
    it.ask(ev.StopRequested(JOB, [0]))
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["KILLED", "RUNNING", "RUNNING"])


def test_a_stop_of_all_instances_kills_the_job_and_a_start_brings_it_back() -> None:
    it = running(4)
    it.begin(T.STOP, batch_size=1)
    it.settle()
    assert (state(it), it.states(), it.runtime.goal) == (W.SUCCEEDED, ["KILLED"] * 4, JobState.KILLED)
    it.settle()
    assert it.runtime.state is JobState.KILLED
    it.begin(T.START, ranges=(Range(0, 2),), batch_size=1)
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["RUNNING", "RUNNING", "KILLED", "KILLED"])


def test_stop_before_update_stops_all_that_change_before_the_first_starts() -> None:
    it = running(4)
    it.ask(ev.StopRequested(JOB, [3]))
    it.settle()
    it.update(service(4, command="new"), batch_size=1, stop_before_update=True)
    while not state(it).terminal:
        it.step()
        begun = [task for task in it.rows.values() if task.config_version == 2 and task.goal is S.RUNNING]
        old = [task for task in it.rows.values() if task.config_version == 1]
        assert not begun or all(task.state is S.KILLED for task in old)
    assert (it.states(), it.versions()) == (["RUNNING"] * 3 + ["KILLED"], [2] * 4)


def test_a_service_is_created_in_batches() -> None:
    fresh = Workflow("create", JOB, T.UPDATE, W.INITIALIZED, WorkflowOptions(batch_size=2), 1, 0)
    it = Service(service(5), created=fresh)
    it.cycle()
    assert len(it.tasks) == 2
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["RUNNING"] * 5)


def test_in_place_keeps_the_host() -> None:
    it = running(1)
    it.update(service(1, command="new"), in_place=True)
    it.cycle()
    it.cycle()
    it.act()
    assert (it.rows[0].state, it.rows[0].run, it.rows[0].desired_host) == (S.INITIALIZED, 2, "host")


@pytest.mark.parametrize("type_", [T.UPDATE, T.RESTART])
@pytest.mark.parametrize("in_place", [False, True])
def test_in_place_the_first_kill_holds_the_host(type_: WorkflowType, in_place: bool) -> None:
    it = running(2)
    it.begin(type_, service(2, command="new") if type_ is T.UPDATE else None, in_place=in_place)
    it.cycle()
    it.cycle()
    runs = Run(JOB, 0, 1), Run(JOB, 1, 1)
    held = tuple((run, "host") for run in runs) if in_place else ()
    assert [each for each in it.todo if isinstance(each, ins.Kill)] == [ins.Kill(runs, held)]
    it.todo.clear()
    it.wait(15)
    it.cycle()
    assert [each for each in it.todo if isinstance(each, ins.Kill)] == [ins.Kill(runs)], "repeated"


def test_a_stopped_instance_holds_no_host() -> None:
    it = running(1)
    it.update(service(1, command="new"), in_place=True)
    it.settle()
    assert it.rows[0].desired_host == "host"
    it.ask(ev.StopRequested(JOB, None))
    it.cycle()
    assert [each for each in it.todo if isinstance(each, ins.Kill)] == [ins.Kill((Run(JOB, 0, 2),))]


def test_a_stale_version_is_refused() -> None:
    it = running()
    reply = it.begin(T.UPDATE, service(command="new"), expected=EntityVersion(7, 1, 0))
    assert isinstance(reply, Conflict)
    assert str(reply).startswith("unexpected entity version")
    assert it.workflow is None


def test_stop_job_is_refused_while_an_update_starts_instances() -> None:
    it = running()
    it.update(service(command="new"), start_tasks=True, start_paused=True)
    it.cycle()
    assert isinstance(it.ask(ev.JobGoalRequested(JOB, JobState.KILLED)), Conflict)


def test_an_instance_that_was_removed_is_not_looked_for_in_resmgr() -> None:
    it = running(3)
    it.end(2, S.LOST)
    it.cycle()
    it.update(service(2))
    it.settle()
    it.update(service(2, command="new"))
    it.settle()
    assert it.rows[2].state is S.DELETED
    it.core.active.comparing += 1  # a question that was asked before the instance was removed
    it.cycle(ev.Compared(JOB, [(2, it.rows[2].run)]))
    assert (it.states(), it.versions()) == (["RUNNING"] * 2, [3, 3])


def test_an_instance_that_is_being_removed_comes_back_stopped_where_the_job_is() -> None:
    it = running(3)
    it.update(service(2))
    it.cycle()
    it.cycle()
    assert it.rows[2].goal is S.DELETED
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    it.update(service(3))
    it.settle()
    assert (state(it), it.states()) == (W.SUCCEEDED, ["KILLED"] * 3)


def test_what_is_adopted_while_it_is_down_has_its_part_of_the_batch() -> None:
    it = running(4)
    it.update(service(4, command="new"), batch_size=2)
    while it.rows[1].state is not S.PENDING:
        it.cycle()
        it.act()
    it.update(service(5, command="new"), batch_size=1)
    it.cycle()
    it.cycle()
    assert [task.desired_config_version for task in it.rows.values()] == [3, 3, 1, 1]
    assert it.states() == ["PENDING"] * 2 + ["RUNNING"] * 2
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.SUCCEEDED, [3] * 5, ["RUNNING"] * 5)
