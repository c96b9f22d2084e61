"""Tasks that save their work: when each did last, and how much is lost where a run ends."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.task.usage import NANOSECONDS, held
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.usage import PREEMPTED

LOST = "lost"
"""The kind of resource usage that counts seconds of work that were lost."""


def note_saved(change: Change, instance: int, status: TaskStatus) -> None:
    """Note when the current run of an instance has saved its work; an earlier time may come late."""
    task = change.task(instance)
    if task.saved_at < status.saved_at and not task.state.terminal:
        change.revise(instance, saved_at=status.saved_at)


def lost_seconds(change: Change, instance: int, task: TaskRuntime, end: TaskState, completed: int) -> float:
    """Return the seconds since a run, which has ended, saved its work last, or since its start.

    None are lost where it has succeeded, somebody asked for its end, or the task does not save its work.
    """
    asked = task.termination is not None and task.termination.reason is TerminationReason.KILLED_ON_REQUEST
    saves = bool(change.task_spec(instance).workload.checkpoint_file)
    if not saves or end is TaskState.SUCCEEDED or not task.start_time or (asked and end is TaskState.KILLED):
        return 0.0
    return max(completed - max(task.start_time, task.saved_at), 0) / NANOSECONDS


def held_in_vain(task: TaskRuntime, need: Resources, end: TaskState, completed: int) -> dict[str, float]:
    """Return what a run that was preempted has held since it saved its work, or its start; else nothing."""
    how = task.termination
    if how is None or how.reason is not TerminationReason.PREEMPTED_RESOURCES or end is TaskState.SUCCEEDED:
        return {}
    if not task.start_time:
        return {}
    amounts = held(need, (max(task.start_time, task.saved_at), completed))
    return {PREEMPTED + kind: amount for kind, amount in amounts.items()}
