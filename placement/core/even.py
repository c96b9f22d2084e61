"""Place gangs on the hosts with the most free resources, or on the hosts that they desire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace

from placement.core.bins import Bin
from placement.core.fill import place_each
from placement.core.model import Filling, Gang, Host, HostPlacement, Missing, Needs, Task

_Key = tuple[int, int, int, int]


def fill_evenly(hosts: Sequence[Host], gangs: Sequence[Gang]) -> Filling:
    """Place gangs, each whole or not at all: each task on the host with most free disk, memory, CPU, GPU."""
    bins = _Emptiest(hosts)
    return place_each(gangs, bins.place, bins.placements)


def fill_desired(hosts: Sequence[Host], gangs: Sequence[Gang], with_volume: bool = False) -> Filling:
    """Place gangs of one task on their desired hosts, or not at all.

    With `with_volume` the host must offer the task's volume: it does not while an earlier run ends.
    """
    named: dict[str, list[Bin]] = {}
    for host in hosts:
        named.setdefault(host.hostname, []).append(Bin(host))
    placed: list[Gang] = []
    unplaced: list[Gang] = []
    for gang in gangs:
        task = gang.tasks[0]
        bins = named.get(gang.desired_host, ())
        if with_volume:
            bins = [each for each in bins if task.id in each.host.volumes_of]
        bin_ = next((each for each in bins if _has_room(each, task.needs, True)), None)
        if bin_ is None:
            unplaced.append(gang)
            continue
        _put(bin_, task)
        placed.append(gang)
    placements = (bin_.placement() for bins in named.values() for bin_ in bins if bin_.tasks)
    return Filling(tuple(placements), tuple(placed), tuple(unplaced), unplaced[0].shape if unplaced else ())


class _Emptiest:
    """Hosts in a heap for each distinct needs, the emptiest first.

    A host only gets fuller, so the key that it has in a heap is at most too small, and is corrected when the
    host comes to the top; a host without room leaves the heap.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._bins = [Bin(host) for host in hosts]
        self._heaps: dict[Needs, list[tuple[_Key, int]]] = {}

    def place(self, gang: Gang) -> Missing | None:
        """Place a gang and return None; or change nothing and return what found no room."""
        alone = len(gang.tasks) == 1
        taken: list[Bin] = []
        missing: dict[Needs, int] = {}
        for task in gang.tasks:
            bin_ = self._emptiest(task.needs, alone)
            if bin_ is None:
                missing[task.needs] = missing.get(task.needs, 0) + 1
            else:
                _put(bin_, task)
                taken.append(bin_)
        if missing:
            self._take_back(taken)
            return tuple(missing.items())
        return None

    def placements(self) -> Iterator[HostPlacement]:
        """Return the placement of each host that got tasks."""
        return (bin_.placement() for bin_ in self._bins if bin_.tasks)

    def _emptiest(self, needs: Needs, alone: bool) -> Bin | None:
        heap = self._heaps.get(needs)
        if heap is None:
            heap = self._heaps[needs] = [(_key(bin_), at) for at, bin_ in enumerate(self._bins)]
            heapify(heap)
        while heap:
            key, at = heap[0]
            bin_ = self._bins[at]
            if not _has_room(bin_, needs, alone):
                heappop(heap)
            elif (now := _key(bin_)) != key:
                heapreplace(heap, (now, at))
            else:
                return bin_
        return None

    def _take_back(self, taken: Sequence[Bin]) -> None:
        for bin_ in reversed(taken):
            bin_.take(bin_.tasks.pop().needs, -1)
        self._heaps.clear()


def _has_room(bin_: Bin, needs: Needs, alone: bool) -> bool:
    return bin_.host.host_class == needs.host_class and bin_.count(needs, alone) > 0


def _put(bin_: Bin, task: Task) -> None:
    bin_.take(task.needs, 1)
    bin_.tasks.append(task)


def _key(bin_: Bin) -> _Key:
    free = bin_.free
    return -free.disk, -free.memory, -free.cpu, -free.gpu
