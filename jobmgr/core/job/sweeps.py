"""Sweeps over all tasks of a job, a share in each cycle: creation, evaluation, comparison with resmgr."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Span
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.creation import first_runtime
from jobmgr.core.task.gang import note_new, round_begun
from jobmgr.core.task.goal import RULES, Action, Goal, goal_of
from jobmgr.core.task.volumes import give_up_unused
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime


def create(change: Change, share: int) -> int:
    """Create the next rows that are missing; return how many instances were examined."""
    in_flight, count = change.in_flight, change.spec.instance_count
    if change.waits:
        return 0
    if in_flight.next_to_create >= count or not change.incomplete:
        in_flight.next_to_create = count
        return 0
    first = in_flight.next_to_create
    end = in_flight.next_to_create = min(first + share, count)
    missing = [i for i in range(first, end) if change.task(i) is NOT_CREATED]
    stopped = change.goal in ENDING_JOB_GOALS
    if missing:
        _create_missing(change, missing, first_runtime(change, missing[0], stopped))
    if not stopped:
        note_new(change)
        for instance in missing:
            in_flight.mark_ready(instance)
    return end - first


def _create_missing(change: Change, missing: list[int], task: TaskRuntime) -> None:
    """Create rows, those of members of a bound gang in the round of the members whose rows are stored.

    A cycle in which the gang began its second round may have been stored in part.
    """
    begun = round_begun(change) if change.in_flight.recovered else task.run
    late = change.spec.bound_members if begun > task.run else 0
    if members := [i for i in missing if i < late]:
        change.create(members, replace(task, run=begun, desired_run=begun))
    if others := [i for i in missing if i >= late]:
        change.create(others, task)


def evaluate(active: ActiveJobs, change: Change, share: int) -> int:
    """Evaluate the next tasks of a sweep; return how many were examined."""
    first = change.in_flight.sweep
    if first is None or share <= 0:
        return 0
    if first == 0:
        give_up_unused(change)
    count = change.size
    end = min(first + share, count)
    idle = NOT_CREATED
    for instance in range(first, end):
        task = change.task(instance)
        if task is idle or task is NOT_CREATED:  # most tasks of a large job share one runtime
            continue
        if _is_idle(change, task):
            idle = task
        else:
            active.actions.resume(change, instance)
    change.in_flight.sweep = None if end == count else end
    return end - first


def compare(change: Change, share: int) -> int:
    """Note which of the next tasks wait in resmgr, as far as jobmgr knows; return how many were examined."""
    in_flight, first = change.in_flight, change.in_flight.compare
    if first is None or share <= 0:
        return 0
    count = change.size
    end = min(first + share, count)
    begin, run, waiting = first, 0, NOT_CREATED
    for instance in range(first, end):
        task = change.task(instance)
        if task is not waiting and _waits(change, task):
            waiting = task
        here = task.run if task is waiting and instance not in in_flight.pending else 0
        if here != run:
            _note(change, begin, instance, run)
            begin, run = instance, here
    _note(change, begin, end, run)
    in_flight.compare = None if end == count else end
    return end - first


def compare_these(change: Change, instances: Iterable[int]) -> None:
    """Note which of some tasks wait in resmgr, as far as jobmgr knows; they are compared in this cycle."""
    waiting = [
        (instance, change.task(instance).run)
        for instance in sorted(instances)
        if instance not in change.in_flight.pending and _waits(change, change.task(instance))
    ]
    for _, group in groupby(enumerate(waiting), key=lambda each: (each[1][0] - each[0], each[1][1])):
        (_, (first, run)), *others = group
        _note(change, first, first + 1 + len(others), run)


def _is_idle(change: Change, task: TaskRuntime) -> bool:
    """Return whether the rules require nothing, whatever the instance and its pending operation."""
    goal = goal_of(change.goal, task)
    if task.state is TaskState.SUCCEEDED and not change.service:
        return goal is Goal.RUN
    return goal is Goal.RUN and RULES[task.state, goal] is Action.NOTHING


def _waits(change: Change, task: TaskRuntime) -> bool:
    return task.state is TaskState.PENDING and goal_of(change.goal, task) is Goal.RUN


def _note(change: Change, first: int, end: int, run: int) -> None:
    if run and end > first:
        change.spans.append(Span(first, end, run))
