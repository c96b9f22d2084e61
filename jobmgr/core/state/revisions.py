"""Revisions of runtimes, their events, and the times that these have."""

from __future__ import annotations

from jobmgr.core.state.task_states import Details
from peloton.model.ids import JobId
from peloton.model.states import TaskState
from peloton.model.task import PodEvent, TaskRuntime


def next_revision(old: TaskRuntime, state: TaskState, updated_at: int, details: Details) -> TaskRuntime:
    """Return the next revision of a runtime.

    This is `dataclasses.replace` in a fraction of the time: every step of every run is made here.
    """
    new = TaskRuntime(
        state,
        old.goal,
        old.run,
        old.config_version,
        old.desired_config_version,
        old.desired_run,
        old.previous_run,
        old.host,
        old.agent_id,
        old.ports,
        old.start_time,
        old.completion_time,
        old.message,
        old.reason,
        old.failure_count,
        old.health,
        old.termination,
        old.desired_host,
        old.volume_id,
        old.resource_usage,
        old.revision + 1,
        old.created_at,
        updated_at,
        old.throttled,
        old.killed_for,
        old.previous_state,
        old.saved_at,
        old.rule_ends,
    )
    for name, value in details.items():
        setattr(new, name, value)  # it is not shared yet
    return new


def pod_event(job_id: JobId, instance: int, task: TaskRuntime) -> PodEvent:
    """Return the event of a task's last step, for its history."""
    return PodEvent(
        job_id,
        instance,
        task.run,
        task.state,
        task.goal,
        task.updated_at,
        task.config_version,
        task.desired_config_version,
        task.previous_run,
        task.desired_run,
        task.agent_id,
        task.host,
        task.message,
        task.reason,
        task.health,
        task.termination,
    )


class Timestamps:
    """Wall times that never repeat: the history of an instance is kept by time."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self, wall: int) -> int:
        """Return `wall`, or a time just after the last one where that is later."""
        self.last = wall if wall > self.last else self.last + 1
        return self.last
