"""The statuses of one task, kept in few bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mesos.v1 import mesos_pb2 as mesos


class StatusLog:
    """The statuses of a task, oldest first; of several in a row with one state, the newest.

    Each is kept as it is on the wire, about 200 bytes: a message in memory takes 1,300, and a master may have
    a million.
    """

    __slots__ = ("_kept", "_state")

    def __init__(self, statuses: Iterable[mesos.TaskStatus] = ()) -> None:
        self._kept: tuple[bytes, ...] = ()
        self._state: int | None = None
        for each in statuses:
            self.append(each)

    def append(self, status: mesos.TaskStatus) -> None:
        """Take the newest status in."""
        kept = self._kept[:-1] if self._state == status.state else self._kept
        self._kept, self._state = (*kept, status.SerializeToString()), status.state

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __iter__(self) -> Iterator[mesos.TaskStatus]:
        return map(mesos.TaskStatus.FromString, self._kept)

    def __reversed__(self) -> Iterator[mesos.TaskStatus]:
        return map(mesos.TaskStatus.FromString, reversed(self._kept))

    @property
    def first(self) -> mesos.TaskStatus:
        """The oldest. Raises IndexError where there is none."""
        return mesos.TaskStatus.FromString(self._kept[0])

    @property
    def last(self) -> mesos.TaskStatus:
        """The newest. Raises IndexError where there is none."""
        return mesos.TaskStatus.FromString(self._kept[-1])
