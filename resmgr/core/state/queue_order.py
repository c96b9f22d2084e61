"""An order of an administrator's own for the gangs of a pool's queue (docs/policies.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from peloton.model.constraint import Label
from peloton.model.ids import JobId


class QueuedGang(NamedTuple):
    """A gang that enters a queue of its pool. Amounts are those of all its tasks, in thousandths."""

    pool: str
    """The path of its pool."""
    job: JobId
    """Empty in a plan of a job that there is not yet."""
    priority: int
    size: int
    """Its tasks."""
    cpu: int
    memory: int
    disk: int
    gpu: int
    preemptible: bool
    controller: bool
    revocable: bool
    labels: tuple[Label, ...]
    """Of its first task; none in a plan."""


QueueOrder = Callable[[QueuedGang], float]
"""Returns a number for a gang.

Of gangs of the same priority that with the least number is tried first, of equal ones the one that came
first. It is asked once each time that a gang enters a queue.
"""


def turn_of(order: Callable[[QueuedGang], Any], gang: QueuedGang) -> float:
    """Return the number of a gang. Raises ValueError for what cannot be compared.

    An order is not ours, and may return anything: compiled code would refuse a text before it is looked at.
    """
    found = order(gang)
    try:
        turn = float(found)
    except (TypeError, ValueError):
        raise ValueError(f"order of a queue: {found!r} for {gang}: should be a number") from None
    if math.isnan(turn):
        raise ValueError(f"order of a queue: NaN for {gang}: should be a number that can be compared")
    return turn
