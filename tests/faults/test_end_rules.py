"""The checker finds instances and jobs that ended otherwise than they may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.checker import check
from tests.faults.history import Call, Event, History, Instance, Run
from tests.faults.test_checker import DONE, JOB, agent, delivered, ends, launch, rules, run, update, whole

CREATED = Call("create", JOB, 0.5, instances=2, max_failures=1)
FAILS = replace(CREATED, fails=True)
OTHER = whole(run(1), 1, 2)


def failing(*numbers: int) -> list[Event]:
    """Failed runs of instance 0, one after the other, beside one of instance 1 that succeeds."""
    runs = [event for n in numbers for event in whole(run(0, n), 2 * n, 2 * n + 1, "TASK_FAILED")]
    return [agent(), *OTHER, *runs]


def found(
    call: Call, events: list[Event], instance: Instance, *more: Call, state: str = "FAILED"
) -> list[str]:
    end = ends(instance, DONE, state=state)
    return rules(History(sorted(events, key=lambda event: event.at), [call, *more], end))


@pytest.mark.parametrize("most", [0, 1])
def test_a_job_without_retries_fails_with_its_first_failure(most: int) -> None:
    assert found(replace(FAILS, max_failures=most), failing(1), Instance("FAILED", 1)) == []


def test_a_job_whose_command_does_not_fail_may_not_fail() -> None:
    assert found(CREATED, failing(1), Instance("FAILED", 1)) == ["failed by no fault of its own"]


def test_a_violation_lists_the_statuses_sent_to_the_framework() -> None:
    events = [*failing(1), delivered(3, run(0), "TASK_LOST")]
    history = History(events, [CREATED], ends(Instance("FAILED", 1), DONE, state="FAILED"))
    [violation] = check(history).violations
    assert "updates sent were run 1 TASK_LOST" in violation.story


def test_a_job_may_not_fail_before_its_runs_have() -> None:
    events = [agent(), *OTHER, launch(1, run(0))]
    assert found(FAILS, events, Instance("FAILED", 1)) == ["failed too early"]
    twice = replace(FAILS, max_failures=2)
    assert found(twice, failing(1), Instance("FAILED", 1)) == ["failed too early"]
    assert found(twice, failing(1, 2), Instance("FAILED", 2)) == []


def test_an_instance_may_not_run_again_after_its_last_failure() -> None:
    assert found(FAILS, failing(1, 2), Instance("FAILED", 2)) == ["ran on"]


def test_an_unreported_failure_does_not_count() -> None:
    unheard = [event for event in failing(1, 2) if event.kind != "ack" or event.run != run(0)]
    assert found(FAILS, unheard, Instance("FAILED", 2)) == []


def test_a_failure_of_a_lost_run_does_not_count() -> None:
    events = failing(1, 2)
    at = next(n for n, each in enumerate(events) if each.kind == "ack" and each.run == run(0))
    events.insert(at, delivered(2.5, run(0), "TASK_UNREACHABLE"))
    assert found(FAILS, events, Instance("FAILED", 2)) == []


def test_a_run_that_failed_before_it_started_did_not_fail_by_itself() -> None:
    early = [each for each in failing(1, 2) if each.run != run(0) or each.state != "TASK_RUNNING"]
    assert found(FAILS, early, Instance("FAILED", 2)) == []
    assert found(replace(FAILS, max_failures=2), early, Instance("FAILED", 2)) == ["failed too early"]


def lost(*events: Event) -> list[Event]:
    return [agent(), *OTHER, launch(1, run(0)), *events]


def test_a_run_that_had_started_is_lost_with_its_agent_where_no_failure_is_allowed() -> None:
    none = replace(CREATED, max_failures=0)
    events = lost(update(2, run(0), "TASK_RUNNING"), delivered(3, run(0), "TASK_UNREACHABLE"))
    assert found(none, events, Instance("LOST", 1)) == []
    assert found(CREATED, events, Instance("LOST", 1)) == ["lost"]


@pytest.mark.parametrize("kind", ["failure", "dead"])
def test_a_run_is_lost_with_an_agent_that_is_gone_or_dead(kind: str) -> None:
    events = lost(update(2, run(0), "TASK_RUNNING"), Event(3, kind, agent="A"))
    assert found(replace(CREATED, max_failures=0), events, Instance("LOST", 1)) == []
    elsewhere = lost(update(2, run(0), "TASK_RUNNING"), Event(3, kind, agent="B"))
    assert found(replace(CREATED, max_failures=0), elsewhere, Instance("LOST", 1)) == ["lost"]


def test_a_run_that_had_not_started_may_not_be_lost() -> None:
    none = replace(CREATED, max_failures=0)
    assert found(none, lost(delivered(3, run(0), "TASK_LOST")), Instance("LOST", 1)) == ["lost"]


def test_a_run_on_a_live_agent_may_not_be_lost_even_if_unknown_to_mesos() -> None:
    none = replace(CREATED, max_failures=0)
    events = lost(update(2, run(0), "TASK_RUNNING"), delivered(3, run(0), "TASK_GONE"))
    assert found(none, events, Instance("LOST", 1)) == ["lost"]


KILLED = [agent(), *OTHER, *whole(run(0), 1, 2, "TASK_KILLED")]


def test_only_what_was_stopped_may_be_killed() -> None:
    instance = Instance("KILLED", 1)
    assert found(CREATED, KILLED, instance, state="KILLED") == ["killed unasked"]
    stop = Call("stop", JOB, 1.5)
    assert found(CREATED, KILLED, instance, stop, state="KILLED") == []
    one, other = replace(stop, stopped=(0,)), replace(stop, stopped=(1,))
    assert found(CREATED, KILLED, instance, other, one, state="KILLED") == []
    assert found(CREATED, KILLED, instance, other, state="KILLED") == ["killed unasked"]
    assert found(CREATED, KILLED, instance, other, stop, state="KILLED") == []


@pytest.mark.parametrize("state", ["SUCCEEDED", "KILLED"])
def test_a_jobs_end_follows_from_its_instances(state: str) -> None:
    assert found(FAILS, failing(1), Instance("FAILED", 1), state=state) == ["job state"]


def test_only_the_state_of_an_unacknowledged_job_is_checked() -> None:
    job = Run("99999999-2222-3333-4444-555555555555", 0, 1)
    end = ends(Instance("FAILED", 1), DONE, state="FAILED")
    assert rules(History([agent(), launch(1, job), *OTHER], [], end)) == []
