"""How often daemons start again, by what the membership shows. Pure.

A process that ends and is started again has a new id, behind the name of its instance. So a daemon that
crashes whenever it starts is seen, though each time somebody looks it may be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from peloton.model.problems import Problem

WINDOW_SECONDS = 3600.0
OFTEN = 3
"""Starts of an instance within the window that are told: an upgrade and a mistake are two."""


class Starts:
    """The processes that have begun since this began to look."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        """When each process was seen last, by its id, in seconds on the monotonic clock."""
        self._began: dict[str, float] = {}
        """When each process was seen first, of those that began later than this."""
        self._here: frozenset[str] = frozenset()

    def look(self, ids: Iterable[str], now: float) -> None:
        """Look at the ids of all processes that are there."""
        here = frozenset(ids)
        if self._known:
            self._began.update(dict.fromkeys(here - self._known.keys(), now))
        self._known.update(dict.fromkeys(here | self._here, now))
        self._here = here
        self._known = _young(self._known, now)
        self._began = _young(self._began, now)

    def problems(self, now: float) -> list[Problem]:
        """Return the instances that have started often within the window, the most often first."""
        counts = Counter(instance_of(each) for each in _young(self._began, now))
        present = Counter(map(instance_of, self._here))
        found = [
            (name, starts)
            for name, starts in counts.most_common()
            # Processes without a name of their own share that of their role.
            if starts >= OFTEN * max(present[name], 1)
        ]
        return [
            Problem(
                "bad",
                f"{name} has started {starts} times within the last hour",
                "/",
                "its log tells why it ends",
            )
            for name, starts in found
        ]


def instance_of(process: str) -> str:
    """Return the name of the instance from the id of a process, `<instance>-<random>`."""
    return process.rpartition("-")[0] or process


def _young(times: dict[str, float], now: float) -> dict[str, float]:
    return {key: time for key, time in times.items() if now - time < WINDOW_SECONDS}
