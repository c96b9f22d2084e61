"""Who holds what was handed out: work goes back when its holder is gone or silent (docs/architecture.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from resmgr.core.placements import Handover
from resmgr.core.tasks import Task

ABSENCE = 2.0


class Holder:
    """A process that dequeued gangs or took placements. `name` is `<role>/<id>`."""

    __slots__ = ("_given", "heard", "name", "tasks")

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.heard = now
        self.tasks: dict[Task, None] = {}
        self._given: deque[Handover] = deque()

    def keep(self, given: Iterable[Handover]) -> None:
        """It took placements. Those before are let go of as far as they are settled, in order."""
        held = {task.key for task in self.tasks}
        while self._given and held.isdisjoint(self._given[0].runs):
            self._given.popleft()
        self._given.extend(given)

    def unsettled(self) -> list[Handover]:
        """Placements that it took and of which no task is settled."""
        held = {task.key for task in self.tasks}
        return [each for each in self._given if held.issuperset(each.runs)]


class Leases:
    def __init__(self) -> None:
        self._holders: dict[str, Holder] = {}

    def __len__(self) -> int:
        return sum(len(holder.tasks) for holder in self._holders.values())

    def hear(self, name: str, now: float) -> Holder | None:
        """The holder of this name has called. None for a caller without a name: it gets no lease, and only
        the time-outs of the states bring back what it took."""
        if not name:
            return None
        holder = self._holders.get(name)
        if holder is None:
            holder = self._holders[name] = Holder(name, now)
        holder.heard = max(holder.heard, now)
        return holder

    def take(self, holder: Holder | None, task: Task) -> None:
        self.release(task)
        if holder is not None:
            task.holder = holder
            holder.tasks[task] = None

    def release(self, task: Task) -> None:
        """Settled, or gone back."""
        if task.holder is not None:
            task.holder.tasks.pop(task, None)
            task.holder = None

    def over(self, now: float, silence: float, present: Collection[str] | None = None) -> list[Holder]:
        """Holders who were silent for `silence` seconds, or are not among `present` (None: not known).
        They are forgotten here; their tasks still name them. One heard of in the last ABSENCE seconds is
        not absent: the list of those present may be a moment old."""
        gone = [
            holder
            for holder in self._holders.values()
            if now - holder.heard >= silence
            or (present is not None and holder.name not in present and now - holder.heard >= ABSENCE)
        ]
        for holder in gone:
            del self._holders[holder.name]
        return gone
