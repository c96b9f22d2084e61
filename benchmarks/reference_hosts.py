"""The reference policies over hosts: a piece of a job has all of its processors on one host.

As in `reference_policies` a job starts with all of its pieces at once, and the first of the queue that does
not start blocks those behind it, unless jobs may pass. Each piece goes to the host with least free that takes
it.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Sequence
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
    free, queue, waits = [processors] * hosts, list[tuple[float, int]](), [0.0] * len(jobs)
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
            insort(queue, (order(jobs[following].job), following))
            following += 1
        for entry in list(queue):
            number = entry[1]
            places = _places(free, jobs[number])
            if places is None:
                if not passing:
                    break
                continue
            queue.remove(entry)
            for host in places:
                free[host] -= jobs[number].each
            waits[number] = now - jobs[number].job.submit
            heapq.heappush(running, (now + jobs[number].job.seconds, number, places))
    return waits


def _places(free: Sequence[int], pieces: Pieces) -> list[int] | None:
    """Return the host of each piece; None where they do not all fit."""
    left, found = list(free), list[int]()
    for _ in range(pieces.count):
        able = [host for host, some in enumerate(left) if some >= pieces.each]
        if not able:
            return None
        host = min(able, key=left.__getitem__)
        left[host] -= pieces.each
        found.append(host)
    return found
