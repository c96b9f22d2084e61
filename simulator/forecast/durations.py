"""How long tasks will run: drawn from what their kind took before, or by their limits.

A task that has run for some time is compared with those of its kind that took longer. A kind is the job
itself, else jobs of the same name, numbers aside, else those of the same owner, else those of the pool: the
first of these that knows `LEAST` runs that took longer.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from random import Random

from peloton.model.ids import JobId
from peloton.model.live_state import LiveJob, Ran
from peloton.model.states import JobType

LEAST = 3
"""Runs of a kind that have to be known before it is preferred to a wider one."""
_DIGITS = re.compile(r"\d+")

Kind = tuple[str, ...]


class Lives:
    """What is known of the durations of kinds of tasks."""

    def __init__(self, jobs: Iterable[LiveJob], ended: Iterable[Ran]) -> None:
        """Learn from the ended instances of active jobs, and from jobs that have ended."""
        found: dict[Kind, list[float]] = defaultdict(list)
        for job in jobs:
            spec, own = job.spec, list(job.seconds)
            found["job", job.job_id] = own
            for kind in _wider(spec.pool_id, spec.owner, spec.name):
                found[kind] += own
        for ran in ended:
            for kind in _wider(ran.pool_id, ran.owner, ran.name):
                found[kind].append(ran.seconds)
        self._known = {kind: sorted(seconds) for kind, seconds in found.items() if seconds}

    def has_own(self, job_id: JobId) -> bool:
        """Return whether instances of the job have ended already."""
        return ("job", job_id) in self._known

    def of(self, job: LiveJob) -> list[list[float]]:
        """Return the durations of each kind of a job that is known, the narrowest kind first."""
        spec = job.spec
        kinds = [("job", job.job_id), *_wider(spec.pool_id, spec.owner, spec.name)]
        return [self._known[kind] for kind in kinds if kind in self._known]


def _wider(pool_id: str, owner: str, name: str) -> list[Kind]:
    named = [("name", pool_id, owner, _DIGITS.sub("#", name))] if name else []
    owned = [("owner", pool_id, owner)] if owner else []
    return [*named, *owned, ("pool", pool_id)]


def drawn(known: list[list[float]], limit: int, elapsed: float, at: float) -> float:
    """Return for how long a task runs in all that has run for `elapsed` seconds.

    `at`, from 0 to 1, says which of the durations that are possible it is. Of a task of whose kind nothing is
    known but a limit, all durations up to it are equally likely (Mu'alem and Feitelson, 2001, on the times
    that users request). One that runs longer than all of its kind lasts another such time with probability
    one half (Harchol-Balter and Downey, 1997). Infinite where nothing is known at all.
    """
    fallback: list[float] = []
    for seconds in known:
        longer = seconds[bisect_right(seconds, elapsed) :]
        if len(longer) >= LEAST:
            return longer[int(at * len(longer))]
        fallback = fallback or longer
    if limit:
        return elapsed + at * max(0.0, limit - elapsed)
    if fallback:
        return fallback[int(at * len(fallback))]
    return max(elapsed, 1.0) / (1.0 - at) if known else math.inf


class Draws:
    """The durations of all tasks in one run of the simulator."""

    def __init__(self, lives: Lives, jobs: Iterable[LiveJob], random: Random) -> None:
        self._random = random
        self._jobs = {job.job_id: job for job in jobs}
        self._known = {job_id: lives.of(job) for job_id, job in self._jobs.items()}
        self._own = {job_id for job_id in self._jobs if lives.has_own(job_id)}
        self._at: dict[tuple[JobId, int], float] = {}

    def seconds(self, job_id: JobId, instance: int, elapsed: float = 0.0) -> float:
        """Return for how long an instance runs in all."""
        spec = self._jobs[job_id].spec
        if spec.type is not JobType.BATCH:
            return math.inf
        return drawn(self._known[job_id], spec.sla.max_running_time, elapsed, self._draw(job_id, instance))

    def _draw(self, job_id: JobId, instance: int) -> float:
        """Return the share that is drawn for an instance; for a job of which none has ended, one for all."""
        alike = self._jobs[job_id].spec.in_gang(instance) or job_id not in self._own
        key = job_id, -1 if alike else instance
        found = self._at.get(key)
        if found is None:
            found = self._at[key] = self._random.random()
        return found
