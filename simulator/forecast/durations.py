"""How long tasks will run: drawn from what their kind took before, or by their limits.

A task that has run for some time is compared with those of its kind that took longer. A kind is the job
itself, else jobs of its pool with the same name, numbers aside, and of the same size, else those of the same
owner and size, those of the same size, of the name, of the owner, or else all of the pool: the first of these
that knows `LEAST` runs that took longer. Sizes are the same up to a factor of about the square root of two.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random

from peloton.model.ids import JobId
from peloton.model.live_state import LiveJob, Ran
from peloton.model.states import JobType
from simulator.forecast.likeness import Shares
from simulator.forecast.likeness import likeness as likeness_of

LEAST = 3
"""Runs of a kind that have to be known before it is preferred to a wider one."""
_DIGITS = re.compile(r"\d+")

Kind = tuple[str, ...]


class Known:
    """How long tasks of a kind take, by those that have ended and by the ages of those that run.

    Without the latter, kinds whose long tasks run still would look short: this is the estimator of Kaplan and
    Meier (1958).
    """

    def __init__(self, ended: Iterable[float], running: Iterable[float] = ()) -> None:
        """Learn from durations, and from the ages of tasks that run, in seconds."""
        seen = sorted([*((seconds, 0) for seconds in ended), *((seconds, 1) for seconds in running)])
        self.seconds: list[float] = []
        """Durations, ascending."""
        self._gone: list[float] = []
        """The part of all tasks that has ended by then."""
        left = 1.0
        for at, (seconds, is_running) in enumerate(seen):
            if not is_running:
                left *= 1 - 1 / (len(seen) - at)
                self.seconds.append(seconds)
                self._gone.append(1 - left)
        self._left = left
        self._last = seen[-1][0] if seen else 0.0

    def longer(self, elapsed: float) -> int:
        """Return how many tasks took longer than this."""
        return len(self.seconds) - bisect_right(self.seconds, elapsed)

    def draw(self, elapsed: float, at: float) -> float:
        """Return one of the durations beyond `elapsed`; at least one is known. `at`, from 0 to 1, says which.

        Beyond the longest task, ended or not, half of those left end within twice its time, as in `drawn`.
        """
        begin = bisect_right(self.seconds, elapsed)
        before = self._gone[begin - 1] if begin else 0.0
        wanted = before + at * (1 - before)
        found = bisect_right(self._gone, wanted, begin)
        if found < len(self.seconds):
            return self.seconds[found]
        return self._last * max(1.0, self._left / (1 - wanted))


class Lives:
    """What is known of the durations of kinds of tasks."""

    def __init__(self, now: int, jobs: Iterable[LiveJob], ended: Iterable[Ran]) -> None:
        """Learn from active jobs, at a time in nanoseconds since 1970, and from jobs that have ended."""
        found: dict[Kind, list[float]] = defaultdict(list)
        running: dict[Kind, list[float]] = defaultdict(list)
        for job in jobs:
            spec, own, age = job.spec, list(job.seconds), job.age(now)
            found["job", job.job_id] = own
            for kind in _wider(spec.pool_id, spec.owner, spec.name, job.size):
                found[kind] += own
                if age is not None and spec.type is JobType.BATCH:
                    running[kind].append(age)
        for ran in ended:
            for kind in _wider(ran.pool_id, ran.owner, ran.name, ran.size):
                found[kind].append(ran.seconds)
        self._known = {
            kind: Known(seconds, running.get(kind, ())) for kind, seconds in found.items() if seconds
        }

    def has_own(self, job_id: JobId) -> bool:
        """Return whether instances of the job have ended already."""
        return ("job", job_id) in self._known

    def of(self, job: LiveJob) -> list[Known]:
        """Return the durations of each kind of a job that is known, the narrowest kind first."""
        spec = job.spec
        kinds = [("job", job.job_id), *_wider(spec.pool_id, spec.owner, spec.name, job.size)]
        return [self._known[kind] for kind in kinds if kind in self._known]


def alike(ended: Iterable[Ran]) -> float:
    """Return how much alike jobs of the narrowest kinds are that followed each other (`likeness`)."""
    histories: dict[Kind, list[float]] = defaultdict(list)
    for ran in sorted(ended, key=lambda ran: ran.began):
        histories[_wider(ran.pool_id, ran.owner, ran.name, ran.size)[0]].append(ran.seconds)
    return likeness_of(histories.values())


def narrowest(job: LiveJob) -> Kind:
    """Return the narrowest kind of a job that other jobs are of."""
    return _wider(job.spec.pool_id, job.spec.owner, job.spec.name, job.size)[0]


def _wider(pool_id: str, owner: str, name: str, size: float) -> list[Kind]:
    """Return the kinds of a job, the narrowest first."""
    named = ("name", owner, _DIGITS.sub("#", name))
    kinds: list[Kind] = [named, ("owner", owner), ()]
    alike = f"size {round(math.log2(size))}" if size > 0 else ""
    return [*((pool_id, alike, *kind) for kind in kinds if alike), *((pool_id, "", *kind) for kind in kinds)]


def drawn(known: Sequence[Known], limit: int, elapsed: float, at: float) -> float:
    """Return for how long a task runs in all that has run for `elapsed` seconds.

    `at`, from 0 to 1, says which of the durations that are possible it is. Of a task of whose kind nothing is
    known but a limit, all durations up to it are equally likely (Mu'alem and Feitelson, 2001, on the times
    that users request). One that runs longer than all of its kind lasts another such time with probability
    one half (Harchol-Balter and Downey, 1997). Infinite where nothing is known at all.
    """
    fallback: Known | None = None
    for kind in known:
        longer = kind.longer(elapsed)
        if longer >= LEAST:
            return kind.draw(elapsed, at)
        fallback = fallback or (kind if longer else None)
    if limit:
        return elapsed + at * max(0.0, limit - elapsed)
    if fallback:
        return fallback.draw(elapsed, at)
    return max(elapsed, 1.0) / (1.0 - at) if known else math.inf


class Draws:
    """The durations of all tasks in one run of the simulator."""

    def __init__(self, lives: Lives, jobs: Iterable[LiveJob], random: Random, likeness: float = 0.0) -> None:
        """`likeness`: how much jobs of a kind share of what is drawn, 0 to 1."""
        self._shares = Shares(random, likeness)
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
            found = self._at[key] = self._shares.next(narrowest(self._jobs[job_id]))
        return found
