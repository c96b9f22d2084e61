"""Accepted placements until jobmgr takes them, and the claims of those that nobody will launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator

from peloton.model.shard import shard_of
from resmgr.core.state.entities import Placement, Task
from resmgr.core.state.owners import NOBODY
from resmgr.core.state.placements import Handover

Part = OrderedDict[Placement, None]


class PlacementQueue:
    """First in, first out, with a part for each owner of jobs. One that loses its last task is abandoned."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}
        self._size = 0
        self.abandoned: list[Handover] = []
        """Placements that nobody will launch, since the last `take_abandoned`."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Placement]:
        for part in self._parts.values():
            yield from part

    def first(self, owner: str = NOBODY, shards: Collection[int] | None = None) -> Placement | None:
        """Return the first placement for an owner whose tasks are all of some shards; None for none.

        All shards count where none are given.
        """
        part = self._parts.get(owner)
        if part is None:
            return None
        if shards is None:
            return next(iter(part))
        return next((each for each in part if _within(each, shards)), None)

    def add(self, placement: Placement) -> None:
        """Add at the tail of its owner's part. It has tasks: one that loses its last is abandoned."""
        assert placement.tasks, f"a placement on {placement.host} without tasks"
        self._part(placement)[placement] = None
        self._size += 1

    def add_first(self, placement: Placement) -> None:
        """Add at the head, where it was before."""
        assert placement.tasks, f"a placement on {placement.host} without tasks"
        part = self._part(placement)
        part[placement] = None
        part.move_to_end(placement, last=False)
        self._size += 1

    def remove(self, placement: Placement) -> None:
        """Remove a placement. Its tasks keep it."""
        part = self._parts[placement.owner]
        del part[placement]
        self._size -= 1
        if not part:
            del self._parts[placement.owner]

    def take_all(self) -> list[Placement]:
        """Remove and return all placements."""
        taken, self._parts, self._size = list(self), {}, 0
        return taken

    def remove_task(self, task: Task) -> None:
        """Remove a task from its placement, where it has one."""
        placement = task.placement
        if placement is None:
            return
        task.placement = None
        del placement.tasks[task]
        if not placement.tasks:
            self.remove(placement)
            self.abandoned.append(placement.handover())

    def abandon(self, *given: Handover) -> None:
        """Note placements that nobody will launch, whose hosts are still claimed.

        Their tasks were placed elsewhere, or the process that took them is absent.
        """
        self.abandoned += given

    def take_abandoned(self) -> list[Handover]:
        """Return what was abandoned since the last call."""
        taken, self.abandoned = self.abandoned, []
        return taken

    def _part(self, placement: Placement) -> Part:
        part = self._parts.get(placement.owner)
        if part is None:
            part = self._parts[placement.owner] = OrderedDict()
        return part


def _within(placement: Placement, shards: Collection[int]) -> bool:
    return all(shard_of(task.job.id) in shards for task in placement.tasks)
