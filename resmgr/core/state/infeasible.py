"""Gangs that no host could take even when empty, until a change that could help.

They are indexed by what they lack, so that a change of hosts leads to the gangs that it may help and to no
other (docs/behaviour/placement.md, Gangs that fit on no host).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from sortedcontainers import SortedList

from peloton.model.amounts import amount, amount_of
from peloton.model.resources import KINDS, MILLI
from peloton.model.shortage import HostGains, Lack, Shortage
from resmgr.core.state.amounts import NOTHING, Vector, vector
from resmgr.core.state.entities import Gang
from resmgr.core.state.needs import Shape

_LAST = float("inf")
"""More than the number of any shape."""


class _Group:
    """Gangs of one shape."""

    __slots__ = ("compared", "gangs", "number", "shortage", "smallest")

    def __init__(self, number: int, shape: Shape, shortage: Shortage) -> None:
        self.number = number
        self.shortage = shortage
        self.smallest = _smallest(shape)
        """The least of each kind that one of its tasks needs on its host."""
        self.compared = False
        """Whether it was compared with the hosts since its shortage was reported: they may have changed."""
        self.gangs: OrderedDict[Gang, None] = OrderedDict()

    @property
    def beyond_cluster(self) -> bool:
        """Return whether the cluster's capacity, not its hosts, is too small."""
        return self.shortage.lack is Lack.CAPACITY and not self.shortage.hosts


