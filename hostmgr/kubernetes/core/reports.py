"""What was reported of runs: ends are told again until they are acknowledged, and pods stay a while after."""

from __future__ import annotations

from collections.abc import Iterable

from hostmgr.kubernetes.core.states import RunStatus
from peloton.model.ids import MesosTaskId

REPEAT_SECONDS = 30.0
"""After how long the end of a run is reported again that nobody has acknowledged."""


class Reports:
    """The last reports of runs. `now` is seconds on the monotonic clock."""

    def __init__(self) -> None:
        self._last: dict[MesosTaskId, RunStatus] = {}
        self._unacknowledged: dict[MesosTaskId, tuple[float, RunStatus]] = {}
        """Ends of runs, with the time of their last report."""
        self._finished: dict[MesosTaskId, float] = {}
        """When the ends of runs were acknowledged whose pods are still there."""

    def note(self, status: RunStatus) -> None:
        """Take over what is reported of a run."""
        self._last[status.run] = status
        if status.state.terminal:
            self._unacknowledged[status.run] = (-1.0, status)

    def last(self, run: MesosTaskId) -> RunStatus | None:
        """Return what was reported last of a run whose pod is there."""
        return self._last.get(run)

    def ended(self, run: MesosTaskId) -> bool:
        """Return whether the end of a run was reported."""
        last = self._last.get(run)
        return last is not None and last.state.terminal

    def forget(self, run: MesosTaskId) -> None:
        """Forget a run whose pod is gone; its end is told until it is acknowledged."""
        self._last.pop(run, None)
        self._finished.pop(run, None)

    def unacknowledged(self) -> Iterable[RunStatus]:
        """Return the ends that nobody has acknowledged."""
        return (status for _, status in self._unacknowledged.values())

    def end_of(self, run: MesosTaskId) -> RunStatus | None:
        """Return the end of a run that nobody has acknowledged."""
        held = self._unacknowledged.get(run)
        return None if held is None else held[1]

    def acknowledge(self, run: MesosTaskId, uid: str) -> bool:
        """Take over that the end of a run is stored; return whether it was this end."""
        held = self._unacknowledged.get(run)
        if held is None or held[1].uid != uid:
            return False
        del self._unacknowledged[run]
        return True

    def keep(self, run: MesosTaskId, now: float) -> None:
        """Begin the time for which the pod of an acknowledged end is kept."""
        self._finished[run] = now

    def repeat(self, now: float, connected: bool) -> list[RunStatus]:
        """Return the ends that are to be told again."""
        again = []
        for run, (told, status) in self._unacknowledged.items():
            if told < 0:
                self._unacknowledged[run] = (now, status)
            elif now - told >= REPEAT_SECONDS and connected:
                self._unacknowledged[run] = (now, status)
                again.append(status)
        return again

    def expire(self, now: float, kept: float) -> list[MesosTaskId]:
        """Return the runs whose pods were kept for `kept` seconds; again later, until they are gone."""
        expired = [run for run, at in self._finished.items() if now - at >= kept]
        for run in expired:
            self._finished[run] = now - kept + REPEAT_SECONDS
        return expired
