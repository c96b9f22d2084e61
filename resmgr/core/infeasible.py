"""Gangs that no host could take even when empty: they wait aside until the hosts change (behaviour 5.3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from peloton.model.shortage import Lack, Shortage
from resmgr.core.tasks import Gang, Shape, Vector


class _Alike:
    """Gangs of one shape."""

    __slots__ = ("gangs", "shortage")

    def __init__(self, shortage: Shortage) -> None:
        self.shortage = shortage
        self.gangs: OrderedDict[Gang, None] = OrderedDict()


class Infeasible:
    """By what they ask of hosts; in no pool's queue, without demand and allocation. A shape is known for as
    long as a gang of it waits here."""

    name = "infeasible"

    def __init__(self) -> None:
        self._alike: dict[Shape, _Alike] = {}
        self._shape: dict[Gang, Shape] = {}
        """What each was when it came: a gang whose tasks leave it changes."""

    def __len__(self) -> int:
        return len(self._shape)

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._shape)

    def shortage(self, shape: Shape) -> Shortage | None:
        """Why gangs of that shape do not fit; None where that is not known of them."""
        alike = self._alike.get(shape)
        return None if alike is None else alike.shortage

    def shapes(self) -> list[Shape]:
        """Those that a change of hosts may help. The cluster's capacity is told otherwise."""
        return [shape for shape, alike in self._alike.items() if alike.shortage.lack is not Lack.CAPACITY]

    def too_large(self) -> list[Shape]:
        """Those that are larger than the cluster."""
        return [shape for shape, alike in self._alike.items() if alike.shortage.lack is Lack.CAPACITY]

    def gangs(self, shape: Shape) -> Sequence[Gang]:
        """In the order in which they came."""
        return tuple(self._alike[shape].gangs) if shape in self._alike else ()

    def add(self, gang: Gang, shortage: Shortage) -> None:
        """The gang must be in no queue. The newest shortage counts for all alike."""
        if gang.queue is not None:
            raise ValueError(f"{gang.tasks} is in queue {gang.queue.name} already")
        shape = gang.shape
        alike = self._alike.setdefault(shape, _Alike(shortage))
        alike.shortage = shortage
        alike.gangs[gang] = None
        self._shape[gang] = shape
        gang.queue = self

    def remove(self, gang: Gang) -> None:
        """Raises KeyError where the gang is not here."""
        shape = self._shape.pop(gang)
        gangs = self._alike[shape].gangs
        del gangs[gang]
        gang.queue = None
        if not gangs:
            del self._alike[shape]

    def update(self, shape: Shape, shortage: Shortage) -> None:
        """Another reason was found."""
        if shape in self._alike:
            self._alike[shape].shortage = shortage


def beyond_capacity(asked: Vector, capacity: Vector, kinds: Sequence[str]) -> Shortage | None:
    """Why a gang can never be admitted: it is more than the cluster. A cluster that has nothing yet is not
    compared."""
    if not any(capacity):
        return None
    for kind, needed, there in zip(kinds, asked, capacity, strict=True):
        if needed > there:
            return Shortage(Lack.CAPACITY, kind, needed, there)
    return None
