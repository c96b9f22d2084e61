"""Hosts that are held for the next runs of instances (docs/behaviour/workflows.md, In place)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from peloton.model.ids import TaskId

HELD_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A host that is held for one instance."""

    hostname: str
    task_id: TaskId
    until: float
    """Seconds on the monotonic clock."""


class Holds:
    """All holds: at most one for each instance, any number for each host."""

    def __init__(
        self, seconds: float = HELD_SECONDS, changed: Callable[[str], None] = lambda hostname: None
    ) -> None:
        """Call `changed` with the name of a host when its first hold begins and when its last one ends."""
        self._seconds = seconds
        self._changed = changed
        self._of_task: dict[TaskId, Hold] = {}
        """In the order in which they end."""
        self._of_host: dict[str, set[TaskId]] = {}

    def __len__(self) -> int:
        return len(self._of_task)

    def add(self, hostname: str, task_id: TaskId, now: float) -> None:
        """Hold a host for an instance from now on, in place of what was held for it before."""
        self.release((task_id,))
        self._of_task[task_id] = Hold(hostname, task_id, now + self._seconds)
        self._of_host.setdefault(hostname, set()).add(task_id)
        self._changed(hostname)

    def release(self, task_ids: Iterable[TaskId]) -> None:
        """End the holds for instances; nothing happens for those without one."""
        for task_id in task_ids:
            hold = self._of_task.pop(task_id, None)
            if hold is not None:
                others = self._of_host[hold.hostname]
                others.remove(task_id)
                if not others:
                    del self._of_host[hold.hostname]
                    self._changed(hold.hostname)

    def expire(self, now: float) -> list[Hold]:
        """End and return the holds whose time is over."""
        over: list[Hold] = []
        for hold in self._of_task.values():
            if hold.until > now:
                break
            over.append(hold)
        self.release([hold.task_id for hold in over])
        return over

    def is_held(self, hostname: str) -> bool:
        """Return whether a host is held for any instance."""
        return hostname in self._of_host

    def closed(self, task_ids: Collection[TaskId]) -> frozenset[str]:
        """Return the hosts that are held, and for none of these instances."""
        return frozenset(name for name, held in self._of_host.items() if held.isdisjoint(task_ids))
