"""Place gangs on hosts, first fit, in one pass over hosts and tasks.

A host only gets fuller, so needs that it has no room for are never tried on it again: for each distinct needs
the index of the first host that may still have room is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement.core.bins import Bin
from placement.core.model import Filling, Gang, Host, HostPlacement, Missing, Needs


def fill(hosts: Sequence[Host], gangs: Sequence[Gang], spread: bool = False) -> Filling:
    """Place gangs, each whole or not at all, on hosts; both in the given order.

    Fill a host before the next one, or with `spread` place one task on each host.
    """
    bins = _Bins(hosts, spread)
    return place_each(gangs, bins.place, bins.placements)


def place_each(
    gangs: Sequence[Gang],
    place: Callable[[Gang], Missing | None],
    placements: Callable[[], Iterable[HostPlacement]],
) -> Filling:
    """Call `place` for each gang in turn; it returns None, or what found no room.

    Do not try a gang again that is like one without room: hosts only get fuller.
    """
    placed: list[Gang] = []
    unplaced: list[Gang] = []
    missing: Missing = ()
    no_room: set[Missing] = set()
    for gang in gangs:
        short = () if no_room and gang.shape in no_room else place(gang)
        if short is None:
            placed.append(gang)
            continue
        if not unplaced:
            missing = short
        no_room.add(gang.shape)
        unplaced.append(gang)
    return Filling(tuple(placements()), tuple(placed), tuple(unplaced), missing)


@dataclass(frozen=True, slots=True)
class _Taken:
    bin_: Bin
    needs: Needs
    count: int


class _Bins:
    def __init__(self, hosts: Sequence[Host], spread: bool) -> None:
        self._bins = [Bin(host) for host in hosts]
        self._spread = spread
        self._first: dict[Needs, int] = {}

    def place(self, gang: Gang) -> Missing | None:
        """Place a gang and return None; or change nothing and return what found no room."""
        first = dict(self._first) if len(gang.tasks) > 1 else self._first
        taken: list[_Taken] = []
        missing: list[tuple[Needs, int]] = []
        for needs, count in gang.shape:
            short = self._take(needs, count, taken, alone=len(gang.tasks) == 1)
            if short:
                missing.append((needs, short))
        if missing:
            self._give_back(taken)
            self._first = first
            return tuple(missing)
        self._assign(gang, taken)
        return None

    def placements(self) -> Iterator[HostPlacement]:
        """Return the placement of each host that got tasks."""
        for bin_ in self._bins:
            if bin_.tasks:
                yield bin_.placement()

    def _take(self, needs: Needs, count: int, taken: list[_Taken], alone: bool) -> int:
        """Take room for up to `count` tasks and record it in `taken`; return how many found none."""
        at = self._first.get(needs, 0)
        while count and at < len(self._bins):
            bin_ = self._bins[at]
            some = min(count, self._count(bin_, needs, alone))
            if not some:
                at += 1
                continue
            bin_.take(needs, some)
            taken.append(_Taken(bin_, needs, some))
            count -= some
        self._first[needs] = at
        return count

    def _count(self, bin_: Bin, needs: Needs, alone: bool) -> int:
        if bin_.host.host_class != needs.host_class or (self._spread and bin_.used):
            return 0
        count = bin_.count(needs, alone)
        return min(1, count) if self._spread else count

    def _give_back(self, taken: Sequence[_Taken]) -> None:
        for part in taken:
            part.bin_.take(part.needs, -part.count)

    def _assign(self, gang: Gang, taken: Sequence[_Taken]) -> None:
        if len(gang.tasks) == 1:
            taken[0].bin_.tasks.append(gang.tasks[0])
            return
        places = _by_needs(taken)
        for task in gang.tasks:
            next(places[task.needs]).tasks.append(task)


def _by_needs(taken: Sequence[_Taken]) -> Mapping[Needs, Iterator[Bin]]:
    bins: dict[Needs, list[Bin]] = {}
    for part in taken:
        bins.setdefault(part.needs, []).extend([part.bin_] * part.count)
    return {needs: iter(found) for needs, found in bins.items()}
