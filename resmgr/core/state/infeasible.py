"""Gangs that no host could take even when empty, until the hosts change (docs/behaviour/placement.md)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from peloton.model.shortage import Lack, Shortage
from resmgr.core.state.amounts import Vector
from resmgr.core.state.entities import Gang
from resmgr.core.state.needs import Shape


class _Group:
    """Gangs of one shape."""

    __slots__ = ("gangs", "shortage")

    def __init__(self, shortage: Shortage) -> None:
        self.shortage = shortage
        self.gangs: OrderedDict[Gang, None] = OrderedDict()


class Infeasible:
    """Gangs by shape; in no pool's queue, without demand and allocation.

    A shape is known as long as a gang of it waits here.
    """

    name = "infeasible"

    def __init__(self) -> None:
        self._groups: dict[Shape, _Group] = {}
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
        return [shape for shape, group in self._groups.items() if group.shortage.lack is not Lack.CAPACITY]

    def too_large(self) -> list[Shape]:
        """Return the shapes that are larger than the cluster."""
        return [shape for shape, group in self._groups.items() if group.shortage.lack is Lack.CAPACITY]

    def gangs(self, shape: Shape) -> Sequence[Gang]:
        """Return the gangs of that shape in the order of their arrival."""
        return tuple(self._groups[shape].gangs) if shape in self._groups else ()

    def add(self, gang: Gang, shortage: Shortage) -> None:
        """Add a gang that is in no queue. The newest shortage counts for all gangs of the shape."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        shape = gang.shape
        group = self._groups.setdefault(shape, _Group(shortage))
        group.shortage = shortage
        group.gangs[gang] = None
        self._shape[gang] = shape
        gang.queue = self

    def remove(self, gang: Gang) -> None:
        """Remove a gang. Raises KeyError where it is not here."""
        shape = self._shape.pop(gang)
        gangs = self._groups[shape].gangs
        del gangs[gang]
        gang.queue = None
        if not gangs:
            del self._groups[shape]

    def update(self, shape: Shape, shortage: Shortage) -> None:
        """Replace the shortage of that shape."""
        if shape in self._groups:
            self._groups[shape].shortage = shortage


def beyond_capacity(requested: Vector, capacity: Vector, kinds: Sequence[str]) -> Shortage | None:
    """Return why a gang can never be admitted: it is larger than the cluster.

    A cluster that has nothing yet is not compared.
    """
    if not any(capacity):
        return None
    for kind, needed, available in zip(kinds, requested, capacity, strict=True):
        if needed > available:
            return Shortage(Lack.CAPACITY, kind, needed, available)
    return None
