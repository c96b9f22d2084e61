"""The rooms of nodes: what each has free, offered anew when it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hostmgr.kubernetes.core.instructions import Room
from hostmgr.kubernetes.core.ports import PortRange
from peloton.model.resources import Resources

Free = tuple[Resources, tuple[PortRange, ...], tuple[tuple[str, int], ...]]
"""Resources, ports, and persistent volumes with their sizes."""


class Rooms:
    """The rooms that stand, at most one of a node, and the nodes whose rooms are to be looked at."""

    def __init__(self) -> None:
        self._standing: dict[str, Room] = {}
        self._changed: set[str] = set()
        self._number = 0

    def change(self, names: Iterable[str]) -> None:
        """Take over that nodes may have more or less free than before."""
        self._changed.update(names)

    def clear(self) -> None:
        """Forget all rooms: those who had them are gone."""
        self._standing.clear()

    def void(self, node: str) -> None:
        """Forget the room of a node, which was used or declined: it is offered anew."""
        self._standing.pop(node, None)
        self._changed.add(node)

    def find(self, room_id: str) -> Room | None:
        """Return a room that stands."""
        return next((each for each in self._standing.values() if each.id == room_id), None)

    def withdraw(self, node: str) -> list[str]:
        """Forget the room of a node; return its id, if it had one."""
        room = self._standing.pop(node, None)
        return [] if room is None else [room.id]

    def offer(self, free: Callable[[str], Free | None]) -> tuple[list[str], tuple[Room, ...]]:
        """Return the ids of rooms that stand no more, and the new ones; `free` tells what a node has."""
        withdrawn, made = list[str](), list[Room]()
        for name in sorted(self._changed):
            now, standing = free(name), self._standing.get(name)
            if standing is not None and now == (standing.free, standing.ports, standing.volumes):
                continue
            withdrawn += self.withdraw(name)
            if now is not None:
                self._number += 1
                room = self._standing[name] = Room(f"{name}/{self._number}", name, *now)
                made.append(room)
        self._changed.clear()
        return withdrawn, tuple(made)
