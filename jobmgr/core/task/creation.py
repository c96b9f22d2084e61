"""The first runtimes of instances."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.state.task_states import Cause, state_after
from jobmgr.core.task.actions import NO_PORTS
from jobmgr.core.task.authors import told_end, with_author
from peloton.model.states import HealthState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, Termination


def first_runtime(change: Change, instance: int, stopped: bool, by: str = "") -> TaskRuntime:
    """Return the first runtime of an instance; one that was `stopped` before it was created has ended."""
    who = by or change.goal_by
    cause = Cause.CREATED_STOPPED if stopped else Cause.CREATED
    killed_for = with_author("stopped", who) if stopped and who else ""
    state = state_after(change.job_id, instance, change.task(instance), cause)
    version, now = change.spec.version, change.timestamp()
    return TaskRuntime(
        state=state,
        goal=TaskState.KILLED if stopped else change.running_goal,
        run=1,
        config_version=version,
        desired_config_version=version,
        desired_run=1,
        ports=NO_PORTS,
        completion_time=now if stopped else 0,
        termination=Termination(TerminationReason.KILLED_ON_REQUEST, by=who) if stopped else None,
        killed_for=killed_for,
        message=told_end(killed_for, "stopped before it was enqueued") if stopped else "",
        created_at=now,
        updated_at=now,
    )


def come_back(
    change: Change,
    instance: int,
    task: TaskRuntime,
    version: int,
    *,
    stopped: bool = False,
    desired_host: str = "",
    volume_id: str = "",
) -> TaskRuntime:
    """Give an instance that was removed its next run, with a version of the config."""
    number = change.in_flight.next_number(instance, task.run)
    return change.move(
        instance,
        Cause.CREATED_STOPPED if stopped else Cause.CREATED,
        goal=TaskState.KILLED if stopped else change.running_goal,
        run=number,
        desired_run=number,
        previous_run=task.run,
        config_version=version,
        desired_config_version=version,
        host="",
        agent_id="",
        ports=NO_PORTS,
        start_time=0,
        completion_time=change.timestamp() if stopped else 0,
        termination=None,
        killed_for="",
        previous_state=TaskState.UNKNOWN,
        saved_at=0,
        failure_count=0,
        rule_ends=None,
        health=HealthState.DISABLED,
        desired_host=desired_host,
        volume_id=volume_id,
        reason="",
        message="",
    )