class Infeasible:
    """Gangs by shape; in no pool's queue, without demand and allocation.

    A shape is known as long as a gang of it waits here.
    """

    name = "infeasible"

    def __init__(self) -> None:
        self._groups: dict[Shape, _Group] = {}
        self._index = _Index()
        self._number = 0
        self._shape: dict[Gang, Shape] = {}
        """The shape of each when it was added: a gang changes when tasks leave it."""

    def __len__(self) -> int:
        return len(self._shape)

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._shape)

    def shortage(self, shape: Shape) -> Shortage | None:
        """Return why gangs of that shape do not fit; None where that is not known."""
        group = self._groups.get(shape)
        return None if group is None else group.shortage

    def shapes(self) -> list[Shape]:
        """Return the shapes that may fit after a change of hosts, without those larger than the cluster."""
        return [shape for shape, group in self._groups.items() if not group.beyond_cluster]

    def new_shapes(self) -> list[Shape]:
        """Return those of `shapes` that were not compared since their shortage was reported."""
        return [shape for shape in self.shapes() if not self._groups[shape].compared]

    def helped_by(self, gains: HostGains) -> list[Shape]:
        """Return the shapes that changed hosts may help, the one that waits longest first.

        One whose constraint is met now by hosts that are too small is among them: what it lacks is another
        thing now, and resources may come to these hosts without new labels.
        """
        found = {
            shape: group
            for shape in self._index.candidates(gains)
            if (group := self._groups[shape]).shortage.lack is Lack.CONSTRAINT
            or _covers(gains, group.smallest)
        }
        return sorted(found, key=lambda shape: found[shape].number)

    def too_large(self) -> list[Shape]:
        """Return the shapes that are larger than the cluster."""
        return [shape for shape, group in self._groups.items() if group.beyond_cluster]

    def gangs(self, shape: Shape) -> Sequence[Gang]:
        """Return the gangs of that shape in the order of their arrival."""
        return tuple(self._groups[shape].gangs) if shape in self._groups else ()

    def add(self, gang: Gang, shortage: Shortage) -> None:
        """Add a gang that is in no queue. The newest shortage counts for all gangs of the shape."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        shape = gang.shape
        if shape not in self._groups:
            self._number += 1
            self._groups[shape] = _Group(self._number, shape, shortage)
            self._index.add(shape, self._number, shortage)
        elif self._groups[shape].shortage != shortage:
            self._replace(shape, shortage)
            self._groups[shape].compared = False
        self._groups[shape].gangs[gang] = None
        self._shape[gang] = shape
        gang.queue = self

    def remove(self, gang: Gang) -> None:
        """Remove a gang. Raises KeyError where it is not here."""
        shape = self._shape.pop(gang)
        group = self._groups[shape]
        del group.gangs[gang]
        gang.queue = None
        if not group.gangs:
            self._index.remove(shape, group.number, group.shortage)
            del self._groups[shape]

    def update(self, shape: Shape, shortage: Shortage) -> None:
        """Replace the shortage of that shape by one that was just found."""
        if shape in self._groups:
            self._replace(shape, shortage)
            self._groups[shape].compared = True

    def _replace(self, shape: Shape, shortage: Shortage) -> None:
        group = self._groups[shape]
        self._index.remove(shape, group.number, group.shortage)
        group.shortage = shortage
        self._index.add(shape, group.number, shortage)


class _Index:
    """Shapes by what they lack."""

    def __init__(self) -> None:
        self._amounts: dict[str, SortedList] = {}
        """By kind: (what is needed on one host, number of the shape, shape)."""
        self._labels: dict[str, dict[Shape, None]] = {}
        """By the label that no host has."""
        self._others: dict[Lack, dict[Shape, None]] = {}

    def add(self, shape: Shape, number: int, shortage: Shortage) -> None:
        """Add a shape that is not here."""
        if shortage.lack is Lack.RESOURCE:
            self._amounts.setdefault(shortage.kind, SortedList()).add((shortage.needed, number, shape))
        elif shortage.lack is Lack.CONSTRAINT and shortage.label:
            self._labels.setdefault(shortage.label, {})[shape] = None
        else:
            self._others.setdefault(shortage.lack, {})[shape] = None

    def remove(self, shape: Shape, number: int, shortage: Shortage) -> None:
        """Remove a shape, which was added with that number and shortage."""
        if shortage.lack is Lack.RESOURCE:
            self._amounts[shortage.kind].remove((shortage.needed, number, shape))
        elif shortage.lack is Lack.CONSTRAINT and shortage.label:
            shapes = self._labels[shortage.label]
            del shapes[shape]
            if not shapes:
                del self._labels[shortage.label]
        else:
            del self._others[shortage.lack][shape]

    def candidates(self, gains: HostGains) -> Iterator[Shape]:
        """Iterate over the shapes that may lack no more what they lacked."""
        if not gains.hosts:
            return
        for kind, entries in self._amounts.items():
            for _, _, shape in entries.irange(maximum=(gains.amount(kind), _LAST)):
                yield shape
        for label in self._matching(gains.labels):
            yield from self._labels[label]
        for lack, shapes in self._others.items():
            if _helps(gains, lack):
                yield from shapes

    def _matching(self, labels: frozenset[str] | None) -> Iterable[str]:
        return self._labels if labels is None else labels.intersection(self._labels)


def _helps(gains: HostGains, lack: Lack) -> bool:
    """Return whether the changes may end a shortage of a kind that is not about one amount or one label."""
    if lack is Lack.CONSTRAINT:
        return gains.relabelled > 0
    if lack is Lack.PLAIN_HOST:
        return gains.plain
    return lack is not Lack.CONTRADICTION


def _covers(gains: HostGains, smallest: Vector) -> bool:
    return all(amount >= least for amount, least in zip(gains.largest, smallest, strict=True))


def _smallest(shape: Shape) -> Vector:
    """Return the least of each kind that a member needs; revocable CPU is not counted as CPU."""
    needed = [
        (0, *fit.resources.values()[1:]) if fit.revocable else fit.resources.values()
        for fit, _ in shape.members
    ]
    return vector(map(min, zip(*needed, strict=True))) if needed else NOTHING


def beyond_capacity(requested: Vector, capacity: Vector, hosts: str = "") -> Shortage | None:
    """Return why a gang can never be admitted: it is larger than the cluster, or than a class of its hosts.

    A cluster that has nothing yet is not compared. `hosts`: words for the class.
    """
    if not any(capacity):
        return None
    for kind, needed, available in zip(KINDS, requested, capacity, strict=True):
        if needed > available:
            detail = (
                f"needs {amount_of(needed / MILLI, kind)} at a time; "
                f"{hosts} have {amount(available / MILLI, kind)}"
            )
            return Shortage(Lack.CAPACITY, kind, needed, available, detail=detail if hosts else "")
    return None
