"""Keeps the account of jobs: totals are taken every few minutes, stored by hour, and hours are closed.

A job is retired once its account is stored, so that no leader loses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple, NoReturn

from prometheus_client import Counter

from jobmgr.core.accounting import Ledger, account, group_of, summed
from jobmgr.core.job_courses import JobCourses
from jobmgr.core.state.cache import CachedJob
from jobmgr.drivers.job_history import JobHistory
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.clock import NANOSECONDS, Clock
from peloton.model.accounting import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MICRO,
    NOTHING,
    Amounts,
    Group,
    PeriodUsage,
)
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobRuntime, JobSpec
from storage.interface import Store

INTERVAL_SECONDS = 60.0
GRACE_SECONDS = 20.0
"""Seconds after the end of an hour in which statuses of runs that ended in it may come."""
OTHERS_SECONDS = 20.0
"""Seconds more that the others have to store what came in an hour, where several keep the account."""
SHARED_SECONDS = 1.0
"""The least time between two looks there: hours may be for another one to close."""
MOST_HOURS = 48
"""Hours without a leader that are closed one by one; what came in older ones counts in the first of these."""
JOB_DAYS, HOUR_DAYS, DAY_DAYS = 14, 35, 400
"""Days for which rows of jobs, hours and days are kept."""
TASKS_AT_ONCE = 20_000
"""Tasks that are looked at before other work runs."""
_ROWS = 2000
_LATE_AFTER = 2.0
"""Seconds after which a request for the account takes totals anew."""
SECONDS_OF_POOLS = Counter(
    "jobmgr_usage_seconds",
    "Core, GPU and MB seconds that jobs have held, used, and lost to preemption since the last checkpoint.",
    ["pool", "resource", "what"],
)
log = logging.getLogger(__name__)


class _Total(NamedTuple):
    """What a job has held and used in all."""

    group: Group
    amounts: Amounts
    created: int
    """When the job was, in nanoseconds since 1970."""


class Sharing(NamedTuple):
    """How accounts are kept where other instances keep those of other jobs.

    Each stores the rows of its jobs. One of them closes hours, with the rows of all, when these have had the
    time to be stored. What is stored later counts in the next hour of the job.
    """

    closes: Callable[[], bool]
    """Returns whether this instance closes hours now."""
    check: Callable[[], None]
    """Raises Fenced or Unavailable where this instance may not write now."""


class Accountant:
    """Interprets the ledger. `settle`, `note_end` and `periods` are called by others while `run` runs."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        clock: Clock,
        labels: Collection[str] = (),
        interval: float = INTERVAL_SECONDS,
        grace: float = GRACE_SECONDS,
        sharing: Sharing | None = None,
    ) -> None:
        """Keep accounts apart by `labels` of jobs; take totals every `interval` seconds.

        Without `sharing`, the jobs of the lanes are all there are.
        """
        self._sharing = sharing
        self._store = store
        self._lanes = lanes
        self._clock = clock
        self._labels = frozenset(labels)
        self._interval = interval
        self._grace = grace
        self._ledger = Ledger(_hour(self._now()))
        self._lock = asyncio.Lock()
        self._ready = asyncio.Event()
        self._taken_at = 0.0
        self._ended: dict[JobId, _Total] = {}
        self.courses = JobCourses()
        """What jobs in memory have held and used over time, and those that ended last."""
        self.history = JobHistory(store.history, clock)
        """The same of earlier times."""
        self._new: set[JobId] = set()
        """Jobs that were created in this term, and so have had no account before."""
        self._behind: dict[PoolId, Amounts] = {}

    # --- what others tell and ask ---

    def note_creation(self, job_id: JobId) -> None:
        """Note that a job is new."""
        self._new.add(job_id)

    def note_end(self, job: CachedJob) -> None:
        """Note the total of a job that has ended."""
        self._ended[job.job_id] = self._total(job, self._clock.wall())

    def note_correction(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Note the total of a job whose end was corrected."""
        self.note_end(CachedJob(job_id, spec, runtime))

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Forget jobs whose account another instance keeps from now on."""
        self._ledger.drop(dropped)
        self.courses.drop(dropped)
        self.history.drop(dropped)
        self._new = {job_id for job_id in self._new if not dropped(job_id)}
        self._ended = {job_id: total for job_id, total in self._ended.items() if not dropped(job_id)}

    async def settle(self, jobs: Collection[JobId]) -> None:
        """Store the accounts of jobs that have ended. It is repeated until that succeeds."""
        delays = backoff()
        await self._ready.wait()
        while True:
            try:
                async with self._lock:
                    await self._take_ended(jobs)
                    await self._write()
                    for job_id in jobs:
                        self._ledger.forget(job_id)
                    self._new.difference_update(jobs)
                return
            except TRANSIENT as error:
                log.warning("accounts of %d jobs are not stored yet: %s", len(jobs), error)
            await delays.wait()

    async def open_periods(self) -> Sequence[PeriodUsage]:
        """Return the account of the hour that is open, at most some seconds old."""
        await self._ready.wait()
        async with self._lock:
            now = self._clock.monotonic()
            if now - self._taken_at > _LATE_AFTER and self._now() < self._end:
                await self._take(self._clock.wall())
            if self._sharing is None:
                return self._ledger.open_periods()
            await self._write()
            return await self._periods_of_all()

    # --- the loop ---

    async def run(self) -> NoReturn:
        """Keep the account for ever, once all active jobs are in memory."""
        await self._until_done(self._load)
        self._ready.set()
        while True:
            least = 0.05 if self._sharing is None else SHARED_SECONDS
            await asyncio.sleep(max(min(self._interval, self._end + self._grace - self._now()), least))
            await self._until_done(self._step)

    async def keep_history(self) -> NoReturn:
        """Store for ever what jobs hold and use over time."""
        await self._ready.wait()
        await self.history.run(self._interval, self._check)

    def _check(self) -> None:
        if self._sharing is not None:
            self._sharing.check()

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        delays = backoff()
        while True:
            try:
                async with self._lock:
                    await step()
                return
            except TRANSIENT as error:
                log.warning("the account of jobs is not stored yet: %s", error)
            await delays.wait()

    async def _load(self) -> None:
        """Open the hour after the last that is closed, with what is stored of it."""
        current = _hour(self._now())
        closed = await self._store.usage.closed(HOUR_SECONDS)
        if closed is None:
            closed = current - HOUR_SECONDS
            await self._store.usage.close(HOUR_SECONDS, closed, ())
        ledger = Ledger(closed + HOUR_SECONDS)
        if self._sharing is not None:  # others write most rows: each is read when its job is taken over
            self._ledger = ledger
            return
        async for rows in self._store.usage.of_hour(ledger.hour):
            ledger.load(rows)
        self._ledger = ledger

    async def _step(self) -> None:
        now = self._now()
        while now >= self._end + self._grace:
            await self._take(self._end * NANOSECONDS)
            await self._write()
            if not await self._may_close():
                return
            await self._close()
        if now < self._end:
            await self._take(self._clock.wall())
        self._measure()

    async def _take(self, at: int) -> None:
        """Take the totals of all jobs in memory, and of those that have ended."""
        self._taken_at = self._clock.monotonic()
        await self._take_ended(list(self._ended))
        jobs = self._lanes.in_memory()
        await self._know(job.job_id for job in jobs)
        seen = 0
        for job in jobs:
            if job.job_id in self._ended or self._lanes.job(job.job_id) is None:
                continue  # it has ended meanwhile, or moved
            self._take_total(job.job_id, self._total(job, at), at)
            seen += len(job.tasks)
            if seen >= TASKS_AT_ONCE:
                seen = 0
                await asyncio.sleep(0)

    async def _take_ended(self, jobs: Collection[JobId]) -> None:
        """Take the totals of some of the jobs that have ended."""
        ended = [job_id for job_id in jobs if job_id in self._ended]
        await self._know(ended)
        for job_id in ended:
            found = self._ended.pop(job_id, None)
            if found is not None:
                self._take_total(job_id, found, self._clock.wall())

    def _total(self, job: CachedJob, at: int) -> _Total:
        amounts = account(job, at)
        return _Total(group_of(job.spec, self._labels), amounts, job.runtime.creation_time)

    def _take_total(self, job_id: JobId, total: _Total, at: int) -> None:
        begin = None if self._ledger.knows(job_id) else total.created / NANOSECONDS
        point = self.courses.take(job_id, begin, at / NANOSECONDS, total.amounts)
        if point is not None:
            self.history.add(job_id, point)
        self._ledger.take(job_id, total.group, total.amounts)

    async def _know(self, jobs: Iterable[JobId]) -> None:
        """Read the last accounts of jobs that are not known. Those without one are known from then on."""
        unknown = [each for each in jobs if each not in self._new and not self._ledger.knows(each)]
        for at in range(0, len(unknown), _ROWS):
            some = unknown[at : at + _ROWS]
            self._ledger.know(await self._store.usage.last(some))
            self._new.update(each for each in some if not self._ledger.knows(each))

    async def _write(self) -> None:
        while self._ledger.unstored:
            rows = list(self._ledger.unstored.values())[:_ROWS]
            if self._sharing is not None:
                self._sharing.check()
            await self._store.usage.write(rows)
            self._ledger.stored(rows)

    async def _may_close(self) -> bool:
        """Return whether the open hour is to be closed here. One that another has closed is left."""
        if self._sharing is None:
            return True
        closed = await self._store.usage.closed(HOUR_SECONDS)
        if closed is not None and closed >= self._ledger.hour:
            self._open_next()
            return False
        return self._sharing.closes() and self._now() >= self._end + self._grace + OTHERS_SECONDS

    async def _periods_of_all(self) -> list[PeriodUsage]:
        """Return the open hour's account of all jobs, by the rows that are stored."""
        ledger = Ledger(self._ledger.hour)
        async for rows in self._store.usage.of_hour(ledger.hour):
            ledger.load(rows)
        return ledger.open_periods()

    def _open_next(self) -> None:
        active = {job.job_id for job in self._lanes.in_memory()} | self._ended.keys()
        self._ledger.next_hour(active, _hour(self._now()) - MOST_HOURS * HOUR_SECONDS)

    async def _close(self) -> None:
        """Store the sums of the open hour, and of the day that ends with it; open the next one."""
        ledger, usage = self._ledger, self._store.usage
        periods = ledger.open_periods() if self._sharing is None else await self._periods_of_all()
        await usage.close(HOUR_SECONDS, ledger.hour, periods)
        if self._end % DAY_SECONDS == 0:
            day = self._end - DAY_SECONDS
            hours = [each async for page in usage.periods(HOUR_SECONDS, day, self._end) for each in page]
            await usage.close(DAY_SECONDS, day, summed(hours, DAY_SECONDS, day))
            kept = (self._end - days * DAY_SECONDS for days in (JOB_DAYS, HOUR_DAYS, DAY_DAYS))
            await usage.expire(*kept)
        self._open_next()

    def _measure(self) -> None:
        """Show in /metrics what has come, by pool. A counter waits where a correction has taken something."""
        for pool, more in self._ledger.take_fresh().items():
            self._behind[pool] = self._behind.get(pool, NOTHING).plus(more)
        for pool, amounts in self._behind.items():
            for name, amount in zip(amounts._fields, amounts, strict=True):
                what, resource = name.split("_")
                if amount > 0:
                    SECONDS_OF_POOLS.labels(pool, resource, what).inc(amount / MICRO)
            self._behind[pool] = Amounts(*(min(amount, 0) for amount in amounts))

    @property
    def _end(self) -> int:
        return self._ledger.hour + HOUR_SECONDS

    def _now(self) -> float:
        return self._clock.wall() / NANOSECONDS


def _hour(now: float) -> int:
    return int(now) // HOUR_SECONDS * HOUR_SECONDS
