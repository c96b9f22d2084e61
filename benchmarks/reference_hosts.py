"""The reference policies over hosts: a piece of a job has all of its processors on one host.

As in `reference_policies` a job starts with all of its pieces at once, and the first of the queue that does
not start blocks those behind it, unless jobs may pass. Each piece goes to the host with least free that takes
it.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.reference_policies import Job


@dataclass(frozen=True, slots=True)
class Pieces:
    """A job as equal pieces."""

    job: Job
    count: int

    @property
    def each(self) -> int:
        """Processors of each piece."""
        return self.job.processors // self.count


def waits_on_hosts(
    jobs: Sequence[Pieces], hosts: int, processors: int, order: Callable[[Job], float], passing: bool = False
) -> list[float]:
    """Return for how many seconds each job waits, in the order of `jobs`, which is that of their arrival.

    `processors`: of each host. `passing`: whether jobs pass those that do not fit. Raises ValueError for a
    job that does not fit on the empty hosts.
    """
    for each in jobs:
        if _places([processors] * hosts, each) is None:
            raise ValueError(f"{each} fits on no {hosts} hosts of {processors} processors")
    free, waits, queue = [processors] * hosts, [0.0] * len(jobs), _Queue(passing)
    running: list[tuple[float, int, list[int]]] = []
    following = 0
    while following < len(jobs) or running:
        arrival = jobs[following].job.submit if following < len(jobs) else float("inf")
        now = min(arrival, running[0][0] if running else float("inf"))
        while running and running[0][0] <= now:
            _, number, used = heapq.heappop(running)
            for host in used:
                free[host] += jobs[number].each
        while following < len(jobs) and jobs[following].job.submit <= now:
            queue.add(jobs[following], order(jobs[following].job), following)
            following += 1
        for number, places in queue.starting(jobs, free):
            waits[number] = now - jobs[number].job.submit
            heapq.heappush(running, (now + jobs[number].job.seconds, number, places))
    return waits


class _Queue:
    """Jobs that wait, by their pieces: where one finds no hosts, no other with the same pieces does."""

    def __init__(self, passing: bool) -> None:
        self._passing = passing
        self._of: dict[tuple[int, int], list[tuple[float, int]]] = {}
        """By the processors of each piece and their count, sorted: the order of a job, and its number."""

    def add(self, job: Pieces, order: float, number: int) -> None:
        insort(self._of.setdefault((job.each, job.count), []), (order, number))

    def starting(self, jobs: Sequence[Pieces], free: list[int]) -> Iterator[tuple[int, list[int]]]:
        """Take out the jobs that start, each with its hosts, of which `free` is reduced."""
        heads = [(of[0], pieces) for pieces, of in self._of.items() if of]
        heapq.heapify(heads)
        while heads:
            (_, number), pieces = heads[0]
            places = _places(free, jobs[number])
            if places is None:
                if not self._passing:
                    return
                heapq.heappop(heads)
                continue
            for host in places:
                free[host] -= jobs[number].each
            of = self._of[pieces]
            del of[0]
            if of:
                heapq.heapreplace(heads, (of[0], pieces))
            else:
                heapq.heappop(heads)
            yield number, places


def _places(free: Sequence[int], pieces: Pieces) -> list[int] | None:
    """Return the host of each piece; None where they do not all fit."""
    each, found = pieces.each, list[int]()
    if sum(free) < each * pieces.count or max(free) < each:
        return None
    left = list(free)
    for _ in range(pieces.count):
        able = [some for some in left if some >= each]
        if not able:
            return None
        host = left.index(min(able))
        left[host] -= each
        found.append(host)
    return found
