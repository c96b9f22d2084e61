"""What happens to runs from outside: statuses from Mesos or jobmgr, and kills before the launch."""

from __future__ import annotations

from peloton.errors import NotFound, Refused
from peloton.model.ids import JobId, Run, task_id
from peloton.model.states import TaskState
from resmgr.core.state.entities import Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.task_states import BEFORE_LAUNCH, OBSERVED, ON_HOST, STATES, Event

_PENDING, _PREEMPTING = TaskState.PENDING, TaskState.PREEMPTING
_RUN, _END = Event.RUNNING, Event.END
ANY_RUN = 0
"""Names whichever run of an instance is held."""


def observe(lifecycle: Lifecycle, run: Run, state: TaskState, now: float) -> bool:
    """Apply a reported state of a run; return whether the run is known and the state is possible."""
    task, event = lifecycle.registry.find(run), OBSERVED.get(state)
    if task is None or event is None:
        if event is not None:
            _note_stranger(lifecycle, run, event)
        return False
    if event is _END:
        _end(lifecycle, task)
        return True
    after = STATES.table.get((task.state, event))
    if after is None:
        return False
    if task.state is _PENDING:
        task.pool.charge(task.needs.charge)
    if task.holder is not None:
        task.holder.launched(run)
    lifecycle.leave_gang(task)
    if after is not task.state:
        lifecycle.step(task, event, now)
        if event is _RUN and task.enqueued:
            task.pool.to_running.add(now - task.enqueued)
    if task.deadline and (task.state is not _PREEMPTING or task.orphan):
        lifecycle.deadlines.cancel(task)
    lifecycle.reasons.set(task, "")
    return True


def _note_stranger(lifecycle: Lifecycle, run: Run, event: Event) -> None:
    """Note a run on a host that is not known here, unless a later one is."""
    if event is _END:
        lifecycle.strangers.end(run)
        return
    known = lifecycle.registry.current(run.job_id, run.instance)
    if known is None or known.run < run.run:
        lifecycle.strangers.note(run)


def kill(lifecycle: Lifecycle, job_id: JobId, instance: int, run: int = ANY_RUN) -> None:
    """Remove a task before it is launched. Raises NotFound, and Refused once it is launched.

    A call may come late, or again: a run that is newer than the one that it names stays.
    """
    task = lifecycle.registry.current(job_id, instance)
    if task is None:
        raise NotFound(f"no task {task_id(job_id, instance)} is known here")
    if run != ANY_RUN and run < task.run:
        raise NotFound(f"run {run} of task {task_id(job_id, instance)} is not known here, but run {task.run}")
    if task.state not in BEFORE_LAUNCH:
        raise Refused(f"task {task_id(job_id, instance)} is {task.state.name}: it is launched already")
    _end(lifecycle, task)


def _end(lifecycle: Lifecycle, task: Task) -> None:
    """Forget a run; where the one before it is on a host yet, that one is the current one again.

    jobmgr keeps a lost run that comes back. Where its replacement is enqueued again by a message that comes
    late, that one is taken out once more.
    """
    registry = lifecycle.registry
    may_return = bool(registry.orphans) and not task.orphan
    lifecycle.forget(task)
    if not may_return:
        return
    before = registry.orphans.get(task.key._replace(run=task.run - 1))
    if before is None or before.state not in ON_HOST:
        return
    registry.reinstate(before)
    if before.state is _PREEMPTING:
        lifecycle.deadlines.set(before, before.since + lifecycle.limits.preempting)
