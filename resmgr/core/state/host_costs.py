"""The cost of moving the tasks of a host elsewhere (docs/behaviour/host-pools.md)."""

from __future__ import annotations

from collections.abc import Iterable

from resmgr.core.state.entities import Task
from resmgr.core.state.registry import Registry


def cheapest_first(hosts: Iterable[str], registry: Registry, now: float) -> list[str]:
    """Return the hosts whose tasks can all be moved, the cheapest first.

    A host with a task that is not preemptible is left out. The others are in the order of controllers, tasks,
    the highest priority, the longest time of a task in its present state, and the name.
    """
    costs = []
    for host in set(hosts):
        cost = _cost(registry.on_host(host), now)
        if cost is not None:
            costs.append((*cost, host))
    return [cost[-1] for cost in sorted(costs)]


def _cost(tasks: Iterable[Task], now: float) -> tuple[int, int, int, float] | None:
    """Return controllers, tasks, priority and seconds; None where a task cannot be moved."""
    controllers, count, priority, longest = 0, 0, 0, 0.0
    for task in tasks:
        if not task.needs.preemptible:
            return None
        controllers += task.needs.controller
        priority = max(priority, task.needs.priority) if count else task.needs.priority
        longest = max(longest, now - task.since)
        count += 1
    return controllers, count, priority, longest
