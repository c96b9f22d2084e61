"""Handing placements to jobmgr."""

from __future__ import annotations

from collections.abc import Collection

from resmgr.core.state.entities import Gang, Holder
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.owners import NOBODY
from resmgr.core.state.placements import Handover
from resmgr.core.state.task_states import Event

_HAND_OVER = Event.HAND_OVER


def hand_over(
    lifecycle: Lifecycle,
    limit: int,
    holder: Holder | None,
    now: float,
    owner: str = NOBODY,
    shards: Collection[int] | None = None,
) -> list[Handover]:
    """Hand out up to `limit` placements, each task leased to the holder until it is launched or has ended.

    They are those for an owner of jobs. With `shards`, it gets those alone whose jobs are all of these.
    There are more where that completes a gang: its members are told of each other when they are launched.
    """
    lifecycle.leases.check(holder)
    given: list[Handover] = []
    placements = lifecycle.placements
    gangs: list[Gang] = []
    while len(given) < limit or any(map(_is_open, gangs)):
        placement = placements.first(owner, shards)
        if placement is None:
            break
        placements.remove(placement)
        gangs += {task.gang: None for task in placement.tasks if task.gang and len(task.gang.tasks) > 1}
        for task in placement.tasks:
            assert task.gang is not None
            lifecycle.step(task, _HAND_OVER, now)
            lifecycle.leases.take(holder, task)
            lifecycle.deadlines.set(task.gang, now + lifecycle.limits.launching)
        given.append(placement.handover())
        for task in placement.tasks:
            task.placement = None
    if holder is not None and given:
        holder.keep(given)
    return given


def _is_open(gang: Gang) -> bool:
    """Return whether a placement of a member still waits to be handed out."""
    return any(task.placement is not None for task in gang.tasks)
