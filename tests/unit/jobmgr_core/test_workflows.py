"""Workflows in the core: batches, failures, rollback, pause, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.workflow.states import MACHINE, WorkflowCause
from peloton.errors import Conflict, InvalidArgument
from peloton.model.ids import Run
from peloton.model.states import HealthState, JobState, TaskState
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    EntityVersion,
    Range,
    Workflow,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

S, W, T, A = TaskState, WorkflowState, WorkflowType, ev.WorkflowAction


def running(instances: int = 3, checked: bool = False) -> Service:
    it = Service(service(instances, checked=checked))
    it.settle()
    it.run(healthy=True)
    return it


def state(it: Service) -> WorkflowState:
    assert it.workflow is not None
    return it.workflow.state


def told(it: Service, instance: int = WHOLE_WORKFLOW) -> list[str]:
    return [event.state.name for event in it.history if event.instance == instance]


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


def fail_new(it: Service, version: int) -> None:
    """All runs of a version end."""
    for instance, run in list(it.alive):
        if it.rows[instance].config_version == version and it.rows[instance].run == run:
            it.end(instance)


def test_a_bad_config_rolls_back_by_itself() -> None:
    it = running(6)
    options = {"max_instance_attempts": 1, "max_failure_instances": 2, "rollback_on_failure": True}
    it.update(service(6, command="bad"), batch_size=2, **options)
    for _ in range(30):
        it.step()
        fail_new(it, 2)
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.ROLLED_BACK, [1] * 6, ["RUNNING"] * 6)
    assert it.runtime.config_version == 1
    assert told(it) == ["INITIALIZED", "ROLLING_FORWARD", "ROLLING_BACKWARD", "ROLLED_BACK"]
    assert [task.run for task in it.rows.values()].count(1) >= 2  # most were never touched


def test_without_rollback_it_fails_and_instances_stay() -> None:
    it = running(4)
    it.update(service(4, command="bad"), batch_size=1, max_instance_attempts=1, max_failure_instances=1)
    for _ in range(10):
        it.step()
        fail_new(it, 2)
    assert (state(it), it.versions()) == (W.FAILED, [2, 2, 1, 1])
    assert it.workflow is not None and "which is not below the limit of 1" in it.workflow.reason


def test_it_rolls_back_once_only() -> None:
    it = running(3)
    options = {"max_instance_attempts": 1, "max_failure_instances": 1, "rollback_on_failure": True}
    it.update(service(3, command="bad"), batch_size=1, **options)
    for _ in range(10):
        it.step()
        for instance, _run in list(it.alive):
            if it.rows[instance].run > 1:
                it.end(instance)
    assert state(it) is W.FAILED
    assert told(it)[-2:] == ["ROLLING_BACKWARD", "FAILED"]


def test_failed_instances_below_the_limit_do_not_stop_it() -> None:
    it = running(3)
    it.update(service(3, command="bad"), max_instance_attempts=1, max_failure_instances=2)
    it.cycle()
    it.cycle()
    for _ in range(3):
        it.act()
        it.place()
    it.act()
    it.end(1)
    it.settle()
    assert it.workflow is not None
    assert (state(it), it.workflow.done, it.workflow.failed) == (W.SUCCEEDED, 2, 1)


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


def test_a_user_rolls_an_update_back() -> None:
    it = running(4)
    it.update(service(6, command="new"), batch_size=3)
    it.step()
    it.steer(A.ROLL_BACK)
    it.settle()
    assert (state(it), it.versions(), sorted(it.tasks)) == (W.ROLLED_BACK, [1] * 4, [0, 1, 2, 3])


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


def test_a_workflow_says_what_it_waits_for() -> None:
    it = running(2)
    it.update(service(2, command="new"), batch_size=1)
    it.cycle()
    it.cycle()
    it.act()
    it.cycle()
    assert it.workflow is not None
    waiting = it.core.rollouts.status(it.workflow)
    assert waiting.current == (0,)
    assert waiting.workflow.reason.startswith("waits for instances: 1 in flight (0): 1 ")


@pytest.mark.parametrize("fall", [lambda it: it.fall(), lambda it: None], ids=["fall", "go on"])
def test_a_new_leader_goes_on_after_every_turn(fall: Callable[[Service], None]) -> None:
    it = running(4)
    it.update(service(6, command="new"), batch_size=2)
    for _ in range(60):
        fall(it)
        it.step()
    it.settle()
    assert (state(it), it.versions(), it.twice) == (W.SUCCEEDED, [2] * 6, [])


def test_what_has_ended_stays_as_it_is() -> None:
    for cause in WorkflowCause:
        for ended in (each for each in W if each.terminal):
            assert not MACHINE.allows(ended, cause)


def test_an_instance_that_was_removed_is_not_looked_for_in_resmgr() -> None:
    it = running(3)
    it.end(2, S.LOST)
    it.cycle()
    it.update(service(2))
    it.settle()
    it.update(service(2, command="new"))
    it.settle()
    assert it.rows[2].state is S.DELETED
    it.cycle(ev.Compared(JOB, [(2, it.rows[2].run)]))
    assert (it.states(), it.versions()) == (["RUNNING"] * 2, [3, 3])


def test_a_rollback_leaves_the_counts_of_removed_instances_alone() -> None:
    it = running(3)
    it.end(2)
    it.update(service(2))
    it.settle()
    it.update(service(2, command="new"), batch_size=1, start_paused=True)
    it.cycle()
    it.steer(A.ROLL_BACK)
    it.settle()
    assert it.runtime.config_counts == {2: 2}
    assert it.runtime.task_counts == {S.RUNNING: 2}


def test_an_end_that_comes_with_the_first_cycle_of_a_leader_is_an_event() -> None:
    it = running(2)
    it.update(service(2, command="new"), batch_size=1, max_instance_attempts=1)
    while it.rows[0].state is not S.LAUNCHED or it.rows[0].run != 2:
        it.cycle()
        it.act()
        it.place()
    it.fall()
    it.alive.pop((0, 2), None)
    it.say(0, 2, S.FAILED)
    assert told(it, 0)[-1] == "FAILED"


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


def test_a_rollback_adds_none_beside_what_it_finds_in_flight() -> None:
    it = running(3)
    it.update(service(2, command="new"), batch_size=1)
    while it.rows[2].goal is not S.DELETED:
        it.step()
    it.end(0)
    it.act()
    assert (it.rows[2].state, state(it)) == (S.DELETED, W.ROLLING_FORWARD)
    it.steer(A.ROLL_BACK)
    it.cycle()
    assert it.rows[0].desired_config_version == 1
    assert it.rows[2].state is S.DELETED, "0 is in flight: 2 has to wait"
    it.settle()
    assert (state(it), it.versions(), it.states()) == (W.ROLLED_BACK, [1] * 3, ["RUNNING"] * 3)


def test_a_rollback_removes_none_beside_what_it_finds_in_flight() -> None:
    it = running(1)
    it.update(service(3, command="new"), batch_size=1)
    while 2 not in it.rows:
        it.cycle()
        it.act()
        it.place()
        it.act()
        it.run()
    assert (it.rows[1].state, it.rows[2].state) == (S.RUNNING, S.INITIALIZED)
    it.steer(A.ROLL_BACK)
    it.cycle()
    going = [i for i, task in it.rows.items() if task.goal is S.DELETED]
    assert going == [2], "it is not up: it is removed before others"


class Torn(Service):
    """Its next write ends after the workflows, where `torn` is set."""

    torn = False

    def store(self, change: Change) -> None:
        """As its base, or a part of it."""
        if not self.torn:
            super().store(change)
        self.workflows.update(change.workflows)


def test_a_stop_of_all_instances_has_ended_only_where_the_goal_of_the_job_is_stored() -> None:
    it = Torn(service(2))
    it.settle()
    it.begin(T.STOP)
    while {task.state for task in it.rows.values()} != {S.KILLED}:
        it.step()
    it.torn = True
    it.cycle()
    it.torn = False
    it.fall()
    it.settle()
    assert (state(it), it.runtime.goal) == (W.SUCCEEDED, JobState.KILLED)


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


class Reported(Service):
    """A service whose cycles' reports are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reports: list[str] = []
        run = self.core.run_cycle

        def kept(events: Sequence[ev.Event], now: ev.Now) -> Cycle:
            cycle = run(events, now)
            self.reports += [reason for _, _, reason in cycle.silent]
            return cycle

        self.core.run_cycle = kept  # type: ignore[method-assign]


def test_a_workflow_without_progress_is_reported_until_it_goes_on() -> None:
    it = Reported(service(2))
    it.settle()
    it.update(service(2, command="new"), batch_size=1)
    while it.rows[0].state is not S.PENDING:
        it.cycle()
        it.act()
    it.wait(1500)
    assert not it.reports
    assert it.core.idle_until() is not None, "it comes up without an event"
    it.wait(301)
    assert it.reports == ["waits for instances: 1 in flight (0): 1 PENDING; no progress for 30 min"]
    assert it.core.rollouts.silent == {JOB}
    it.wait(900)
    assert len(it.reports) == 1
    it.wait(901)
    assert len(it.reports) == 2, "it is reported again while that lasts"
    it.settle()
    assert (state(it), it.core.rollouts.silent) == (W.SUCCEEDED, set())
    it.wait(4000)
    assert len(it.reports) == 2


def test_a_paused_workflow_waits_for_its_user_and_is_not_reported() -> None:
    it = Reported(service(2))
    it.settle()
    it.update(service(2, command="new"), start_paused=True)
    it.settle()
    it.wait(1801)
    it.wait(1801)
    assert not it.reports
