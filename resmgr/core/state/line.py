"""Gangs first in, first out, that may leave from anywhere: eight bytes for each.

An OrderedDict, which does the same, takes a hundred; with a million gangs that wait, that counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from resmgr.core.state.entities import Gang

_FEW = 64
"""Gangs that have left from the middle and stay listed in any case."""


class Line:
    """All is O(1) in the long run. Who removes a gang knows that it is in here: it is not looked for."""

    __slots__ = ("_left", "listed")

    def __init__(self) -> None:
        self.listed: deque[Gang] = deque()
        """With those that have left from the middle. The first one has not: empty where the line is."""
        self._left: set[Gang] = set()
        """Those that have left and are still listed."""

    def __len__(self) -> int:
        return len(self.listed) - len(self._left)

    def __iter__(self) -> Iterator[Gang]:
        if not self._left:
            return iter(self.listed)
        return (gang for gang in self.listed if gang not in self._left)

    def add(self, gang: Gang) -> None:
        """Add a gang at the end."""
        if self._left and gang in self._left:
            self._compact()
        self.listed.append(gang)

    def add_all(self, gangs: Iterable[Gang]) -> None:
        """Add gangs at the end."""
        if self._left:
            self._compact()
        self.listed.extend(gangs)

    def add_first(self, gang: Gang) -> None:
        """Add a gang before all others."""
        if gang in self._left:
            self._compact()
        self.listed.appendleft(gang)

    def pop(self) -> Gang:
        """Remove and return the first gang. Raises IndexError where there is none."""
        gang = self.listed.popleft()
        if self._left:
            self._drop_first()
        return gang

    def remove(self, gang: Gang) -> None:
        """Remove a gang that is in here."""
        gangs, left = self.listed, self._left
        if gangs[0] is gang:
            gangs.popleft()
            if left:
                self._drop_first()
            return
        left.add(gang)
        if len(left) > _FEW and 2 * len(left) > len(gangs):
            self._compact()

    def _drop_first(self) -> None:
        """Let a gang be first that has not left."""
        gangs, left = self.listed, self._left
        while gangs and gangs[0] in left:
            left.remove(gangs.popleft())

    def _compact(self) -> None:
        self.listed = deque(self)
        self._left.clear()
