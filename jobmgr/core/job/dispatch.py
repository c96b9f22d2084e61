"""Which of a job's waiting instances are enqueued now: gangs together, and never more than
maximumRunningInstances scheduled at once (behaviour 2.3)."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.state.in_flight import Busy
from jobmgr.core.state.job_states import ended_tasks
from jobmgr.core.task.goal import Aim, aim_of
from peloton.model.states import TaskState


def feed(change: Change) -> None:
    """Make gangs of what may go, and mark their instances busy."""
    if change.work.escaped:
        _feed_escaped(change)
    left = room(change)
    while left > 0 and (instance := change.work.first_ready()) is not None:
        gang = _next_gang(change, instance)
        if gang is None:
            return
        if len(gang) > left:
            for member in gang:
                change.work.offer(member)
            return
        left -= len(gang)
        _send(change, gang)


def room(change: Change) -> int:
    """How many more of the job's instances may be scheduled now."""
    instances = change.spec.instance_count
    maximum = change.spec.sla.maximum_running_instances or instances
    waiting = change.counts.get(TaskState.INITIALIZED, 0)
    alive = sum(change.counts.values()) - ended_tasks(change.counts)
    return maximum - (alive - waiting) - change.work.enqueuing


def _next_gang(change: Change, first: int) -> list[int] | None:
    """Takes it out of the ready ones; empty where the first turns out not to be ready, None where the gang is
    not whole yet because some of its members are still to be looked at."""
    work, size = change.work, change.spec_of(first).gang_size
    if first >= size:
        work.take_ready()
        return [first] if _is_ready(change, first) else []
    if _is_to_be_looked_at(change, size):
        return None
    gang = []
    while (instance := work.first_ready()) is not None and instance < size:
        work.take_ready()
        if _is_ready(change, instance):
            gang.append(instance)
    return gang


def _is_to_be_looked_at(change: Change, size: int) -> bool:
    """Whether some of the first instances have no row yet, a sweep has not come to them, or it is not known
    whether resmgr holds them."""
    work = change.work
    return (
        (work.unborn < size and change.unborn)
        or (work.sweep is not None and work.sweep < size)
        or (work.compare is not None and work.compare < size)
        or (size > 0 and (work.comparing > 0 or bool(change.spans)))
    )


def _is_ready(change: Change, instance: int) -> bool:
    task = change.task(instance)
    return (
        task.state is TaskState.INITIALIZED
        and instance not in change.work.busy
        and aim_of(change.goal, task) is Aim.RUN
    )


def _feed_escaped(change: Change) -> None:
    """Enqueue again what is PENDING but not held by resmgr, a gang with its members that wait."""
    work = change.work
    escaped, work.escaped = work.escaped, set()
    in_gang = {i for i in escaped if change.spec_of(i).in_gang(i)}
    size = max((change.spec_of(i).gang_size for i in in_gang), default=0)
    if _is_to_be_looked_at(change, size):
        work.escaped = in_gang
    pending = sorted(i for i in escaped - work.escaped if _is_escaped(change, i))
    together = [i for i in pending if i in in_gang]
    if together:
        first = work.first_ready()
        together += (_next_gang(change, first) or []) if first is not None and first < size else []
        _send(change, sorted(together))
    for instance in pending:
        if instance not in in_gang:
            _send(change, [instance])


def _is_escaped(change: Change, instance: int) -> bool:
    task = change.task(instance)
    return (
        task.state is TaskState.PENDING
        and instance not in change.work.busy
        and aim_of(change.goal, task) is Aim.RUN
    )


def _send(change: Change, gang: list[int]) -> None:
    if not gang:
        return
    known = False
    for instance in gang:
        again = change.task(instance).state is TaskState.PENDING
        change.work.occupy(instance, Busy.ENQUEUE_AGAIN if again else Busy.ENQUEUE)
        known = known or again
    gangs = change.gangs_again if known else change.gangs
    gangs.append(tuple((instance, change.task(instance).run) for instance in gang))
