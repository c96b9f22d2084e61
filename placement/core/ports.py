"""Dynamic ports, which are taken from a host's offer, and fixed ports, which one task at a time may use.

A fixed port is a label of the task, and an anti-affinity to that label: see peloton.model.fixed_ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from peloton.model.fixed_ports import ports_of
from placement.core.model import Task

Ranges = tuple[tuple[int, int], ...]
"""Free ports, as ranges with both ends inside."""


def number_of(ranges: Ranges) -> int:
    """Return how many ports there are."""
    return sum(last - first + 1 for first, last in ranges)


def fixed_ports(tasks: Iterable[Task]) -> frozenset[int]:
    """Return the fixed ports of tasks."""
    return frozenset(port for task in tasks if task.labels for port in ports_of(task.labels))


def first_free(ranges: Ranges, count: int, fixed: Collection[int]) -> tuple[int, ...]:
    """Return the first `count` ports that are no fixed ports."""
    ports = (port for first, last in ranges for port in range(first, last + 1) if port not in fixed)
    return tuple(islice(ports, count))
