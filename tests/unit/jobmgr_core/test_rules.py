"""The rules, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state.job_states import MACHINE, batch_cause
from jobmgr.core.task.goal import RULES, Action, Goal, goal_of
from jobmgr.core.task.retry import EndCause, delay, end_cause, explain_end, runs_again, stored_cause
from jobmgr.core.task.status_rules import Verdict, end_state, judge, termination
from peloton.deadlines import Deadlines
from peloton.model.states import HealthState, JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskSpec, TaskStatus, Termination

S, J = TaskState, JobState
STORED = (
    S.INITIALIZED,
    S.PENDING,
    S.LAUNCHED,
    S.STARTING,
    S.RUNNING,
    S.KILLING,
    S.SUCCEEDED,
    S.FAILED,
    S.LOST,
    S.KILLED,
)


def task(
    state: TaskState, run: int = 1, goal: TaskState = S.SUCCEEDED, desired: int | None = None
) -> TaskRuntime:
    return TaskRuntime(state, goal, run, 1, 1, desired or run)


def status(state: TaskState, healthy: bool | None = None) -> TaskStatus:
    return TaskStatus("", state, 5, healthy=healthy)


def end(state: TaskState, reason: str = "", message: str = "") -> TaskStatus:
    return TaskStatus("", state, 5, reason=reason, message=message)


def test_every_stored_state_has_a_rule_for_every_goal() -> None:
    removed = {(S.DELETED, Goal.REMOVE)}
    assert set(RULES) == {(state, goal) for state in STORED for goal in Goal} | removed


@pytest.mark.parametrize("state", STORED)
def test_rules_leave_ended_tasks_alone_unless_they_restart(state: TaskState) -> None:
    if state.terminal:
        assert RULES[state, Goal.STOP] is Action.NOTHING
        assert RULES[state, Goal.RESTART] is Action.NEXT_RUN
    else:
        assert RULES[state, Goal.STOP] in (Action.WITHDRAW, Action.KILL, Action.KILL_AGAIN)
        assert RULES[state, Goal.RESTART] is RULES[state, Goal.STOP]


@pytest.mark.parametrize(
    ("job_goal", "goal", "desired", "expected"),
    [
        (J.SUCCEEDED, S.SUCCEEDED, 1, Goal.RUN),
        (J.RUNNING, S.RUNNING, 1, Goal.RUN),
        (J.SUCCEEDED, S.SUCCEEDED, 2, Goal.RESTART),
        (J.SUCCEEDED, S.KILLED, 1, Goal.STOP),
        (J.SUCCEEDED, S.DELETED, 1, Goal.REMOVE),
        (J.KILLED, S.SUCCEEDED, 1, Goal.STOP),
        (J.KILLED, S.SUCCEEDED, 2, Goal.STOP),
        (J.DELETED, S.SUCCEEDED, 1, Goal.STOP),
    ],
)
def test_the_goal_of_a_task(job_goal: JobState, goal: TaskState, desired: int, expected: Goal) -> None:
    assert goal_of(job_goal, task(S.RUNNING, 1, goal, desired)) is expected


@pytest.mark.parametrize(
    ("counts", "instances", "goal", "state"),
    [
        ({}, 2, J.SUCCEEDED, J.INITIALIZED),
        ({S.INITIALIZED: 1}, 2, J.SUCCEEDED, J.INITIALIZED),
        ({S.SUCCEEDED: 1}, 2, J.SUCCEEDED, J.INITIALIZED),
        ({S.INITIALIZED: 2}, 2, J.SUCCEEDED, J.PENDING),
        ({S.PENDING: 1, S.LAUNCHED: 1}, 2, J.SUCCEEDED, J.PENDING),
        ({S.PENDING: 1, S.RUNNING: 1}, 2, J.SUCCEEDED, J.RUNNING),
        ({S.STARTING: 1, S.SUCCEEDED: 1}, 2, J.SUCCEEDED, J.PENDING),
        ({S.SUCCEEDED: 2}, 2, J.SUCCEEDED, J.SUCCEEDED),
        ({S.SUCCEEDED: 1, S.FAILED: 1}, 2, J.SUCCEEDED, J.FAILED),
        ({S.SUCCEEDED: 1, S.LOST: 1}, 2, J.SUCCEEDED, J.FAILED),
        ({S.KILLED: 1, S.LOST: 1}, 2, J.SUCCEEDED, J.KILLED),
        ({S.KILLED: 1, S.SUCCEEDED: 1}, 2, J.SUCCEEDED, J.KILLED),
        ({S.KILLED: 1, S.RUNNING: 1}, 2, J.SUCCEEDED, J.RUNNING),
        ({S.RUNNING: 2}, 2, J.KILLED, J.KILLING),
        ({S.KILLED: 1}, 2, J.KILLED, J.KILLING),
        ({S.SUCCEEDED: 2}, 2, J.KILLED, J.SUCCEEDED),
    ],
)
def test_the_state_of_a_batch_job(
    counts: dict[TaskState, int], instances: int, goal: JobState, state: JobState
) -> None:
    assert MACHINE.next(J.PENDING, batch_cause(counts, instances, goal)) is state


@pytest.mark.parametrize(
    ("controller", "state"),
    [
        (S.SUCCEEDED, J.SUCCEEDED),
        (S.FAILED, J.FAILED),
        (S.LOST, J.FAILED),
        (S.KILLED, J.KILLED),
    ],
)
def test_a_job_ends_as_its_controller_after_all_tasks(controller: TaskState, state: JobState) -> None:
    counts = {controller: 1}
    counts[S.FAILED] = counts.get(S.FAILED, 0) + 1
    assert MACHINE.next(J.RUNNING, batch_cause(counts, 2, J.SUCCEEDED, controller)) is state
    still = batch_cause({controller: 1, S.RUNNING: 1}, 2, J.SUCCEEDED, controller)
    assert MACHINE.next(J.PENDING, still) is J.RUNNING


@pytest.mark.parametrize(
    ("before", "end", "cause"),
    [
        (S.RUNNING, end(S.SUCCEEDED), EndCause.SUCCESS),
        (S.RUNNING, end(S.FAILED), EndCause.TASK),
        (S.LAUNCHED, end(S.FAILED, "TASK_INVALID"), EndCause.TASK),
        (S.RUNNING, end(S.FAILED, "CONTAINER_LIMITATION_MEMORY"), EndCause.TASK),
        (S.LAUNCHED, end(S.FAILED, "CONTAINER_LAUNCH_FAILED"), EndCause.SYSTEM),
        (S.LAUNCHED, end(S.FAILED, "EXECUTOR_REGISTRATION_TIMEOUT"), EndCause.SYSTEM),
        (S.LAUNCHED, end(S.FAILED, "INVALID_OFFERS"), EndCause.SYSTEM),
        (S.LAUNCHED, end(S.FAILED, "EXECUTOR_TERMINATED"), EndCause.SYSTEM),
        (S.STARTING, end(S.FAILED, "EXECUTOR_TERMINATED"), EndCause.TASK),
        (S.RUNNING, end(S.FAILED, "EXECUTOR_TERMINATED"), EndCause.TASK),
        (S.RUNNING, end(S.FAILED, "COMMAND_EXECUTOR_FAILED", "Broken pipe"), EndCause.SYSTEM),
        (S.RUNNING, end(S.FAILED, "COMMAND_EXECUTOR_FAILED", "Abnormal executor termination"), EndCause.TASK),
        (S.RUNNING, end(S.FAILED, "", "Broken pipe"), EndCause.TASK),
        (S.LAUNCHED, end(S.LOST, "RECONCILIATION"), EndCause.NOT_STARTED),
        (S.LAUNCHED, end(S.LOST, "INVALID_OFFERS"), EndCause.NOT_STARTED),
        (S.LAUNCHED, end(S.LOST, "AGENT_REMOVED_BY_OPERATOR"), EndCause.NOT_STARTED),
        (S.PENDING, end(S.LOST), EndCause.NOT_STARTED),
        (S.STARTING, end(S.LOST, "RECONCILIATION"), EndCause.LOST),
        (S.RUNNING, end(S.LOST, "AGENT_REMOVED", "health check timed out"), EndCause.LOST),
        (S.RUNNING, end(S.LOST, "AGENT_REMOVED", "Operator initiated 'Machine DOWN'"), EndCause.EVICTED),
        (S.RUNNING, end(S.LOST, "AGENT_REMOVED_BY_OPERATOR"), EndCause.EVICTED),
        (S.RUNNING, end(S.LOST, "CONTAINER_PREEMPTED"), EndCause.EVICTED),
        (S.RUNNING, end(S.KILLED, "AGENT_DRAINING"), EndCause.EVICTED),
        (S.RUNNING, end(S.KILLED, "FRAMEWORK_REMOVED"), EndCause.EVICTED),
        (S.LAUNCHED, end(S.KILLED, "TASK_KILLED_DURING_LAUNCH"), EndCause.EVICTED),
        (S.RUNNING, end(S.KILLED), EndCause.EVICTED),
        (S.RUNNING, replace(end(S.KILLED), healthy=False), EndCause.TASK),
    ],
)
def test_the_cause_of_an_end(before: TaskState, end: TaskStatus, cause: EndCause) -> None:
    assert end_cause(before, end) is cause


@pytest.mark.parametrize(
    ("cause", "failures", "maximum", "again"),
    [
        (EndCause.SUCCESS, 0, 9, False),
        (EndCause.TASK, 1, 0, False),
        (EndCause.TASK, 1, 1, False),
        (EndCause.TASK, 1, 2, True),
        (EndCause.TASK, 3, 4, True),
        (EndCause.TASK, 4, 4, False),
        (EndCause.TASK, 99, 1000, True),
        (EndCause.TASK, 100, 1000, False),
        (EndCause.SYSTEM, 3, 0, True),
        (EndCause.SYSTEM, 4, 0, False),
        (EndCause.SYSTEM, 3, 2, True),
        (EndCause.SYSTEM, 5, 6, True),
        (EndCause.NOT_STARTED, 0, 0, True),
        (EndCause.NOT_STARTED, 200, 0, True),
        (EndCause.EVICTED, 0, 0, True),
        (EndCause.EVICTED, 1, 1, True),
        (EndCause.LOST, 0, 0, False),
        (EndCause.LOST, 0, 1, True),
        (EndCause.LOST, 5, 5, True),
    ],
)
def test_which_ends_are_retried(cause: EndCause, failures: int, maximum: int, again: bool) -> None:
    assert runs_again(cause, failures, TaskSpec(max_failures=maximum)) is again


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        (S.SUCCEEDED, "", EndCause.SUCCESS),
        (S.FAILED, "", EndCause.TASK),
        (S.FAILED, "CONTAINER_LAUNCH_FAILED", EndCause.SYSTEM),
        (S.LOST, "RECONCILIATION", EndCause.LOST),
        (S.KILLED, "", EndCause.TASK),
    ],
)
def test_the_cause_of_a_stored_end(state: TaskState, reason: str, cause: EndCause) -> None:
    assert stored_cause(replace(task(state), reason=reason)) is cause


def test_the_message_of_an_end() -> None:
    assert explain_end(EndCause.TASK, "exit 3", again=True) == "exit 3"
    assert (
        explain_end(EndCause.NOT_STARTED, "gone", again=True)
        == "never started, not counted as a failure: gone"
    )
    assert explain_end(EndCause.EVICTED, "", again=True) == "evicted, not counted as a failure"
    assert explain_end(EndCause.LOST, "gone", again=True) == "lost, not counted as a failure: gone"
    assert explain_end(EndCause.LOST, "gone", again=False) == "lost, not retried with maxFailures 0: gone"


def test_delays_double_up_to_an_hour() -> None:
    assert [delay(n) for n in (1, 2, 3, 12, 13, 10_000)] == [1, 2, 4, 2048, 3600, 3600]


@pytest.mark.parametrize(
    ("state", "run", "reported", "verdict"),
    [
        (S.PENDING, 1, S.RUNNING, Verdict.FORWARD),
        (S.LAUNCHED, 1, S.LAUNCHED, Verdict.STALE),
        (S.LAUNCHED, 1, S.STARTING, Verdict.FORWARD),
        (S.LAUNCHED, 1, S.RUNNING, Verdict.FORWARD),
        (S.RUNNING, 1, S.STARTING, Verdict.STALE),
        (S.RUNNING, 1, S.RUNNING, Verdict.STALE),
        (S.RUNNING, 1, S.SUCCEEDED, Verdict.END),
        (S.LAUNCHED, 1, S.LOST, Verdict.END),
        (S.KILLING, 1, S.RUNNING, Verdict.STARTED),
        (S.KILLING, 1, S.STARTING, Verdict.STALE),
        (S.KILLING, 1, S.KILLED, Verdict.END),
        (S.SUCCEEDED, 1, S.FAILED, Verdict.STALE),
        (S.LOST, 1, S.RUNNING, Verdict.ORPHAN),
        (S.RUNNING, 2, S.RUNNING, Verdict.ORPHAN),
        (S.RUNNING, 2, S.FAILED, Verdict.STALE),
    ],
)
def test_the_verdict_on_a_status(state: TaskState, run: int, reported: TaskState, verdict: Verdict) -> None:
    assert judge(task(state, run), 1, status(reported)) is verdict


def test_health_is_noted_only_where_it_changes() -> None:
    running = replace(task(S.RUNNING), health=HealthState.HEALTHY)
    assert judge(running, 1, status(S.RUNNING, healthy=True)) is Verdict.STALE
    assert judge(running, 1, status(S.RUNNING, healthy=False)) is Verdict.HEALTH


def test_a_killing_run_that_mesos_does_not_know_is_killed() -> None:
    assert end_state(task(S.KILLING), status(S.LOST), stopping=True) is S.KILLED
    assert end_state(task(S.KILLING), status(S.SUCCEEDED), stopping=True) is S.SUCCEEDED
    assert end_state(task(S.RUNNING), status(S.LOST), stopping=False) is S.LOST


@pytest.mark.parametrize("reason", ["EXECUTOR_TERMINATED", "EXECUTOR_REGISTRATION_TIMEOUT"])
def test_a_killing_run_that_the_system_ended_is_killed_not_failed(reason: str) -> None:
    assert end_state(task(S.KILLING), end(S.FAILED, reason), stopping=True) is S.KILLED
    assert end_state(task(S.RUNNING), end(S.FAILED, reason), stopping=False) is S.FAILED
    assert end_state(task(S.KILLING), end(S.FAILED), stopping=True) is S.FAILED


@pytest.mark.parametrize(
    ("state", "requested", "message", "expected"),
    [
        (S.SUCCEEDED, None, "Command exited with status 0", None),
        (S.FAILED, None, "Command exited with status 137", Termination(TerminationReason.FAILED, 137)),
        (
            S.FAILED,
            None,
            "Command terminated with signal Segmentation fault",
            Termination(TerminationReason.FAILED, 0, "Segmentation fault"),
        ),
        (S.LOST, None, "agent is gone", Termination(TerminationReason.FAILED)),
        (
            S.KILLED,
            Termination(TerminationReason.DEADLINE_TIMEOUT_EXCEEDED),
            "Command terminated with signal Killed",
            Termination(TerminationReason.DEADLINE_TIMEOUT_EXCEEDED, 0, "Killed"),
        ),
        (S.KILLED, None, "", Termination(TerminationReason.FAILED)),
        (
            S.FAILED,
            Termination(TerminationReason.KILLED_ON_REQUEST),
            "Command exited with status 1",
            Termination(TerminationReason.FAILED, 1),
        ),
    ],
)
def test_the_termination_of_a_run(
    state: TaskState, requested: Termination | None, message: str, expected: Termination | None
) -> None:
    assert termination(state, requested, message) == expected


def test_a_deadline_can_be_moved_and_cancelled() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("b", 5)
    deadlines.set("c", 7)
    deadlines.set("a", 3)
    deadlines.cancel("b")
    assert deadlines.next() == 3
    assert deadlines.due(2.9, 10) == []
    assert deadlines.due(7, 1) == ["a"]
    assert deadlines.due(7, 10) == ["c"]
    assert deadlines.next() is None
    assert len(deadlines) == 0


def test_cancelled_deadlines_do_not_accumulate() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for at in range(10_000):
        deadlines.set(at % 10, at)
        deadlines.cancel((at + 1) % 10)
    assert len(deadlines._heap) < 200
    assert deadlines.due(20_000, 100) == list(range(1, 10))
