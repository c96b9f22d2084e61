"""Availability classes, and restarts that are held to the SLA of a service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobmgr.core.job.availability import disruption, instance_availability
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.decisions import Cycle
from peloton.errors import Conflict, Refused
from peloton.model.availability import Availability
from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.states import HealthState, JobState, JobType, TaskState, TerminationReason
from peloton.model.task import TaskRuntime
from peloton.model.workflow import WorkflowType
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

S, A, R = TaskState, Availability, TerminationReason


def limited(most: int, instances: int = 4, **more: Any) -> JobSpec:
    """A service of which at most `most` instances may be unavailable."""
    spec = service(instances, **more)
    return replace(spec, sla=replace(spec.sla, maximum_unavailable_instances=most))


def running(most: int, instances: int = 4) -> Service:
    it = Service(limited(most, instances))
    it.settle()
    return it


def restart(it: Service, *instances: int, check_sla: bool = True) -> Any:
    return it.ask(ev.RestartRequested(JOB, instances, check_sla))


def task(state: TaskState = S.RUNNING, goal: TaskState = S.RUNNING, **more: Any) -> TaskRuntime:
    fresh = TaskRuntime(state, goal, run=1, config_version=1, desired_config_version=1, desired_run=1)
    return replace(fresh, **more)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (None, A.INVALID),
        (task(S.UNKNOWN), A.INVALID),
        (task(), A.AVAILABLE),
        (task(health=HealthState.HEALTHY), A.AVAILABLE),
        (task(health=HealthState.UNHEALTHY), A.UNAVAILABLE),
        (task(health=HealthState.UNKNOWN), A.UNAVAILABLE),
        (task(S.PENDING), A.UNAVAILABLE),
        (task(S.FAILED), A.UNAVAILABLE),
        (task(S.KILLING), A.UNAVAILABLE),
        (task(desired_run=2), A.UNAVAILABLE),
        (task(S.KILLED, S.KILLED), A.KILLED),
        (task(S.RUNNING, S.KILLED), A.KILLED),
        (task(S.KILLED, S.KILLED, desired_run=2), A.UNAVAILABLE),
        (task(S.RUNNING, S.DELETED), A.DELETED),
        (task(S.DELETED), A.DELETED),
    ],
)
def test_the_class_of_an_instance(found: TaskRuntime | None, kind: Availability) -> None:
    assert instance_availability(JobState.RUNNING, found) is kind
    stopped = {A.AVAILABLE: A.KILLED, A.UNAVAILABLE: A.KILLED}.get(kind, kind)
    assert instance_availability(JobState.KILLED, found) is stopped


@pytest.mark.parametrize(
    ("most", "tasks", "kills", "allowed"),
    [
        (1, [task(), task()], [0], True),
        (1, [task(), task()], [0, 1], False),
        (1, [task(), task(S.PENDING)], [0], False),
        (1, [task(), task(S.PENDING)], [1], True),
        (1, [task(S.FAILED), task(S.PENDING)], [0, 1], True),
        (2, [task(), task(S.PENDING)], [0], True),
        (1, [task(), task(S.KILLED, S.KILLED)], [0], True),
        (1, [task(), task(S.RUNNING, S.DELETED)], [0], True),
        (1, [task(), task(S.UNKNOWN)], [0], True),
        (0, [task(), task(), task(S.PENDING)], [0, 1], True),
    ],
)
def test_kills_within_the_sla(most: int, tasks: list[TaskRuntime], kills: list[int], allowed: bool) -> None:
    killed = [tasks[i] for i in kills]
    assert disruption(limited(most), JobState.RUNNING, tasks, killed).allowed is allowed
    batch = replace(limited(most), type=JobType.BATCH)
    assert disruption(batch, JobState.RUNNING, tasks, killed).allowed


def test_a_restart_within_the_sla_has_its_reason() -> None:
    it = running(1)
    assert restart(it, 2) == [2]
    assert (it.rows[2].state, it.rows[2].termination.reason) == (S.KILLING, R.KILLED_FOR_SLA_AWARE_RESTART)  # type: ignore[union-attr]
    it.settle()
    assert (it.rows[2].state, it.rows[2].run, it.rows[2].termination) == (S.RUNNING, 2, None)
    assert it.rows[2].failure_count == 0


def test_a_restart_that_would_break_the_sla_changes_nothing() -> None:
    it = running(1)
    restart(it, 0)
    before = dict(it.rows)
    refused = restart(it, 1)
    assert isinstance(refused, Conflict)
    assert str(refused) == (
        f"the SLA of job {JOB} would break: 1 instance is unavailable, 1 more would be, "
        "and maximumUnavailableInstances is 1"
    )
    assert isinstance(restart(it, 0, 1, 2), Conflict)
    assert it.rows == before
    it.settle()
    assert restart(it, 1) == [1]


def test_two_requests_in_one_cycle_count_together() -> None:
    it = running(1)
    first, second = it.cycle(*(ev.RestartRequested(JOB, [i], True) for i in (0, 1)))
    assert first == [0] and isinstance(second, Conflict)


def test_a_repeated_restart_is_the_same_restart() -> None:
    it = running(1)
    assert restart(it, 0) == [0]
    before = dict(it.rows)
    assert restart(it, 0) == [0]
    assert it.rows == before


def test_an_instance_that_is_down_anyway_may_be_restarted() -> None:
    it = running(1)
    it.end(0)
    it.end(1)
    assert restart(it, 0) == [0]
    assert isinstance(restart(it, 2), Conflict)
    it.settle()
    assert (it.states(), it.rows[0].run) == (["RUNNING", "FAILED", "RUNNING", "RUNNING"], 2)


def test_stopped_instances_do_not_count_until_a_restart_starts_them() -> None:
    it = running(1)
    it.ask(ev.StopRequested(JOB, [0, 1]))
    it.settle()
    assert restart(it, 0) == [0]
    assert isinstance(restart(it, 2), Conflict)
    it.settle()
    assert it.states()[:2] == ["RUNNING", "KILLED"]
    assert restart(it, 2) == [2]


def test_a_restart_without_the_check_is_not_held_to_the_sla() -> None:
    it = running(1)
    assert restart(it, 0, 1, 2, check_sla=False) == [0, 1, 2]
    assert it.rows[0].termination.reason is R.KILLED_FOR_RESTART  # type: ignore[union-attr]


def test_no_limit_holds_nothing_back() -> None:
    it = running(0)
    assert restart(it, 0, 1, 2, 3) == [0, 1, 2, 3]


def preempt(it: Service, *instances: int) -> None:
    it.cycle(ev.Preempted([(Run(JOB, i, it.rows[i].run), "/b waits") for i in instances]))


def test_preemption_is_held_to_the_sla() -> None:
    it = running(1)
    preempt(it, 2, 0)
    assert ins.Keep((Run(JOB, 0, it.rows[0].run),)) in it.todo, "resmgr is told"
    assert it.states() == ["RUNNING", "RUNNING", "KILLING", "RUNNING"]
    assert it.rows[0].message == (
        "was to be preempted (/b waits), but the SLA would break: 1 instance is unavailable, 1 more would "
        "be, and maximumUnavailableInstances is 1"
    )
    it.settle()
    preempt(it, 0)
    assert (it.rows[2].run, it.rows[0].state) == (2, S.KILLING)


def test_an_instance_that_is_down_leaves_no_room_for_others() -> None:
    it = running(1)
    it.end(1)
    before = it.states()
    preempt(it, 0, 1, 2)
    assert it.states() == before
    assert [bool(it.rows[i].message.startswith("was to be preempted")) for i in range(3)] == [
        True,
        False,
        True,
    ]


def test_without_a_limit_all_may_be_preempted() -> None:
    it = running(0)
    preempt(it, 0, 1, 2, 3)
    assert it.states() == ["KILLING"] * 4


def test_the_newest_version_decides_about_the_limit() -> None:
    it = running(1)
    it.update(limited(3))
    it.settle()
    assert restart(it, 0, 1, 2) == [0, 1, 2]


def test_a_job_that_is_being_stopped_restarts_nothing() -> None:
    it = running(1)
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    assert isinstance(restart(it, 0), Refused)


@pytest.mark.parametrize("falls", [False, True])
def test_a_run_that_waits_gets_the_reason_when_it_is_withdrawn(falls: bool) -> None:
    it = Service(limited(1))
    it.cycle()
    it.act()
    assert it.rows[0].state is S.PENDING
    assert restart(it, 0) == [0]
    if falls:
        it.fall()
    ended = _ends(it)
    it.settle()
    assert [(run, reason) for instance, run, reason in ended if instance == 0] == [
        (1, R.KILLED_FOR_SLA_AWARE_RESTART)
    ]
    assert (it.rows[0].state, it.rows[0].run, it.rows[0].termination) == (S.RUNNING, 2, None)


def test_the_event_of_the_end_keeps_the_reason() -> None:
    it = running(1)
    ended = _ends(it)
    restart(it, 3)
    it.settle()
    assert ended == [(3, 1, R.KILLED_FOR_SLA_AWARE_RESTART)]


def test_a_restart_in_the_middle_of_an_update_has_its_own_reason() -> None:
    it = running(0)
    it.begin(WorkflowType.UPDATE, limited(0, command="new"), batch_size=1, start_paused=True)
    it.cycle()
    assert restart(it, 2) == [2]
    assert it.rows[2].termination.reason is R.KILLED_FOR_SLA_AWARE_RESTART  # type: ignore[union-attr]


def _ends(it: Service) -> list[tuple[int, int, TerminationReason]]:
    """Instance, run and reason of each end in the histories of runs from now on."""
    ended: list[tuple[int, int, TerminationReason]] = []

    def noted(cycle: Cycle) -> None:
        for change in cycle.changes.values():
            ended.extend(
                (event.instance, event.run, event.termination.reason)
                for event in change.events
                if event.state.terminal and event.termination is not None
            )

    it.on_cycle.append(noted)
    return ended
