"""Handing placements to jobmgr."""

from __future__ import annotations

from resmgr.core.state.entities import Holder
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.placements import Handover
from resmgr.core.state.task_states import Event


def hand_over(lifecycle: Lifecycle, limit: int, holder: Holder | None, now: float) -> list[Handover]:
    """Hand out up to `limit` placements, each task leased to the holder until it is launched or has ended."""
    given: list[Handover] = []
    placements = lifecycle.placements
    while placements and len(given) < limit:
        placement = placements.pop()
        for task in placement.tasks:
            assert task.gang is not None
            lifecycle.step(task, Event.HAND_OVER, now)
            lifecycle.leases.take(holder, task)
            lifecycle.deadlines.set(task.gang, now + lifecycle.policy.launching)
        given.append(placement.handover())
        for task in placement.tasks:
            task.placement = None
    if holder is not None and given:
        holder.keep(given)
    return given
