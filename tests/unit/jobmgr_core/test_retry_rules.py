"""What follows an end that a retry rule concerns, one case at a time. The property test draws the ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobmgr.clients.enqueueing import alike
from jobmgr.core.state import events as ev
from jobmgr.ports.resmgr import WaitingTask
from peloton.api.scheduling import scheduling_pb2
from peloton.model.ids import Run
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.retry import RuleEnds, signal_number
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.workload import GangPolicy, JobWorkload
from peloton.wire.job import job_spec
from peloton.wire.resmgr import resmgr_task
from tests.unit.jobmgr_core.specs import JOB, config
from tests.unit.jobmgr_core.test_interrupted_leaders import WALL, Leader

S = TaskState
KILLED = "Command terminated with signal Killed"
ELSEWHERE = {"exit_codes": [137], "retries": 2, "another_host": True}
NEVER = {"exit_codes": [3]}


def made(*rules: dict[str, Any], max_failures: int = 2, instances: int = 1) -> JobSpec:
    """Return a job of that many instances in a gang, or of one beside another that runs on."""
    gang = instances > 1
    wire = config(instances if gang else 2, max_failures, minimumRunningInstances=instances if gang else 0)
    for rule in rules:
        wire.defaultConfig.restartPolicy.rules.append(scheduling_pb2.RetryRule(**rule))
    return job_spec(wire, 1)


def row(run: int = 1, host: str = "h1", **changes: Any) -> TaskRuntime:
    plain = TaskRuntime(S.RUNNING, S.SUCCEEDED, run, 1, 1, run, host=host, agent_id="a", start_time=WALL)
    return replace(plain, **changes)


def leader(spec: JobSpec, *rows: TaskRuntime) -> Leader:
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, WALL)
    rows = rows or (row(),)
    return Leader(spec, runtime, dict(enumerate(rows if len(rows) > 1 else (*rows, row()))))


def end(
    leader: Leader, message: str = "", state: TaskState = S.FAILED, reason: str = "", instance: int = 0
) -> TaskRuntime:
    run = leader.task(instance).run
    status = TaskStatus("", state, WALL, message=message, reason=reason, uuid=b"1")
    leader.run_cycle(ev.Statuses([(Run(JOB, instance, run), status)]))
    return leader.task(instance)


def exited(code: int) -> str:
    return f"Command exited with status {code}"


def test_an_exit_code_that_is_never_retried_ends_the_task_at_once() -> None:
    task = end(leader(made(ELSEWHERE, NEVER, max_failures=5)), exited(3))
    assert (task.state, task.run, task.failure_count) == (S.FAILED, 1, 1)
    assert task.message == f"never retried (restartPolicy.rules[1]): {exited(3)}"
    assert task.termination is not None and task.termination.exit_code == 3


@pytest.mark.parametrize("message", [exited(137), KILLED, f"{KILLED} (core dumped)"])
def test_the_next_run_goes_to_another_host(message: str) -> None:
    task = end(leader(made(ELSEWHERE)), message)
    assert (task.state, task.run, task.avoided_hosts) == (S.INITIALIZED, 2, ("h1",))
    said = "retry 1 of 2 (restartPolicy.rules[0]), on another host than h1"
    assert task.message == f"run 1 FAILED: {said}: {message}"


def test_a_rule_grants_its_retries_and_no_more() -> None:
    spec = made(ELSEWHERE, max_failures=50)
    counted = RuleEnds((2,), ("h0", "h1"))
    task = end(leader(spec, row(3, "h2", failure_count=2, rule_ends=counted)), exited(137))
    assert (task.state, task.run, task.failure_count) == (S.FAILED, 3, 3)
    assert task.message.startswith("not run again after 2 retries (restartPolicy.rules[0])")


def test_a_new_leader_does_not_retry_what_a_rule_has_ended() -> None:
    spec = made(NEVER, max_failures=50)
    task = end(leader(spec), exited(3))
    after = leader(spec, task)
    after.run_cycle()
    assert after.task(0).run == 1


def test_ends_that_no_rule_concerns_are_counted_alone() -> None:
    spec = made(ELSEWHERE, max_failures=2)
    counted = row(3, "h3", failure_count=2, rule_ends=RuleEnds((2,), ("h1", "h2")))
    first = end(leader(spec, counted), exited(1))
    assert (first.state, first.run, first.failure_count) == (S.INITIALIZED, 4, 3)
    second = end(leader(spec, replace(counted, failure_count=3)), exited(1))
    assert (second.state, second.failure_count) == (S.FAILED, 4)


def test_a_rule_by_reason_and_host_concerns_a_loss() -> None:
    rule = {"reasons": ["REASON_AGENT_REMOVED"], "hosts": ["h*"]}
    task = end(leader(made(rule, max_failures=5)), "agent gone", S.LOST, "AGENT_REMOVED")
    assert (task.state, task.failure_count) == (S.LOST, 1)
    other = end(leader(made(rule, max_failures=5), row(host="g1")), "agent gone", S.LOST, "AGENT_REMOVED")
    assert (other.state, other.failure_count) == (S.INITIALIZED, 0)


def test_evictions_and_successes_are_no_matter_of_rules() -> None:
    spec = made({"retries": 0})
    assert end(leader(spec), "", S.KILLED, "AGENT_DRAINING").state is S.INITIALIZED
    assert end(leader(spec), "", S.SUCCEEDED).state is S.SUCCEEDED


def test_the_ends_of_all_members_of_a_bound_gang_count() -> None:
    rule = {"exit_codes": [9], "retries": 1}
    spec = replace(made(rule, instances=2), workload=JobWorkload(gang_policy=GangPolicy.RESTART_GANG))
    again = end(leader(spec, row(), row()), exited(9))
    assert again.desired_run == 2
    over = leader(spec, row(2, rule_ends=RuleEnds((1,)), failure_count=1), row(2))
    assert end(over, exited(9), instance=1).state is S.FAILED
    assert over.task(1).desired_run == 2, "the gang does not run again"


def test_the_resource_manager_hears_which_hosts_to_avoid() -> None:
    spec, avoids = made(ELSEWHERE), row(2, "", rule_ends=RuleEnds((1,), ("h1",)))
    wire = resmgr_task(JOB, spec, 0, avoids)
    leaf = wire.constraint.andConstraint.constraints[0].labelConstraint
    assert (leaf.label.key, leaf.label.value, leaf.requirement) == ("hostname", "h1", 1)
    assert alike([[WaitingTask(JOB, spec, 0, avoids)]]) is None
    assert alike([[WaitingTask(JOB, spec, 0, row(2, ""))]]) is not None


def test_signals_by_the_texts_of_agents() -> None:
    assert signal_number("Killed") == 9
    assert signal_number("Segmentation fault (core dumped)") == 11
    assert signal_number("nonsense") == 0
