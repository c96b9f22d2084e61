"""Queues of gangs: of each pool until admission, and of each task type until an engine takes them.

Those of pools are ordered by priority, high first, then by an order of the administrator's where there is
one, then first in first out. See docs/behaviour/pools.md, Admission.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sortedcontainers import SortedList

from peloton.model.states import TaskType
from resmgr.core.state.entities import Gang
from resmgr.core.state.line import Line
from resmgr.core.state.needs import Place
from resmgr.core.state.pool import Pool
from resmgr.core.state.queue_order import QueuedGang, QueueOrder, turn_of

NAMES = ("non-preemptible", "controller", "revocable", "pending")
"""The queues of a pool in the order in which admission tries them."""

_DAEMON = TaskType.DAEMON


class _Level:
    """Gangs of one priority: those that came, and those that came back."""

    __slots__ = ("gangs", "late", "passed", "returned", "returns")

    def __init__(self) -> None:
        self.gangs = Line()
        self.passed = 0
        """How many of these have left."""
        self.returns: dict[Gang, tuple[int, int]] = {}
        """Each gang that came back: the value of `passed` at which it is first again, and its number."""
        self.returned: SortedList = SortedList()
        """(value of `passed`, number, gang) of those whose time is not over."""
        self.late: OrderedDict[Gang, None] = OrderedDict()
        """Those whose time is over, in the order in which that was noted."""

    def __len__(self) -> int:
        return len(self.gangs) + len(self.returns)

    def __iter__(self) -> Iterator[Gang]:
        """Iterate in the order in which they come first, if no other comes back."""
        if not self.returns:
            yield from self.gangs
            return
        yield from self.late
        behind = iter(self.returned)
        back = next(behind, None)
        for position, gang in enumerate(self.gangs):
            while back is not None and back[0] <= self.passed + position:
                yield back[2]
                back = next(behind, None)
            yield gang
        if back is not None:
            yield back[2]
        for _, _, gang in behind:
            yield gang

    def head(self) -> Gang:
        return next(iter(self))

    def put_back(self, gang: Gang, others: int, number: int) -> None:
        """Add a gang that at most `others` of `gangs` may pass."""
        self.returns[gang] = self.passed + others, number
        self.returned.add((*self.returns[gang], gang))

    def hasten(self, gang: Gang) -> None:
        """Let no others pass a gang that came back."""
        if gang in self.returns and gang not in self.late:
            self.returned.remove((*self.returns[gang], gang))
            self.late[gang] = None

    def remove(self, gang: Gang) -> None:
        if gang not in self.returns:
            self.gangs.remove(gang)
            self.passed += 1
            return
        place = self.returns.pop(gang)
        if gang in self.late:
            del self.late[gang]
        else:
            self.returned.remove((*place, gang))


class GangQueue:
    """Add, remove from anywhere and look at the head in O(log n) of the number of different priorities.

    With gangs that came back it is O(log n) of their number.
    """

    __slots__ = ("_first", "_length", "_levels", "_number", "_order", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._levels: dict[Place, _Level] = {}
        """By place: the priority, above all those for daemon tasks, and the turn."""
        self._order: SortedList = SortedList()
        """The places of the levels."""
        self._first: _Level | None = None
        """The highest level."""
        self._length = 0
        self._number = 0
        """Of the gang that came back last."""

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Gang]:
        """Iterate in the order in which admission tries them."""
        for place in self._order:
            yield from self._levels[place]

    def gangs(self) -> list[Gang]:
        """Return all gangs in that order, faster than by iterating."""
        found: list[Gang] = []
        for place in self._order:
            level = self._levels[place]
            found += level if level.returns else level.gangs
        return found

    def add(self, gang: Gang) -> None:
        """Add at the tail of its priority. The gang must be in no queue."""
        self._enter(gang).gangs.add(gang)

    def add_all(self, gangs: Sequence[Gang]) -> None:
        """Add gangs of one place at its tail. They must be in no queue."""
        self._level(gangs[0].place).gangs.add_all(gangs)
        for gang in gangs:
            gang.queue = self
        self._length += len(gangs)

    def add_first(self, gang: Gang) -> None:
        """Add at the head of its priority, where it was before. The gang must be in no queue."""
        self._enter(gang).gangs.add_first(gang)

    def put_back(self, gang: Gang, others: int) -> None:
        """Add a gang that came back, behind at most `others` of its priority, also of later ones.

        Others that came back are not counted. The gang must be in no queue.
        """
        self._number += 1
        self._enter(gang).put_back(gang, others, self._number)

    def hasten(self, gang: Gang) -> None:
        """Let no others but those that came back pass a gang of this queue that came back."""
        self._levels[gang.place].hasten(gang)

    def _enter(self, gang: Gang) -> _Level:
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        gang.queue = self
        self._length += 1
        return self._level(gang.place)

    def _level(self, place: Place) -> _Level:
        level = self._levels.get(place)
        if level is None:
            level = self._levels[place] = _Level()
            self._order.add(place)
            self._first = self._levels[self._order[0]]
        return level

    def remove(self, gang: Gang) -> None:
        """Remove a gang. Raises KeyError where it is not in this queue."""
        if gang.queue is not self:
            raise KeyError(gang)
        level = self._levels[gang.place]
        if level.returns:
            level.remove(gang)
        else:  # as most are; admission removes each gang
            level.gangs.remove(gang)
            level.passed += 1
        gang.queue = None
        self._length -= 1
        if not level.gangs.listed and not level.returns:
            del self._levels[gang.place]
            self._order.remove(gang.place)
            self._first = self._levels[self._order[0]] if self._order else None

    def head(self) -> Gang | None:
        """Return the gang that admission tries first."""
        first = self._first
        if first is None:
            return None
        return first.head() if first.returns else first.gangs.listed[0]


class ReadyQueue:
    """Admitted gangs of one task type, first in first out; removal from anywhere."""

    __slots__ = ("_gangs", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._gangs = Line()

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs)

    def gangs(self) -> list[Gang]:
        """Return all gangs in order."""
        return list(self._gangs)

    def add(self, gang: Gang) -> None:
        """Add at the tail. The gang must be in no queue."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        self._gangs.add(gang)
        gang.queue = self

    def add_first(self, gang: Gang) -> None:
        """Add at the head, where it was before. The gang must be in no queue."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        self._gangs.add_first(gang)
        gang.queue = self

    def remove(self, gang: Gang) -> None:
        """Remove a gang. Raises KeyError where it is not in this queue."""
        if gang.queue is not self:
            raise KeyError(gang)
        self._gangs.remove(gang)
        gang.queue = None

    def pop(self) -> Gang:
        """Remove and return the head. Raises IndexError where there is none."""
        gang = self._gangs.pop()
        gang.queue = None
        return gang


class PoolQueues:
    """The queues of one leaf, or of its part in one class of hosts.

    A gang that waits for hosts of one class blocks none that waits for hosts of another one.
    """

    __slots__ = ("all", "pending", "unexplained")

    def __init__(self) -> None:
        self.all = tuple(GangQueue(name) for name in NAMES)
        """In the order of NAMES."""
        self.pending = self.all[-1]
        """Where a gang begins, unless it is of a daemon job."""
        self.unexplained: deque[Gang] = deque()
        """Gangs that were queued here and have no reason for waiting yet."""

    def __len__(self) -> int:
        """Return the number of gangs."""
        return sum(map(len, self.all))

    def first(self, gang: Gang) -> GangQueue:
        """Return the queue where a gang begins: pending, or for daemon jobs the one that is tried first."""
        if gang.charge.non_preemptible is not None and gang.type is _DAEMON:
            return self.all[0]
        return self.pending


class PendingQueues:
    """The queues of all leaves. A queued gang counts as its pool's demand."""

    def __init__(self, order: QueueOrder | None = None) -> None:
        """Begin without gangs. `order`: that of the gangs of one priority; None: as they come."""
        self._order_of = order
        self.active: OrderedDict[Pool, PoolQueues] = OrderedDict()
        """Leaves, or their parts, with gangs in their queues, the one that was tried longest ago first."""

    def of(self, pool: Pool) -> PoolQueues:
        """Return the queues of a pool or of a part of one, empty ones where it has no gangs."""
        return self.active.get(pool) or PoolQueues()

    def of_whole(self, pool: Pool) -> list[PoolQueues]:
        """Return the queues of a pool, and of each of its parts; those that have gangs."""
        found = map(self.active.get, (pool, *pool.parts.values()))
        return [queues for queues in found if queues is not None]

    def named(self, pool: Pool, name: str) -> Iterator[Gang]:
        """Iterate over the gangs of the pool's queues of that name, class by class."""
        at = NAMES.index(name)
        return (gang for queues in self.of_whole(pool) for gang in queues.all[at])

    def place_of(self, priority_place: Place, gang: Callable[[], QueuedGang]) -> Place:
        """Return the place of a gang in a queue: by its priority, then by the order, where there is one."""
        if self._order_of is None:
            return priority_place
        return priority_place[0], turn_of(self._order_of, gang())

    def sort_anew(self) -> None:
        """Move each gang to the queue of its class: the classes of hosts have changed."""
        for pool, queues in list(self.active.items()):
            for at, queue in enumerate(queues.all):
                for gang in list(queue):
                    part = gang.pool.part(gang.charge)
                    if part is not pool:
                        queue.remove(gang)
                        moved = self._queues(part)
                        moved.all[at].add(gang)
                        moved.unexplained.append(gang)
            if not len(queues):
                del self.active[pool]

    def add(self, gang: Gang) -> None:
        """Add at the tail of the queue of its pool where it begins."""
        queues = self._counted(gang)
        queues.first(gang).add(gang)

    def add_all(self, gangs: Sequence[Gang]) -> None:
        """Add gangs that need the same, of one pool, as `add` adds each."""
        queues = self._queues(gangs[0].pool.part(gangs[0].charge))
        queues.unexplained.extend(gangs)
        place = self.place_of(gangs[0].place, partial(_queued, gangs[0]))
        for gang in gangs:
            gang.place = place
            gang.pool.add_demand(gang.charge)
        queues.first(gangs[0]).add_all(gangs)

    def add_first(self, gang: Gang) -> None:
        """Add at the head of its priority in the queue of its pool where it begins."""
        queues = self._counted(gang)
        queues.first(gang).add_first(gang)

    def put_back(self, gang: Gang, others: int) -> None:
        """Add a gang to the queue that it was admitted from, behind at most `others`."""
        queues = self._counted(gang)
        queue = next((each for each in queues.all if each.name == gang.admitted_from), queues.first(gang))
        queue.put_back(gang, others)

    def finish(self, pool: Pool) -> None:
        """End a pool's part of an admission cycle: move it behind the others, or drop it once it is empty."""
        if len(self.active[pool]):
            self.active.move_to_end(pool)
        else:
            del self.active[pool]

    def _counted(self, gang: Gang) -> PoolQueues:
        queues = self._queues(gang.pool.part(gang.charge))
        gang.pool.add_demand(gang.charge)
        if self._order_of is not None:
            gang.place = self.place_of(gang.place, partial(_queued, gang))
        queues.unexplained.append(gang)
        return queues

    def _queues(self, pool: Pool) -> PoolQueues:
        queues = self.active.get(pool)
        if queues is None:
            queues = self.active[pool] = PoolQueues()
        return queues


def _queued(gang: Gang) -> QueuedGang:
    """Return a gang as an order gets it."""
    first, charge = gang.tasks[0], gang.charge
    return QueuedGang(
        gang.pool.path,
        first.job.id,
        gang.priority,
        len(gang.tasks),
        *charge.asked_in_all,
        charge.non_preemptible is None,
        charge.controller is not None,
        charge.slack is not None,
        first.needs.labels,
    )
