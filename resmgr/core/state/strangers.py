"""Runs that are reported as on a host and are not known here.

A job manager may have placements from the leader before this one, and store the launch after this one has
read the store. Such a run is looked up in the store as soon as it is reported; later audits find it, too.
"""

from __future__ import annotations

from peloton.model.ids import Run

MOST = 100_000


class Strangers:
    """Runs to be looked up, and those being looked up. At most `MOST` wait; audits find the others."""

    __slots__ = ("_asked", "_noted")

    def __init__(self) -> None:
        self._noted: dict[Run, None] = {}
        self._asked: set[Run] = set()

    def __len__(self) -> int:
        """Return how many are to be looked up."""
        return len(self._noted)

    def note(self, run: Run) -> None:
        """Note a run that is reported as on a host."""
        if run not in self._asked and len(self._noted) < MOST:
            self._noted[run] = None

    def end(self, run: Run) -> None:
        """Note that a run has ended: it is not taken in any more."""
        self._noted.pop(run, None)
        self._asked.discard(run)

    def ask(self, limit: int) -> list[Run]:
        """Return up to `limit` runs to be looked up now, those first that were noted first."""
        runs = list(self._noted)[:limit]
        for run in runs:
            del self._noted[run]
        self._asked.update(runs)
        return runs

    def answered(self, run: Run) -> bool:
        """Return whether a run that was looked up has not ended meanwhile. Each run is answered once."""
        if run in self._asked:
            self._asked.remove(run)
            return True
        return False
