"""Evictions: what a PodDisruptionBudget, or a missing right, has refused, and when it is tried again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from peloton.model.backoff import exponential
from peloton.model.ids import MesosTaskId

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0
"""Between two tries of an eviction."""
_UNDER_WAY = math.inf
_REFUSED = -1.0


@dataclass(frozen=True, slots=True)
class WaitingEviction:
    """An eviction that was refused."""

    run: MesosTaskId
    node: str
    text: str
    """Why, in the words of the API server."""
    forbidden: bool
    """Whether the right for it is missing."""


@dataclass(slots=True)
class _Eviction:
    uid: str
    node: str
    tries: int = 0
    due: float = _UNDER_WAY
    """When it is tried again; `_UNDER_WAY`: it is being tried; `_REFUSED`: that is not yet settled."""
    text: str = ""
    forbidden: bool = False


class Evictions:
    """The evictions of runs that are to end for maintenance."""

    def __init__(self) -> None:
        self._by_run: dict[MesosTaskId, _Eviction] = {}

    def __contains__(self, run: MesosTaskId) -> bool:
        return run in self._by_run

    def begin(self, run: MesosTaskId, uid: str, node: str) -> bool:
        """Begin an eviction; return whether it is new. One that waits goes on waiting."""
        held = self._by_run.get(run)
        if held is not None and held.uid == uid:
            return False
        self._by_run[run] = _Eviction(uid, node)
        return True

    def refuse(self, run: MesosTaskId, uid: str, text: str, forbidden: bool) -> bool:
        """Take over that an eviction was refused; return whether it is one of these."""
        held = self._by_run.get(run)
        if held is None or held.uid != uid:
            return False
        held.tries, held.due = held.tries + 1, _REFUSED
        held.text, held.forbidden = text, forbidden
        return True

    def end(self, run: MesosTaskId) -> None:
        """Forget an eviction: it is done, or the run ends otherwise."""
        self._by_run.pop(run, None)

    def interrupt(self) -> None:
        """Take over that calls under way are not answered any more."""
        for each in self._by_run.values():
            if each.due == _UNDER_WAY:
                each.due = 0.0

    def take_due(self, now: float) -> list[tuple[MesosTaskId, str]]:
        """Return the runs, with the uids of their pods, that are to be evicted again now."""
        due = []
        for run, each in self._by_run.items():
            if each.due == _REFUSED:
                each.due = now + exponential(each.tries, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            elif each.due <= now:
                each.due = _UNDER_WAY
                due.append((run, each.uid))
        return due

    def waiting(self) -> Iterator[WaitingEviction]:
        """Iterate over those that were refused, the first one first."""
        for run, each in self._by_run.items():
            if each.text:
                yield WaitingEviction(run, each.node, each.text, each.forbidden)
