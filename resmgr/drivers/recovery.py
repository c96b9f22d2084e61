"""Recovery from the store: at the start of leadership, and after missed events (docs/behaviour/recovery.md).

The store knows only the current run of each instance. So a new leader has no orphans: jobmgr kills an earlier
run that still lives, as Mesos reports it; until then it runs without allocation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

from peloton.backoff import Backoff
from peloton.daemon.progress import TELL_SECONDS, Gauges, Progress
from peloton.errors import NotFound, Refused, Unavailable
from peloton.model.ids import JobId, PoolId, Run
from peloton.model.task import TaskRuntime
from resmgr.core import restoring
from resmgr.core.state.needs import NewAlone, NewTask
from resmgr.core.state.pool import Pool
from resmgr.drivers.loop import Driver
from resmgr.drivers.metrics import SETTLED
from resmgr.drivers.store_reader import Backlog, Page, Reader
from storage.interface import Jobs, Tasks

_AT_ONCE = 500
"""Tasks taken in, or gangs queued, before other work runs."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between tries to read what is stored."""
GAUGES = Gauges("resmgr")
log = logging.getLogger(__name__)


class Recovery:
    """Bring the scheduler to the stored state. Never writes to the store."""

    def __init__(self, driver: Driver, jobs: Jobs, tasks: Tasks, log_interval: float = TELL_SECONDS) -> None:
        """Log the progress every `log_interval` seconds."""
        self._driver = driver
        self.reader = Reader(jobs, tasks, driver.translator)
        self._backlog = Backlog()
        self._log_interval = log_interval
        SETTLED.set(0)

    async def run(self) -> None:
        """Recover while calls are answered: first tasks on hosts, so that admission may begin."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                await self.restore()
                break
            except Unavailable as error:
                log.warning("cannot read what is stored, will try again: %s", error)
            await backoff.wait()
        await self.requeue()
        await asyncio.Event().wait()

    async def restore(self) -> None:
        """Take in the tasks on hosts, with their allocation, and keep the waiting ones for `requeue`.

        Raises Unavailable where the store cannot be read.
        """
        count = 0
        self._backlog = Backlog()
        async for page in self.reader.pages(self._progress):
            count += await self._restore_page(page)
            self._backlog.add(page, page.waiting())
        log.info("%d tasks are on hosts, %d gangs wait", count, len(self._backlog))
        self._driver.restored.set()

    async def requeue(self) -> None:
        """Queue the waiting tasks in the background. A run that was enqueued meanwhile stays as it is."""
        driver, began, done, rested = self._driver, self._driver.now(), 0, 0
        for pool_id, new in self._backlog.in_order():
            self.enqueue(pool_id, new)
            done += len(new) if isinstance(new, NewAlone) else 1
            if done - rested >= _AT_ONCE:
                rested = done
                driver.wake()
                await asyncio.sleep(0)
        self._backlog = Backlog()
        driver.wake()
        driver.recovered.set()
        SETTLED.set(1)
        log.info("%d gangs are queued again, in %.1f s", done, driver.now() - began)

    def enqueue(self, pool_id: PoolId, new: list[NewTask] | NewAlone) -> None:
        """Queue a gang, or gangs of one; log what cannot be queued."""
        job_id = new.job_id if isinstance(new, NewAlone) else new[0].job_id
        pool = self._pool(pool_id, job_id)
        if pool is None:
            return
        scheduler, now = self._driver.scheduler, self._driver.now()
        try:
            if isinstance(new, NewAlone):
                scheduler.enqueue_alone(pool, new, now)
            else:
                scheduler.enqueue(pool, new, now)
        except Refused as refused:
            log.error("job %s is not queued again: %s", job_id, refused)

    async def resync(self) -> None:
        """Read the effects of missed events from the store. The stream is read from its start then."""
        await self._driver.recovered.wait()
        before = self.held()
        stored: dict[JobId, set[int]] = {}
        count = 0
        async for page in self.reader.pages():
            stored.setdefault(page.job_id, set()).update(page.runtimes)
            count += await self._restore_page(page)
            count += self.forget_ended(page)
        count += self.forget_absent(before, stored)
        self._driver.wake()
        log.info("%d tasks had changed during the missed events", count)

    async def _restore_page(self, page: Page) -> int:
        """Take in the tasks on hosts; return how many were not known as such."""
        count = 0
        for done, (instance, runtime) in enumerate(page.on_hosts(), 1):
            count += self.take_in(page, instance, runtime)
            if not done % _AT_ONCE:
                await asyncio.sleep(0)
        return count

    def take_in(self, page: Page, instance: int, runtime: TaskRuntime) -> bool:
        """Take in a task on a host; return whether it was not known as such."""
        scheduler, clock = self._driver.scheduler, self._driver.clock
        moment = restoring.Moment(clock.monotonic(), clock.wall())
        if not restoring.is_unknown_on_host(scheduler, page.job_id, instance, runtime.run):
            run = Run(page.job_id, instance, runtime.run)
            return restoring.observe_on_host(scheduler, run, runtime, moment)
        pool = self._pool(page.pool_id, page.job_id)
        if pool is None:
            return False
        new = page.config.new_task(instance, runtime)
        return restoring.take_in(scheduler, pool, new, runtime, moment)

    def forget_ended(self, page: Page) -> int:
        """Forget the runs that have ended according to the store; return how many."""
        driver = self._driver
        return restoring.forget_ended(driver.scheduler, page.job_id, page.runtimes, driver.now())

    def held(self) -> list[Run]:
        """Return the runs known to be on hosts, orphans included."""
        return restoring.held(self._driver.scheduler)

    def forget_absent(self, before: Iterable[Run], stored: Mapping[JobId, Collection[int]]) -> int:
        """Forget runs held before the store was read that it does not list; return how many."""
        return restoring.forget_absent(self._driver.scheduler, before, stored, self._driver.now())

    def _pool(self, pool_id: PoolId, job_id: JobId) -> Pool | None:
        try:
            return self._driver.scheduler.tree.get(pool_id)
        except NotFound as missing:
            log.error("job %s is left out: %s", job_id, missing)
            return None

    def _progress(self, jobs: int) -> Progress:
        return Progress(GAUGES, log, self._driver.now, jobs, self._log_interval)
