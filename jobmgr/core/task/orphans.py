"""Runs that are alive although they are no longer the current ones of their instances."""

from __future__ import annotations

from collections import OrderedDict

from peloton.model.ids import Run

ORPHAN_KILLS = 3
MAX_ORPHANS = 10_000


class Orphans:
    """Counts the kills of each orphan. The oldest orphans are forgotten."""

    def __init__(self) -> None:
        self._kills: OrderedDict[Run, int] = OrderedDict()

    def note_alive(self, run: Run) -> bool:
        """Return whether to kill a run that is reported alive, and count the kill."""
        kills = self._kills.get(run, 0)
        if kills >= ORPHAN_KILLS:
            return False
        self._kills[run] = kills + 1
        if len(self._kills) > MAX_ORPHANS:
            self._kills.popitem(last=False)
        return True

    def note_ended(self, run: Run) -> None:
        """Forget a run that has ended."""
        self._kills.pop(run, None)
