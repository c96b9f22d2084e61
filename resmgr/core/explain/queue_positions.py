"""Positions of gangs and placements in their queues, with what is requested ahead of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from resmgr.core.scheduler import Scheduler
from resmgr.core.state.amounts import NOTHING, Charge, Vector
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.queues import GangQueue, ReadyQueue

PLACEMENTS = "placements"
"""Name of the queue of placements that wait for jobmgr."""
_CHARGE = attrgetter("charge")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a queue."""

    queue: str
    position: int
    """1: the head."""
    length: int
    ahead: Vector
    """Total request of the gangs ahead, in thousandths."""


def positions(scheduler: Scheduler, tasks: Iterable[Task]) -> dict[object, Position]:
    """Return the positions of the tasks' gangs and placements."""
    wanted: dict[GangQueue | ReadyQueue, set[Gang]] = {}
    placed = set()
    for task in tasks:
        if task.placement is not None:
            placed.add(task.placement)
        elif task.gang is not None and isinstance(task.gang.queue, GangQueue | ReadyQueue):
            wanted.setdefault(task.gang.queue, set()).add(task.gang)
    found: dict[object, Position] = {}
    for queue, gangs in wanted.items():
        found.update(_in_queue(queue, gangs))
    if placed:
        length = len(scheduler.placements)
        for position, placement in enumerate(scheduler.placements, 1):
            if placement in placed:
                found[placement] = Position(PLACEMENTS, position, length, NOTHING)
    return found


def _in_queue(queue: GangQueue | ReadyQueue, gangs: set[Gang]) -> Iterator[tuple[Gang, Position]]:
    """Iterate over gangs with their positions.

    A queue may hold a million gangs, so the gangs ahead are counted by charge, which similar gangs share.
    """
    order = queue.gangs()
    for gang in gangs:
        position = order.index(gang)
        charges = list(map(_CHARGE, islice(order, position)))
        alike = dict(zip(map(id, charges), charges, strict=True))
        ahead = _total((alike[one], count) for one, count in Counter(map(id, charges)).items())
        yield gang, Position(queue.name, position + 1, len(order), ahead)


def _total(charges: Iterable[tuple[Charge, int]]) -> Vector:
    cpu = memory = disk = gpu = 0
    for charge, count in charges:
        for part in (charge.firm, charge.slack):
            if part is not None:
                cpu, memory = cpu + count * part[0], memory + count * part[1]
                disk, gpu = disk + count * part[2], gpu + count * part[3]
    return cpu, memory, disk, gpu
