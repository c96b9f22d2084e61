"""Queues of gangs: by priority, high first, then first in first out (PriorityFIFO, behaviour 7.3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from sortedcontainers import SortedList

from resmgr.core.tasks import Gang


class GangQueue:
    """Add, remove from anywhere and look at the head in O(log n) of the number of different priorities."""

    __slots__ = ("_first", "_length", "_levels", "_order", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._levels: dict[int, OrderedDict[Gang, None]] = {}
        self._order: SortedList = SortedList()
        """Negated priorities of the levels, so the highest comes first."""
        self._first: OrderedDict[Gang, None] | None = None
        """The highest level."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Gang]:
        """In the order in which they will be tried."""
        for negated in self._order:
            yield from self._levels[-negated]

    def add(self, gang: Gang) -> None:
        """At the tail of its priority. The gang must be in no queue."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        level = self._levels.get(gang.priority)
        if level is None:
            level = self._levels[gang.priority] = OrderedDict()
            self._order.add(-gang.priority)
            self._first = self._levels[-self._order[0]]
        level[gang] = None
        gang.queue = self
        self._length += 1

    def add_first(self, gang: Gang) -> None:
        """At the head of its priority: it was there before. The gang must be in no queue."""
        self.add(gang)
        self._levels[gang.priority].move_to_end(gang, last=False)

    def remove(self, gang: Gang) -> None:
        """Raises KeyError where the gang is not in this queue."""
        level = self._levels[gang.priority]
        del level[gang]
        gang.queue = None
        self._length -= 1
        if not level:
            del self._levels[gang.priority]
            self._order.remove(-gang.priority)
            self._first = self._levels[-self._order[0]] if self._order else None

    def head(self) -> Gang | None:
        return next(iter(self._first)) if self._first is not None else None


class ReadyQueue:
    """Admitted gangs of one task type, first in first out; removal from anywhere."""

    __slots__ = ("_gangs", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._gangs: OrderedDict[Gang, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs)

    def add(self, gang: Gang) -> None:
        """At the tail. The gang must be in no queue."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        self._gangs[gang] = None
        gang.queue = self

    def add_first(self, gang: Gang) -> None:
        """At the head: it was there before. The gang must be in no queue."""
        self.add(gang)
        self._gangs.move_to_end(gang, last=False)

    def remove(self, gang: Gang) -> None:
        """Raises KeyError where the gang is not in this queue."""
        del self._gangs[gang]
        gang.queue = None

    def pop(self) -> Gang:
        """The head. Raises KeyError where there is none."""
        gang, _ = self._gangs.popitem(last=False)
        gang.queue = None
        return gang
