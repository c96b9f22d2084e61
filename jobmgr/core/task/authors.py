"""Who asked for the end of a run, and how its history says so."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.goal import Goal, goal_of
from peloton.model.states import TaskState, TerminationReason
from peloton.model.task import TaskRuntime, Termination


def with_author(what: str, by: str) -> str:
    """Return what was done to a task, and by whom, where that is known."""
    return f"{what} by {by}" if by else what


def author_of_end(change: Change, task: TaskRuntime) -> str:
    """Return who wants a live run to end; empty where nobody does, or callers are not known.

    A request for the instance counts before one for the job, and that before the workflow that runs.
    """
    if task.termination is not None and task.termination.by:
        return task.termination.by
    if change.goal in ENDING_JOB_GOALS:
        return change.goal_by
    workflow = change.workflow
    left_host = change.follows_hosts and goal_of(change.goal, task) is Goal.REMOVE
    return "" if workflow is None or workflow.state.terminal or left_host else workflow.by


def asked_end(
    task: TaskRuntime, reason: TerminationReason, by: str, *, always: bool = False
) -> Termination | None:
    """Return how a run is to end that somebody wants to end. One that ends already keeps its cause.

    It is noted where the caller is known, and `always` where the reason does not follow from the goal.
    """
    ends = task.state is TaskState.KILLING or task.state.terminal
    return task.termination if ends or not (by or always) else Termination(reason, by=by)


def asked_within_sla(task: TaskRuntime) -> bool:
    """Return whether a live run is to end for a restart that has regard to the SLA."""
    how = task.termination
    return how is not None and how.reason is TerminationReason.KILLED_FOR_SLA_AWARE_RESTART


def told_end(killed_for: str, message: str) -> str:
    """Return the message of the end of a run that may have been killed: why, and what else is known."""
    return "; ".join(part for part in (killed_for, message) if part)
