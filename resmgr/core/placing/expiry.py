"""Expiry of deadlines and leases."""

from __future__ import annotations

from collections.abc import Collection

from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.state.entities import Gang
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.task_states import Event

AT_ONCE = 5000
"""Most deadlines that one cycle acts on."""
_S = TaskState


def expire(lifecycle: Lifecycle, now: float) -> int:
    """Act on the deadlines that have come, the earliest AT_ONCE of them; return how many there were."""
    due = lifecycle.deadlines.due(now, AT_ONCE)
    for subject in due:
        if isinstance(subject, Gang):
            _expire_gang(lifecycle, subject, now)
        elif subject.orphan:
            lifecycle.forget(subject)
        elif subject.state is _S.PREEMPTING:
            lifecycle.step(subject, Event.SPARE, now)
            lifecycle.reasons.set(subject, "")
    return len(due)


def expire_leases(lifecycle: Lifecycle, now: float, present: Collection[str] | None = None) -> int:
    """Take back what is leased to holders that are silent or not `present`; return the number of gangs.

    `present` is None where the membership is not known.
    """
    gangs: dict[Gang, None] = {}
    for holder in lifecycle.leases.expire(now, lifecycle.limits.silence, present):
        lifecycle.placements.abandon(*holder.unused())
        gangs.update((task.gang, None) for task in holder.tasks if task.gang is not None)
    for gang in gangs:
        lifecycle.retry(gang, now)
    return len(gangs)


def _expire_gang(lifecycle: Lifecycle, gang: Gang, now: float) -> None:
    states = {task.state for task in gang.tasks}
    if _S.PLACING in states:
        lifecycle.fail(gang, "the placement engine did not answer in time", now)
    elif _S.RESERVED in states:
        lifecycle.reasons.set_gang(gang, "no host could be reserved in time")
        lifecycle.send_back(gang, now)
    elif _S.LAUNCHING in states:
        lifecycle.reasons.set_gang(gang, "the job manager did not launch it in time")
        _retry_launch(lifecycle, gang, now)
    elif _S.PENDING in states:
        lifecycle.hasten(gang)
    elif _S.READY in states and gang.queue is None:
        lifecycle.ready[gang.type].add(gang)


def take_unlaunched(lifecycle: Lifecycle, run: Run, now: float) -> bool:
    """Take that jobmgr does not launch a run that it was handed; return whether its gang is placed anew.

    One that has moved on meanwhile stays as it is.
    """
    task = lifecycle.registry.find(run)
    if task is None or task.gang is None or task.state is not _S.LAUNCHING:
        return False
    _retry_launch(lifecycle, task.gang, now)
    return True


def _retry_launch(lifecycle: Lifecycle, gang: Gang, now: float) -> None:
    """Place a gang anew that was handed out, with other placements than before.

    Those are abandoned, unless other runs of theirs may be launched.
    """
    for task in gang.tasks:
        given = None if task.holder is None else task.holder.given(task.key)
        if task.holder is not None and given is not None and task.holder.lose(given, [task.key]):
            lifecycle.placements.abandon(given)
    lifecycle.retry(gang, now)
