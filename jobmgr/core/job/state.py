"""A job's state from the states of its tasks (behaviour 2.4)."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.model.states import TERMINAL_TASK_STATES, JobState, TaskState

ENDS: Mapping[TaskState, JobState] = {
    TaskState.SUCCEEDED: JobState.SUCCEEDED,
    TaskState.FAILED: JobState.FAILED,
    TaskState.LOST: JobState.FAILED,
    TaskState.KILLED: JobState.KILLED,
    TaskState.DELETED: JobState.KILLED,
}
"""The end of a job that has a controller, by the end of instance 0."""


def ended_tasks(counts: Mapping[TaskState, int]) -> int:
    return sum(counts.get(state, 0) for state in TERMINAL_TASK_STATES)


def batch_state(
    counts: Mapping[TaskState, int], instances: int, goal: JobState, controller: TaskState | None = None
) -> JobState:
    """The state of a batch job with so many instances, of which `counts` are stored.

    `controller` is instance 0's state where that is a controller. A job ends when all its tasks have;
    how it ends follows the controller.
    """
    ended = ended_tasks(counts)
    if ended == instances:
        led = ENDS.get(controller) if controller is not None else None
        return led or _end(counts, instances)
    if goal in (JobState.KILLED, JobState.DELETED):
        return JobState.KILLING
    if sum(counts.values()) < instances:
        return JobState.INITIALIZED
    return JobState.RUNNING if counts.get(TaskState.RUNNING) else JobState.PENDING


def _end(counts: Mapping[TaskState, int], instances: int) -> JobState:
    succeeded = counts.get(TaskState.SUCCEEDED, 0)
    if succeeded == instances:
        return JobState.SUCCEEDED
    if succeeded + counts.get(TaskState.FAILED, 0) + counts.get(TaskState.LOST, 0) == instances:
        return JobState.FAILED
    return JobState.KILLED
