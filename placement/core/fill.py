"""Laying gangs over hosts, first fit: one pass over hosts and tasks, whatever their numbers.

A host only gets fuller, so a need that it has no room for is never tried on it again: each distinct
need keeps the place of the first host that may still do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from peloton.model.resources import Resources
from placement.core.model import UNBOUNDED, Filling, Gang, Host, Needs, Task, Use


def fill(hosts: Sequence[Host], gangs: Sequence[Gang], spread: bool = False) -> Filling:
    """Gangs in their order, each whole or not at all, over hosts in theirs.

    A host is filled before the next is taken, or with `spread` takes one task only.
    """
    rooms = _Rooms(hosts, spread)
    placed: list[Gang] = []
    left: list[Gang] = []
    missing: tuple[tuple[Needs, int], ...] = ()
    hopeless: set[tuple[tuple[Needs, int], ...]] = set()
    for gang in gangs:
        short = () if hopeless and gang.shape in hopeless else rooms.place(gang)
        if short is None:
            placed.append(gang)
            continue
        if not left:
            missing = short
        hopeless.add(gang.shape)
        left.append(gang)
    return Filling(tuple(rooms.uses()), tuple(placed), tuple(left), missing)


def capacity(host: Host, needs: Needs) -> int:
    """How many such tasks the empty host takes."""
    return _Room(host).count(needs, alone=True) if host.host_class == needs.host_class else 0


class _Room:
    """What is left of a host."""

    __slots__ = ("free", "host", "ports", "slack_cpu", "tasks", "used")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.free = host.free
        self.slack_cpu = host.slack_cpu
        self.ports = sum(last - first + 1 for first, last in host.ports)
        self.used = 0
        self.tasks: list[Task] = []

    def count(self, needs: Needs, alone: bool) -> int:
        """How many such tasks find room; `alone`: each is a gang of its own."""
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
        """A negative count gives back."""
        want = needs.resources.times(count)
        if needs.revocable:
            self.slack_cpu -= want.cpu
            want = Resources(0, want.memory, want.disk, want.gpu)
        self.free -= want
        self.ports -= needs.ports * count
        self.used += count


@dataclass(frozen=True, slots=True)
class _Taken:
    room: _Room
    needs: Needs
    count: int


class _Rooms:
    def __init__(self, hosts: Sequence[Host], spread: bool) -> None:
        self._rooms = [_Room(host) for host in hosts]
        self._spread = spread
        self._first: dict[Needs, int] = {}

    def place(self, gang: Gang) -> tuple[tuple[Needs, int], ...] | None:
        """None where all its tasks have a place; else what found none, and nothing has changed."""
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
        self._seat(gang, taken)
        return None

    def uses(self) -> Iterator[Use]:
        for room in self._rooms:
            if room.tasks:
                yield Use(room.host, tuple(room.tasks), _ports(room))

    def _take(self, needs: Needs, count: int, taken: list[_Taken], alone: bool) -> int:
        """Take room for up to `count` tasks and write it down in `taken`; how many found none."""
        at = self._first.get(needs, 0)
        while count and at < len(self._rooms):
            room = self._rooms[at]
            some = min(count, self._count(room, needs, alone))
            if not some:
                at += 1
                continue
            room.take(needs, some)
            taken.append(_Taken(room, needs, some))
            count -= some
        self._first[needs] = at
        return count

    def _count(self, room: _Room, needs: Needs, alone: bool) -> int:
        if room.host.host_class != needs.host_class or (self._spread and room.used):
            return 0
        count = room.count(needs, alone)
        return min(1, count) if self._spread else count

    def _give_back(self, taken: Sequence[_Taken]) -> None:
        for part in taken:
            part.room.take(part.needs, -part.count)

    def _seat(self, gang: Gang, taken: Sequence[_Taken]) -> None:
        if len(gang.tasks) == 1:
            taken[0].room.tasks.append(gang.tasks[0])
            return
        seats = _by_needs(taken)
        for task in gang.tasks:
            next(seats[task.needs]).tasks.append(task)


def _by_needs(taken: Sequence[_Taken]) -> Mapping[Needs, Iterator[_Room]]:
    rooms: dict[Needs, list[_Room]] = {}
    for part in taken:
        rooms.setdefault(part.needs, []).extend([part.room] * part.count)
    return {needs: iter(found) for needs, found in rooms.items()}


def _times(free: int, want: int) -> int:
    if want <= 0:
        return UNBOUNDED
    return max(0, free // want)


def _ports(room: _Room) -> tuple[int, ...]:
    wanted = sum(task.needs.ports for task in room.tasks)
    free = (port for first, last in room.host.ports for port in range(first, last + 1))
    return tuple(port for port, _ in zip(free, range(wanted), strict=False))
