"""Workflows over changes of leaders, and what they report of what they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.workflow.states import MACHINE, WorkflowCause
from jobmgr.engine.lanes import Lanes
from jobmgr.services.private.problems import silent_workflows
from peloton.clock import ManualClock
from peloton.model.ids import JobId
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import (
    WorkflowState,
    WorkflowType,
)
from tests.unit.jobmgr_core.services import Service, running, service, state, told
from tests.unit.jobmgr_core.specs import JOB

S, W, T, A = TaskState, WorkflowState, WorkflowType, ev.WorkflowAction


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


@dataclass
class OneLane:
    """What is asked of the lanes, where there is one."""

    of: Service

    def silent(self) -> dict[JobId, str]:
        rollouts = self.of.core.rollouts
        return {job_id: rollouts.reasons[job_id] for job_id in rollouts.silent}

    def job(self, job_id: JobId) -> CachedJob | None:
        return self.of.core.active.jobs[job_id].job


class Reported(Service):
    """A service whose cycles' reports are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reports: list[str] = []
        self.on_cycle.append(lambda cycle: self.reports.extend(reason for _, _, reason in cycle.silent))


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
    [problem] = asyncio.run(silent_workflows(cast("Lanes", OneLane(it)), ManualClock(epoch=it.wall)))
    assert problem.text.startswith("The update of ") and " has made no progress for 30 min" in problem.text
    assert problem.text.endswith(": waits for instances: 1 in flight (0): 1 PENDING; no progress for 30 min")
    assert f"`peloton job why {JOB}`" in problem.remedy
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


def test_a_workflow_that_waits_for_throttled_instances_alone_is_not_reported() -> None:
    it = Reported(service(2))
    it.settle()
    it.update(service(2, command="new"), batch_size=1)
    while (0, 2) not in it.alive or it.alive[0, 2] is not S.LAUNCHED:
        it.cycle()
        it.act()
        it.place()
    it.say(0, 2, S.STARTING)
    for _ in range(8):
        it.end(0)
        assert it.core.active.jobs[JOB].job.throttled == {0}
        it.wait(3601)
        it.act()
        it.place()
        it.act()
    assert it.workflow is not None
    assert not it.reports and not it.core.rollouts.silent
    it.end(0)
    reason = it.core.rollouts.status(it.workflow).workflow.reason
    assert reason.endswith("1 FAILED; they crash-loop: their program fails again and again")
    it.wait(3601)
    it.act()  # the next run waits in resmgr, and nobody places it
    it.wait(1801)
    assert len(it.reports) == 1, "what waits for a host is no matter of the user's program"
