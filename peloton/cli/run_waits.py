"""Tell whoever waits for a job that they created why its processes do not run yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peloton.cli.session import Session
from peloton.errors import PelotonError
from peloton.model.plural import plural
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo

PATIENCE_SECONDS = 3.0
"""How long processes wait before it is told: most are placed earlier."""
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_BETWEEN_TEXTS = 15.0
"""Amounts in a cause change all the time where a cluster is busy."""
_WAITING = ("INITIALIZED", "PENDING")


@dataclass(slots=True)
class Waits:
    """What is told of the waiting of one job, by `note`."""

    session: Session
    note: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    _since: float | None = None
    _look: float = 0.0
    _again: float = 0.0
    _told: list[str] = field(default_factory=list)

    def look(self, info: JobInfo) -> None:
        """Take the job as it is now; tell why processes wait that have done so for a while."""
        now = self.clock()
        if not any(info.runtime.taskStats.get(state, 0) for state in _WAITING):
            self._run(info)
        elif self._since is None:
            self._since, self._look = now, now + PATIENCE_SECONDS
        elif now >= self._look:
            self._look = now + SECONDS_BETWEEN_LOOKS
            self._tell(_texts(self.session, info), now)

    def _run(self, info: JobInfo) -> None:
        self._since = None
        if self._told and info.runtime.taskStats.get("RUNNING", 0) == info.config.instanceCount:
            self.note(f"{_all(info.config.instanceCount)} now")
            self._again, self._told = 0.0, []

    def _tell(self, texts: list[str], now: float) -> None:
        if texts and texts != self._told and now >= self._again:
            self._told, self._again = texts, now + SECONDS_BETWEEN_TEXTS
            for text in texts:
                self.note(text)


def _texts(session: Session, info: JobInfo) -> list[str]:
    """Return why processes of a job wait, a text for each cause; nothing where nobody answers."""
    from peloton.cli.explain_client import explain_waiting

    try:
        groups = explain_waiting(session, info)
    except PelotonError:
        return []  # it is asked again
    texts = [f"{plural(each.count, 'process waits', 'processes wait')}: {each.cause}" for each in groups]
    return [*([clean(reason)] if (reason := info.runtime.reason) else []), *texts]


def _all(processes: int) -> str:
    return "it runs" if processes == 1 else f"all {processes} processes run"
