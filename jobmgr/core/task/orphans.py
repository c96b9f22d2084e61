"""Runs that live though their tasks have gone on without them."""

from __future__ import annotations

from collections import OrderedDict

from peloton.model.ids import Run

ORPHAN_KILLS = 3
MOST_ORPHANS = 10_000


class Orphans:
    """Runs that live though they were given up, with how often each was killed. The oldest are forgotten."""

    def __init__(self) -> None:
        self._kills: OrderedDict[Run, int] = OrderedDict()

    def alive(self, run: Run) -> bool:
        """One is heard of; whether it shall be killed (once more)."""
        kills = self._kills.get(run, 0)
        if kills >= ORPHAN_KILLS:
            return False
        self._kills[run] = kills + 1
        if len(self._kills) > MOST_ORPHANS:
            self._kills.popitem(last=False)
        return True

    def ended(self, run: Run) -> None:
        self._kills.pop(run, None)
