"""Progress of a new leader in reading the store, in metrics and in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import Gauge

TELL_SECONDS = 5.0
"""Time between two lines in the log."""


class Gauges:
    """The metrics of one daemon. Make them once, at import."""

    def __init__(self, daemon: str) -> None:
        self.jobs = Gauge(
            f"{daemon}_recovery_jobs", "Active jobs that were stored when this instance was last elected."
        )
        self.jobs_read = Gauge(f"{daemon}_recovery_jobs_read", "Number of these jobs that have been read.")
        self.tasks_read = Gauge(f"{daemon}_recovery_tasks_read", "Tasks of the jobs that have been read.")
        self.seconds = Gauge(
            f"{daemon}_recovery_seconds", "Seconds since it began to read them, or that reading took."
        )


class Progress:
    """The progress of one reading of all active jobs."""

    def __init__(
        self,
        gauges: Gauges,
        log: logging.Logger,
        now: Callable[[], float],
        jobs: int,
        tell: float = TELL_SECONDS,
    ) -> None:
        """Use `now` for seconds on a monotonic clock; log each `tell` seconds."""
        self._gauges = gauges
        self._log = log
        self._now = now
        self._tell = tell
        self._all = jobs
        self._jobs = self._tasks = 0
        self._began = self._logged_at = now()
        gauges.jobs.set(jobs)
        self._step()

    def job(self) -> None:
        """Count one more job as read."""
        self._jobs += 1
        self._step()

    def tasks(self, number: int) -> None:
        """Count further tasks as read."""
        self._tasks += number
        self._step()

    def done(self) -> None:
        """Log the end of the reading."""
        self._step(last=True)

    def _step(self, last: bool = False) -> None:
        now = self._now()
        seconds = now - self._began
        self._gauges.jobs_read.set(self._jobs)
        self._gauges.tasks_read.set(self._tasks)
        self._gauges.seconds.set(seconds)
        if last or now - self._logged_at >= self._tell:
            self._logged_at = now
            self._log.info(
                "%d of %d active jobs are read, %d tasks, in %.1f s",
                self._jobs,
                self._all,
                self._tasks,
                seconds,
            )
