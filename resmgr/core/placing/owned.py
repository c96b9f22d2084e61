"""Placements by the owners of their jobs, and what follows where owners change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from peloton.model.shard import shard_of
from peloton.model.states import TaskState
from resmgr.core.state.entities import Gang, Placement
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.owners import NOBODY

_LAUNCHING = TaskState.LAUNCHING


def queue(lifecycle: Lifecycle, placement: Placement, now: float, first: bool = False) -> None:
    """Queue a placement at the tail, or at the head, of its owner's part.

    Where its tasks have several owners, since one has changed, those of the others are READY again: one claim
    is for one launch.
    """
    placement.owner = _owner(lifecycle, placement)
    if first:
        lifecycle.placements.add_first(placement)
    else:
        lifecycle.placements.add(placement)
    if lifecycle.owners.shared:
        _return_others(lifecycle, [placement], now)


def take_claim(lifecycle: Lifecycle, name: str, terms: Mapping[int, int], now: float) -> int:
    """Take what a job manager owns, by shard and term; return the number of gangs that return for that.

    What others had taken of shards that it got since returns: they launch it no more.
    """
    grown = lifecycle.owners.claim(name, terms)
    if not grown:
        return 0
    gangs: dict[Gang, None] = {}
    for holder in lifecycle.leases.holders:
        for given in holder.unused():
            if holder.lose(given, [run for run in given.runs if shard_of(run.job_id) in grown]):
                lifecycle.placements.abandon(given)
        gangs.update(
            (task.gang, None)
            for task in holder.tasks
            if task.gang is not None and task.state is _LAUNCHING and shard_of(task.job.id) in grown
        )
    for gang in gangs:
        lifecycle.retry(gang, now)
    queued = lifecycle.placements.take_all()
    for placement in queued:
        placement.owner = _owner(lifecycle, placement)
        lifecycle.placements.add(placement)
    _return_others(lifecycle, queued, now)
    return len(gangs)


def _owner(lifecycle: Lifecycle, placement: Placement) -> str:
    """Return the owner of the first task of a placement."""
    if not lifecycle.owners.shared:
        return NOBODY
    return lifecycle.owners.of(next(iter(placement.tasks)).job.id)


def _return_others(lifecycle: Lifecycle, placements: Iterable[Placement], now: float) -> None:
    """Make tasks READY again that have another owner than their placements."""
    of, gangs = lifecycle.owners.of, dict[Gang, None]()
    for placement in placements:
        for task in placement.tasks:
            if task.gang is not None and of(task.job.id) != placement.owner:
                gangs[task.gang] = None
    for gang in gangs:
        lifecycle.retry(gang, now)
