"""The cost of moving the tasks of a host elsewhere (docs/behaviour/host-pools.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from resmgr.core.state.entities import Task
from resmgr.core.state.pool import Pool
from resmgr.core.state.registry import Registry

Range = tuple[int, int]
"""The lowest and the highest priority."""


def cheapest_first(hosts: Iterable[str], registry: Registry, now: float) -> list[str]:
    """Return the hosts whose tasks can all be moved, the cheapest first.

    A host with a task that is not preemptible is left out. The others are in the order of controllers, tasks,
    the highest priority, the longest time of a task in its present state, and the name. Priorities of
    different pools do not compare: each is scaled to 0 … 1 by those of its pool's tasks on the hosts.
    """
    tasks = {host: list(registry.on_host(host)) for host in hosts}
    ranges = _ranges(task for some in tasks.values() for task in some)
    costs = []
    for host, some in tasks.items():
        cost = _cost(some, ranges, now)
        if cost is not None:
            costs.append((*cost, host))
    return [cost[-1] for cost in sorted(costs)]


def _ranges(tasks: Iterable[Task]) -> dict[Pool, Range]:
    """Return the range of the priorities of each pool's tasks."""
    found: dict[Pool, Range] = {}
    for task in tasks:
        priority = task.needs.priority
        low, high = found.get(task.pool, (priority, priority))
        if not low <= priority <= high or task.pool not in found:
            found[task.pool] = min(low, priority), max(high, priority)
    return found


def _scaled(task: Task, ranges: Mapping[Pool, Range]) -> float:
    """Return a task's priority in its pool, from 0, the lowest there is, to 1."""
    low, high = ranges[task.pool]
    return (task.needs.priority - low) / (high - low) if high > low else 0.0


def _cost(
    tasks: Iterable[Task], ranges: Mapping[Pool, Range], now: float
) -> tuple[int, int, float, float] | None:
    """Return controllers, tasks, scaled priority and seconds; None where a task cannot be moved."""
    controllers, count, priority, longest = 0, 0, 0.0, 0.0
    for task in tasks:
        if not task.needs.preemptible:
            return None
        controllers += task.needs.controller
        priority = max(priority, _scaled(task, ranges))
        longest = max(longest, now - task.since)
        count += 1
    return controllers, count, priority, longest
