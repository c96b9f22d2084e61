"""Policies of others, over a number of equal processors, to compare with: FIFO, shortest first, backfill.

A job needs a number of processors, all at once, and runs to its end. The order of the queue is that of the
arrivals, or the shortest first; with backfill (EASY: Lifka, "The ANL/IBM SP Scheduling System", 1995), a
job may pass the first of the queue where that does not delay it. Run times are known exactly.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BOUND_SECONDS = 10.0
"""Shorter jobs count as so long in the bounded slowdown."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are in seconds."""

    submit: float
    seconds: float
    processors: int


Order = Callable[[Job], float]
"""The job with the least goes first; of equal ones the one that came first."""


def first_come(job: Job) -> float:
    """Order by arrival."""
    return job.submit


def shortest_first(job: Job) -> float:
    """Order by run time."""
    return job.seconds


def waits(
    jobs: Sequence[Job], processors: int, order: Order = first_come, backfill: bool = False
) -> list[float]:
    """Return for how many seconds each job waits, in the order of `jobs`, which is that of their arrival.

    Raises ValueError for a job that needs more processors than there are.
    """
    return _Machine(jobs, processors, order, backfill).run()


class _Machine:
    def __init__(self, jobs: Sequence[Job], processors: int, order: Order, backfill: bool) -> None:
        for job in jobs:
            if not 1 <= job.processors <= processors:
                raise ValueError(f"{job} needs 1 to {processors} processors")
        self._jobs, self._order, self._backfill = jobs, order, backfill
        self._free = processors
        self._queue: list[tuple[float, int]] = []
        """Sorted: the order of a job, and its number."""
        self._running: list[tuple[float, int]] = []
        """A heap: when a job ends, and its number."""
        self._waits = [0.0] * len(jobs)

    def run(self) -> list[float]:
        arrivals = iter(range(len(self._jobs)))
        following = next(arrivals, None)
        while following is not None or self._running:
            now = min(
                self._running[0][0] if self._running else float("inf"),
                float("inf") if following is None else self._jobs[following].submit,
            )
            while self._running and self._running[0][0] <= now:
                self._free += self._jobs[heapq.heappop(self._running)[1]].processors
            while following is not None and self._jobs[following].submit <= now:
                insort(self._queue, (self._order(self._jobs[following]), following))
                following = next(arrivals, None)
            self._start(now)
        assert not self._queue, "every job starts"
        return self._waits

    def _start(self, now: float) -> None:
        while self._queue and self._jobs[self._queue[0][1]].processors <= self._free:
            self._run_job(self._queue.pop(0)[1], now)
        if not self._backfill or len(self._queue) < 2 or not self._free:
            return
        begin, spare = self._reserved(self._jobs[self._queue[0][1]])
        later = self._queue[1:]
        for entry in later:
            job = self._jobs[entry[1]]
            if job.processors > self._free:
                continue
            over = now + job.seconds > begin
            if over and job.processors > spare:
                continue
            spare -= job.processors if over else 0
            self._queue.remove(entry)
            self._run_job(entry[1], now)

    def _reserved(self, job: Job) -> tuple[float, int]:
        """Return when a job can start at the latest, and how many processors it leaves free then."""
        free = self._free
        ends = sorted(self._running)
        for at, (end, number) in enumerate(ends):
            free += self._jobs[number].processors
            # What ends at the same time is free then, too.
            if free >= job.processors and (at + 1 == len(ends) or ends[at + 1][0] > end):
                return end, free - job.processors
        raise AssertionError("no job needs more than there is")

    def _run_job(self, number: int, now: float) -> None:
        job = self._jobs[number]
        self._free -= job.processors
        self._waits[number] = now - job.submit
        heapq.heappush(self._running, (now + job.seconds, number))


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over jobs, in seconds, and the bounded slowdown."""

    wait: float
    completion: float
    slowdown: float


def figures(waited: Sequence[float], seconds: Sequence[float]) -> Figures:
    """Return the figures of jobs that waited and ran for so long."""
    count = len(waited)
    pairs = list(zip(waited, seconds, strict=True))
    slowdowns = (max(1.0, (wait + ran) / max(ran, BOUND_SECONDS)) for wait, ran in pairs)
    return Figures(sum(waited) / count, sum(map(sum, pairs)) / count, sum(slowdowns) / count)


POLICIES: dict[str, tuple[Order, bool]] = {
    "first come, first served": (first_come, False),
    "shortest first": (shortest_first, False),
    "first come, with EASY backfill": (first_come, True),
    "shortest first, with EASY backfill": (shortest_first, True),
}
