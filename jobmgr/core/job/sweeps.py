"""Going through all tasks of a job, a turn's share at a time: what they may have missed is made good."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import UNBORN
from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Span
from jobmgr.core.task.goal import RULES, Action, Aim, aim_of
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime


def look(active: ActiveJobs, change: Change, share: int) -> int:
    """Look anew at the goals of the next tasks; at how many."""
    first = change.work.sweep
    if first is None or share <= 0:
        return 0
    count = change.spec.instance_count
    end = min(first + share, count)
    idle = UNBORN
    for instance in range(first, end):
        task = change.task(instance)
        if task is idle or task is UNBORN:  # most tasks of a large job share one runtime
            continue
        if _has_nothing_to_do(change, task):
            idle = task
        else:
            active.steering.resume(change, instance)
    change.work.sweep = None if end == count else end
    return end - first


def compare(change: Change, share: int) -> int:
    """Note which of the next instances wait in resmgr, as far as is known here; how many were looked at."""
    work, first = change.work, change.work.compare
    if first is None or share <= 0:
        return 0
    count = change.spec.instance_count
    end = min(first + share, count)
    begin, run, waiting = first, 0, UNBORN
    for instance in range(first, end):
        task = change.task(instance)
        if task is not waiting and _waits(change, task):
            waiting = task
        here = task.run if task is waiting and instance not in work.busy else 0
        if here != run:
            _note(change, begin, instance, run)
            begin, run = instance, here
    _note(change, begin, end, run)
    work.compare = None if end == count else end
    return end - first


def _has_nothing_to_do(change: Change, task: TaskRuntime) -> bool:
    """Whatever instance it is of, and whatever that is busy with."""
    aim = aim_of(change.goal, task)
    return aim is Aim.RUN and RULES[task.state, aim] is Action.NOTHING


def _waits(change: Change, task: TaskRuntime) -> bool:
    return task.state is TaskState.PENDING and aim_of(change.goal, task) is Aim.RUN


def _note(change: Change, first: int, end: int, run: int) -> None:
    if run and end > first:
        change.spans.append(Span(first, end, run))
