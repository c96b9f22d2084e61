"""Who holds what was handed out: work goes back when its holder is gone or silent (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from peloton.errors import Fenced
from peloton.model.ids import Run
from resmgr.core.placements import Handover
from resmgr.core.tasks import Task

ABSENCE = 2.0


class Holder:
    """A process that dequeued gangs or took placements. `name` is `<role>/<id>`; `term` is that of its
    leadership, 0 for one that works without election."""

    __slots__ = ("_given", "_placed_by", "heard", "name", "tasks", "term")

    def __init__(self, name: str, term: int, now: float) -> None:
        self.name = name
        self.term = term
        self.heard = now
        self.tasks: dict[Task, None] = {}
        self._given: dict[str, Handover] = {}
        """By the id of the host offer, in order."""
        self._placed_by: dict[Run, str] = {}

    def keep(self, given: Iterable[Handover]) -> None:
        """It took placements. Those before are let go of as far as they are settled, in order: it has used or
        released their claims."""
        held = {task.key for task in self.tasks}
        while self._given and held.isdisjoint((first := next(iter(self._given.values()))).runs):
            self.let_go(first)
        for each in given:
            self._given[each.offer_id] = each
            self._placed_by.update(dict.fromkeys(each.runs, each.offer_id))

    def launched(self, run: Run) -> None:
        """The run's placement is used: its claim is no more."""
        given = self._given.get(self._placed_by.get(run, ""))
        if given is not None:
            self.let_go(given)

    def let_go(self, given: Handover) -> None:
        """It has this placement no more."""
        self._given.pop(given.offer_id, None)
        for run in given.runs:
            self._placed_by.pop(run, None)

    def unused(self) -> list[Handover]:
        """Placements that it took and that are not known to be used. Their runs may have ended all the same:
        a successor finds them in the store, and Mesos does not know them."""
        return list(self._given.values())


class Leases:
    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], Holder] = {}
        self._terms: dict[str, int] = {}
        """The newest term of each role that was heard of."""

    def __len__(self) -> int:
        return sum(len(holder.tasks) for holder in self._holders.values())

    def hear(self, name: str, now: float, term: int = 0) -> Holder | None:
        """The holder of this name and term has called. None for a caller without a name: it gets no lease,
        and only the time-outs of the states bring back what it took. Raises Fenced where the role has a newer
        leader."""
        if not name:
            return None
        role = _role(name)
        if term < self._terms.get(role, 0):
            raise Fenced(f"term {term} of {name} is over, the newest of {role} is {self._terms[role]}")
        self._terms[role] = term
        holder = self._holders.get((name, term))
        if holder is None:
            holder = self._holders[name, term] = Holder(name, term, now)
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
        """Holders whose role has a newer leader, who were silent for `silence` seconds, or are not among
        `present` (None: not known). They are forgotten here; their tasks still name them. One heard of in the
        last ABSENCE seconds is not absent: the list of those present may be a moment old."""
        gone = [
            holder
            for holder in self._holders.values()
            if holder.term < self._terms[_role(holder.name)]
            or now - holder.heard >= silence
            or (present is not None and holder.name not in present and now - holder.heard >= ABSENCE)
        ]
        for holder in gone:
            del self._holders[holder.name, holder.term]
        return gone


def _role(name: str) -> str:
    return name.partition("/")[0]
