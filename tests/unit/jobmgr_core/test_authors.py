"""Who asked for the end of a run stands in its history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.revisions import pod_event
from jobmgr.drivers.draining import begun_text
from jobmgr.ports.hostmgr import Maintenance
from peloton.model.host import HostInfo
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import HostState, JobState, TaskState, TerminationReason
from peloton.model.task import TaskStatus, Termination
from peloton.model.workflow import Workflow, WorkflowOptions, WorkflowState, WorkflowType
from storage.codec import HOST, JOB_RUNTIME, POD_EVENT, TASK_RUNTIME, WORKFLOW
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_availability import limited
from tests.unit.jobmgr_core.test_deadlines import Time
from tests.unit.jobmgr_core.test_preemption import running

S = TaskState
R = TerminationReason


def killed(time: Time, run: int = 1) -> None:
    status = TaskStatus(
        mesos_task_id(JOB, 0, run), S.KILLED, 0, message="Command terminated with signal Terminated"
    )
    time.run_cycle(ev.Statuses([(Run(JOB, 0, run), status)]))


@pytest.mark.parametrize("instances", [None, [0]])
def test_a_stopped_run_says_by_whom_while_it_ends_and_afterwards(instances: list[int] | None) -> None:
    time = running(spec(2))
    time.run_cycle(ev.StopRequested(JOB, instances, "alice"))
    assert (time.task().state, time.task().message) == (S.KILLING, "stopped by alice")
    killed(time)
    ended = pod_event(JOB, 0, time.task())
    assert ended.message == "stopped by alice; Command terminated with signal Terminated"
    assert ended.termination == Termination(R.KILLED_ON_REQUEST, 0, "Terminated", "alice")
    stored = POD_EVENT.decode(
        POD_EVENT.encode(ended), job_id=JOB, instance=0, run=1, timestamp=ended.timestamp
    )
    assert stored == ended


def test_without_a_known_caller_the_messages_name_nobody() -> None:
    time = running(spec(2))
    time.run_cycle(ev.StopRequested(JOB, [0]))
    assert time.task().message == "to be stopped"
    killed(time)
    assert time.task().message == "Command terminated with signal Terminated"
    assert time.task().termination == Termination(R.KILLED_ON_REQUEST, 0, "Terminated")


def test_a_run_that_ends_by_itself_was_stopped_by_nobody() -> None:
    time = running(spec(2))
    time.run_cycle(ev.StopRequested(JOB, [0], "alice"))
    time.say(S.FAILED)
    assert time.task().termination == Termination(R.FAILED)
    assert "alice" not in time.task().message


def test_a_waiting_run_says_who_stopped_it() -> None:
    time = Time(spec(2))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]), ev.StopRequested(JOB, [0], "alice"))
    time.run_cycle(ev.Withdrawn(JOB, [(0, 1)]))
    assert time.task().message == "stopped by alice; stopped before it was launched"
    assert time.task().termination == Termination(R.KILLED_ON_REQUEST, by="alice")


def test_the_goal_of_a_job_is_kept_with_who_asked_for_it() -> None:
    time = running(spec(2))
    time.run_cycle(ev.StopRequested(JOB, None, "alice"), ev.StopRequested(JOB, None, "bob"))
    runtime = time.core.active.jobs[JOB].job.runtime
    assert runtime.goal_by == "alice", "the first who asked"
    assert JOB_RUNTIME.decode(JOB_RUNTIME.encode(runtime)) == runtime


@pytest.mark.parametrize("check_sla", [True, False])
def test_a_restarted_run_says_by_whom(check_sla: bool) -> None:
    it = Service(limited(3))
    it.settle()
    assert it.ask(ev.RestartRequested(JOB, [0], check_sla, "bob")) == [0]
    task = it.tasks[0]
    assert (task.state, task.message) == (S.KILLING, "restarted by bob")
    reason = R.KILLED_FOR_SLA_AWARE_RESTART if check_sla else R.KILLED_FOR_RESTART
    assert task.termination == Termination(reason, by="bob")
    it.settle()
    assert (it.tasks[0].run, it.tasks[0].termination) == (2, None)
    assert it.tasks[0].message == ""


def test_a_stopped_service_says_by_whom_under_the_next_leader_too() -> None:
    it = Service(service(2))
    it.settle()
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED, by="carol"))
    it.fall()
    it.wait(60)
    it.settle()
    assert {task.message for task in it.tasks.values()} == {"stopped by carol"}
    assert {task.termination for task in it.tasks.values()} == {Termination(R.KILLED_ON_REQUEST, by="carol")}


def begun_by(it: Service, type_: WorkflowType, by: str, spec: JobSpec | None = None) -> None:
    """As Service.begin, for a user."""
    stored = replace(spec or it.spec, version=2)
    it.specs[2] = stored
    workflow = Workflow("w", JOB, type_, WorkflowState.INITIALIZED, WorkflowOptions(), 0, 0, by=by)
    it.ask(ev.WorkflowRequested(JOB, workflow, stored, 1))
    it.cycle()


@pytest.mark.parametrize(
    ("type_", "message", "reason"),
    [
        (WorkflowType.RESTART, "restarted by dora", R.KILLED_FOR_RESTART),
        (WorkflowType.STOP, "stopped by dora", R.KILLED_ON_REQUEST),
        (WorkflowType.UPDATE, "updated by dora", R.KILLED_FOR_UPDATE),
    ],
)
def test_a_workflow_says_who_began_it(type_: WorkflowType, message: str, reason: TerminationReason) -> None:
    it = Service(service(2))
    it.settle()
    begun_by(it, type_, "dora", service(2, command="other") if type_ is WorkflowType.UPDATE else None)
    assert {(task.state, task.message) for task in it.tasks.values()} == {(S.KILLING, message)}
    assert {task.termination for task in it.tasks.values()} == {Termination(reason, by="dora")}
    assert it.workflow is not None
    assert WORKFLOW.decode(WORKFLOW.encode(it.workflow)) == it.workflow


def test_a_workflow_that_a_user_aborts_or_rolls_back_says_by_whom() -> None:
    it = Service(service(2))
    it.settle()
    begun_by(it, WorkflowType.UPDATE, "dora", service(2, command="other"))
    it.ask(ev.WorkflowSteered(JOB, ev.WorkflowAction.ROLL_BACK, by="emil"))
    assert it.workflow is not None
    assert (it.workflow.by, it.workflow.reason) == ("emil", "rolled back by emil")
    it.ask(ev.WorkflowSteered(JOB, ev.WorkflowAction.ABORT, by="dora"))
    assert it.workflow.reason == "aborted by dora"


def test_an_evicted_run_says_which_maintenance_and_who_began_it() -> None:
    time = running(spec())
    host = time.task().host
    begun = "begun by frida at 2026-01-02T03:04:05Z"
    time.run_cycle(ev.Draining([Run(JOB, 0, 1)], maintenances={host: begun, "another": "begun by x"}))
    assert time.task().message == f"maintenance of {host}, {begun}"
    killed(time)
    assert time.task().message.startswith(f"run 1 KILLED: maintenance of {host}, {begun}; ")


def test_when_a_maintenance_began_is_told_to_the_second() -> None:
    assert (
        begun_text(Maintenance("frida", "2026-01-02T03:04:05.123456789Z"))
        == "begun by frida at 2026-01-02T03:04:05Z"
    )
    assert begun_text(Maintenance("", "2026-01-02T03:04:05Z")) == "begun at 2026-01-02T03:04:05Z"


def test_what_agents_say_late_leaves_the_author_in_place() -> None:
    time = running(spec(2))
    time.run_cycle(ev.StopRequested(JOB, [0], "alice"))
    time.say(S.KILLED)
    assert time.task().message == "stopped by alice"
    late = TaskStatus(mesos_task_id(JOB, 0, 1), S.KILLED, 0, message="Terminated", uuid=b"1")
    time.run_cycle(ev.Statuses([(Run(JOB, 0, 1), late)]))
    assert time.task().message == "stopped by alice; Terminated"
    assert time.task().termination == Termination(R.KILLED_ON_REQUEST, by="alice")


def test_rows_from_before_authors_were_stored_are_read() -> None:
    time = running(spec(2))
    time.run_cycle(ev.StopRequested(JOB, [0], "alice"))
    values = json.loads(TASK_RUNTIME.encode(time.task()))
    place = values.index([int(R.KILLED_ON_REQUEST), 0, "", "alice"])
    values[place] = values[place][:3]
    read = TASK_RUNTIME.decode(json.dumps(values))
    assert read.termination == Termination(R.KILLED_ON_REQUEST)
    old = json.loads(HOST.encode(HostInfo("a", "1", HostState.DRAINING, HostState.DOWN)))[:-1]
    assert HOST.decode(json.dumps(old)).begun_by == ""
