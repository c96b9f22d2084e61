"""Place gangs on hosts, first fit, in one pass over hosts and tasks.

A host only gets fuller, so needs that it has no room for are never tried on it again: for each distinct needs
the index of the first host that may still have room is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from peloton.model.resources import Resources
from placement.core.model import UNBOUNDED, Filling, Gang, Host, HostPlacement, Needs, Task


def fill(hosts: Sequence[Host], gangs: Sequence[Gang], spread: bool = False) -> Filling:
    """Place gangs, each whole or not at all, on hosts; both in the given order.

    Fill a host before the next one, or with `spread` place one task on each host.
    """
    bins = _Bins(hosts, spread)
    placed: list[Gang] = []
    unplaced: list[Gang] = []
    missing: tuple[tuple[Needs, int], ...] = ()
    no_room: set[tuple[tuple[Needs, int], ...]] = set()
    for gang in gangs:
        short = () if no_room and gang.shape in no_room else bins.place(gang)
        if short is None:
            placed.append(gang)
            continue
        if not unplaced:
            missing = short
        no_room.add(gang.shape)
        unplaced.append(gang)
    return Filling(tuple(bins.placements()), tuple(placed), tuple(unplaced), missing)


def capacity(host: Host, needs: Needs) -> int:
    """Return how many such tasks the host takes while nothing is placed on it."""
    return _Bin(host).count(needs, alone=True) if host.host_class == needs.host_class else 0


class _Bin:
    """The free resources of a host during placement."""

    __slots__ = ("free", "host", "ports", "slack_cpu", "tasks", "used")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.free = host.free
        self.slack_cpu = host.slack_cpu
        self.ports = sum(last - first + 1 for first, last in host.ports)
        self.used = 0
        self.tasks: list[Task] = []

    def count(self, needs: Needs, alone: bool) -> int:
        """Return how many such tasks have room; with `alone` each is a gang of its own."""
        want, free = needs.resources, self.free
        cpu = self.slack_cpu if needs.revocable else free.cpu
        return min(
            _times(cpu, want.cpu),
            _times(free.memory, want.memory),
            _times(free.disk, want.disk),
            _times(free.gpu, want.gpu),
            _times(self.ports, needs.ports),
            max(0, self.host.launches - self.used) if alone else UNBOUNDED,
        )

    def take(self, needs: Needs, count: int) -> None:
        """Take resources for `count` tasks; return them if it is negative."""
        want = needs.resources.times(count)
        if needs.revocable:
            self.slack_cpu -= want.cpu
            want = Resources(0, want.memory, want.disk, want.gpu)
        self.free -= want
        self.ports -= needs.ports * count
        self.used += count


@dataclass(frozen=True, slots=True)
class _Taken:
    bin_: _Bin
    needs: Needs
    count: int


class _Bins:
    def __init__(self, hosts: Sequence[Host], spread: bool) -> None:
        self._bins = [_Bin(host) for host in hosts]
        self._spread = spread
        self._first: dict[Needs, int] = {}

    def place(self, gang: Gang) -> tuple[tuple[Needs, int], ...] | None:
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
                yield HostPlacement(bin_.host, tuple(bin_.tasks), _ports(bin_))

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

    def _count(self, bin_: _Bin, needs: Needs, alone: bool) -> int:
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


def _by_needs(taken: Sequence[_Taken]) -> Mapping[Needs, Iterator[_Bin]]:
    bins: dict[Needs, list[_Bin]] = {}
    for part in taken:
        bins.setdefault(part.needs, []).extend([part.bin_] * part.count)
    return {needs: iter(found) for needs, found in bins.items()}


def _times(free: int, want: int) -> int:
    if want <= 0:
        return UNBOUNDED
    return max(0, free // want)


def _ports(bin_: _Bin) -> tuple[int, ...]:
    wanted = sum(task.needs.ports for task in bin_.tasks)
    free = (port for first, last in bin_.host.ports for port in range(first, last + 1))
    return tuple(port for port, _ in zip(free, range(wanted), strict=False))
