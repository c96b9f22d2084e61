"""Dispatch: which waiting instances of a job are enqueued now.

A gang goes as a whole, and never more than maximumRunningInstances are scheduled (docs/behaviour/jobs.md,
SLA).
"""

from __future__ import annotations

from jobmgr.core.job import elastic
from jobmgr.core.state.cache import is_reached
from jobmgr.core.state.change import Change
from jobmgr.core.state.in_flight import PendingOp
from jobmgr.core.state.job_states import ended_tasks
from jobmgr.core.task.actions import TaskActions
from jobmgr.core.task.goal import Goal, goal_of
from peloton.model.states import TaskState


def dispatch(actions: TaskActions, change: Change) -> None:
    """Enqueue the gangs that may go."""
    if change.in_flight.missing:
        _dispatch_missing(actions, change)
    if change.in_flight.parked:
        _unpark(change)
    if change.in_flight.first_ready() is None:
        return
    left = free_slots(change)
    while left > 0 and (instance := change.in_flight.first_ready()) is not None:
        gang = _next_gang(actions, change, instance)
        if gang is None:
            return
        if len(gang) > left:
            for member in gang:
                change.in_flight.mark_ready(member)
            return
        left -= len(gang)
        _enqueue(change, gang)


def free_slots(change: Change) -> int:
    """Return how many more instances maximumRunningInstances allows to be scheduled."""
    if change.service:
        return change.size
    instances = change.spec.instance_count
    maximum = change.spec.sla.maximum_running_instances or instances
    waiting = change.counts.get(TaskState.INITIALIZED, 0)
    alive = sum(change.counts.values()) - ended_tasks(change.counts)
    return maximum - (alive - waiting) - change.in_flight.enqueuing


def _next_gang(actions: TaskActions, change: Change, first: int) -> list[int] | None:
    """Take the gang of `first` out of the ready instances.

    It is empty where `first` is not ready after all, and None where some members are still to be examined.
    """
    in_flight, size = change.in_flight, change.spec_of(first).gang_size
    if first >= size:
        in_flight.take_ready()
        if not _is_ready(change, first) or (change.spec.has_peers and _is_parked(change, first)):
            return []
        if change.spec.is_extra(first) and not elastic.joins(actions, change, first):
            return []
        return [first]
    if _is_to_be_compared(change, size):
        return None
    gang = []
    while (instance := in_flight.first_ready()) is not None and instance < size:
        in_flight.take_ready()
        if _is_ready(change, instance):
            gang.append(instance)
    return _bound_gang(change) if change.spec.bound_members else gang


def _is_parked(change: Change, instance: int) -> bool:
    """Set an instance aside whose peer has no host yet; return whether that was done."""
    peer = change.task_spec(instance).workload.peer
    if peer is None or peer == instance or is_reached(change.task(peer)):
        return False
    change.in_flight.parked.setdefault(peer, set()).add(instance)
    return True


def _unpark(change: Change) -> None:
    """Queue the instances whose peers have hosts by now."""
    parked = change.in_flight.parked
    for peer in [peer for peer in parked if is_reached(change.task(peer))]:
        for instance in parked.pop(peer):
            change.in_flight.mark_ready(instance)


def _bound_gang(change: Change) -> list[int]:
    """Return all ready members of a bound gang; none while one of them waits before its next try.

    Of an elastic gang these are the members that it needs.
    """
    members, pending = range(change.spec.gang_size), change.in_flight.pending
    if any(pending.get(member) is PendingOp.BACKOFF for member in members):
        return []
    return [member for member in members if _is_ready(change, member)]


def is_to_be_examined(change: Change, size: int) -> bool:
    """Return whether some of the first `size` instances are not created or evaluated yet."""
    in_flight = change.in_flight
    return (in_flight.next_to_create < size and change.incomplete) or (
        in_flight.sweep is not None and in_flight.sweep < size
    )


def _is_to_be_compared(change: Change, size: int) -> bool:
    """Return whether some of the first `size` instances are not examined yet, or not compared with resmgr."""
    in_flight = change.in_flight
    return (
        is_to_be_examined(change, size)
        or (in_flight.compare is not None and in_flight.compare < size)
        or (size > 0 and (in_flight.comparing > 0 or bool(change.spans)))
    )


def _is_ready(change: Change, instance: int) -> bool:
    return _is_to_run(change, instance, TaskState.INITIALIZED)


def _is_to_run(change: Change, instance: int, state: TaskState) -> bool:
    """Return whether the task is in the state, is to run, and has no pending operation."""
    task = change.task(instance)
    return (
        task.state is state
        and instance not in change.in_flight.pending
        and goal_of(change.goal, task) is Goal.RUN
    )


def _dispatch_missing(actions: TaskActions, change: Change) -> None:
    """Enqueue again what is PENDING and missing in resmgr, a gang with its waiting members."""
    in_flight = change.in_flight
    missing, in_flight.missing = in_flight.missing, set()
    in_gang = {i for i in missing if change.spec_of(i).in_gang(i)}
    size = max((change.spec_of(i).gang_size for i in in_gang), default=0)
    if _is_to_be_compared(change, size):
        in_flight.missing = in_gang
    pending = sorted(i for i in missing - in_flight.missing if _is_to_run(change, i, TaskState.PENDING))
    together = [i for i in pending if i in in_gang]
    if together:
        first = in_flight.first_ready()
        together += (_next_gang(actions, change, first) or []) if first is not None and first < size else []
        _enqueue(change, sorted(together))
    for instance in pending:
        if instance not in in_gang:
            _enqueue(change, [instance])


def _enqueue(change: Change, gang: list[int]) -> None:
    if not gang:
        return
    assert len(set(gang)) == len(gang), f"{change.job_id}: a gang has an instance twice: {gang}"
    known = False
    for instance in gang:
        again = change.task(instance).state is TaskState.PENDING
        change.in_flight.begin(instance, PendingOp.ENQUEUE_AGAIN if again else PendingOp.ENQUEUE)
        known = known or again
    gangs = change.gangs_again if known else change.gangs
    gangs.append(tuple((instance, change.task(instance).run) for instance in gang))
