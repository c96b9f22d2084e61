"""Accepted placements until jobmgr takes them, and the claims of those that nobody will launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from resmgr.core.state.entities import Placement, Task
from resmgr.core.state.placements import Handover


class PlacementQueue:
    """First in, first out. A placement that loses its last task is abandoned."""

    def __init__(self) -> None:
        self._placements: OrderedDict[Placement, None] = OrderedDict()
        self.abandoned: list[Handover] = []
        """Placements that nobody will launch, since the last `take_abandoned`."""

    def __len__(self) -> int:
        return len(self._placements)

    def __iter__(self) -> Iterator[Placement]:
        return iter(self._placements)

    def add(self, placement: Placement) -> None:
        """Add at the tail. It has tasks: one that loses its last is abandoned."""
        assert placement.tasks, f"a placement on {placement.host} without tasks"
        self._placements[placement] = None

    def add_first(self, placement: Placement) -> None:
        """Add at the head, where it was before."""
        assert placement.tasks, f"a placement on {placement.host} without tasks"
        self._placements[placement] = None
        self._placements.move_to_end(placement, last=False)

    def pop(self) -> Placement:
        """Remove and return the head. Raises KeyError where there is none."""
        placement, _ = self._placements.popitem(last=False)
        return placement

    def remove_task(self, task: Task) -> None:
        """Remove a task from its placement, where it has one."""
        placement = task.placement
        if placement is None:
            return
        task.placement = None
        del placement.tasks[task]
        if not placement.tasks:
            del self._placements[placement]
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
