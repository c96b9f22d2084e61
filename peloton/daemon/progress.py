"""How far a new leader is with what is stored: in its metrics at each step, in its log from time to time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import Gauge

TELL_SECONDS = 5.0


class Gauges:
    """Of one daemon: made once, where it is imported."""

    def __init__(self, daemon: str) -> None:
        self.jobs = Gauge(
            f"{daemon}_recovery_jobs", "Active jobs that were stored when this instance was last elected."
        )
        self.jobs_read = Gauge(
            f"{daemon}_recovery_jobs_read", "How many of them it has read: all before it serves."
        )
        self.tasks_read = Gauge(f"{daemon}_recovery_tasks_read", "Tasks of the jobs that it has read.")
        self.seconds = Gauge(
            f"{daemon}_recovery_seconds", "How long it has been reading them, or how long that took."
        )


class Progress:
    """One reading of all active jobs."""

    def __init__(
        self,
        gauges: Gauges,
        log: logging.Logger,
        now: Callable[[], float],
        jobs: int,
        tell: float = TELL_SECONDS,
    ) -> None:
        """`now` is seconds on a monotonic clock; the log hears of it each `tell` seconds."""
        self._gauges = gauges
        self._log = log
        self._now = now
        self._tell = tell
        self._all = jobs
        self._jobs = self._tasks = 0
        self._began = self._told = now()
        gauges.jobs.set(jobs)
        self._step()

    def job(self) -> None:
        """One more is done with."""
        self._jobs += 1
        self._step()

    def tasks(self, number: int) -> None:
        """So many more are read."""
        self._tasks += number
        self._step()

    def done(self) -> None:
        self._step(last=True)

    def _step(self, last: bool = False) -> None:
        now = self._now()
        seconds = now - self._began
        self._gauges.jobs_read.set(self._jobs)
        self._gauges.tasks_read.set(self._tasks)
        self._gauges.seconds.set(seconds)
        if last or now - self._told >= self._tell:
            self._told = now
            self._log.info(
                "%d of %d active jobs are read, %d tasks, in %.1f s",
                self._jobs,
                self._all,
                self._tasks,
                seconds,
            )
