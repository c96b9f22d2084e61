"""Workflows that fail or roll back, by themselves or for a user."""

from __future__ import annotations

from jobmgr.core.state import events as ev
from peloton.model.states import TaskState
from peloton.model.workflow import (
    WorkflowState,
    WorkflowType,
)
from tests.unit.jobmgr_core.services import Service, running, service, state, told

S, W, T, A = TaskState, WorkflowState, WorkflowType, ev.WorkflowAction


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


def test_a_user_rolls_an_update_back() -> None:
    it = running(4)
    it.update(service(6, command="new"), batch_size=3)
    it.step()
    it.steer(A.ROLL_BACK)
    it.settle()
    assert (state(it), it.versions(), sorted(it.tasks)) == (W.ROLLED_BACK, [1] * 4, [0, 1, 2, 3])


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
