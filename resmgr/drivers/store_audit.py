"""Periodic comparison of the tasks held in memory with the store, and repair of differences."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.model.ids import JobId
from resmgr.core.auditing import Audit
from resmgr.drivers.loop import Driver
from resmgr.drivers.metrics import REPAIRED
from resmgr.drivers.recovery import Recovery
from resmgr.drivers.store_reader import Backlog

log = logging.getLogger(__name__)


class StoreAudit:
    """Compare the tasks with the store, and repair them."""

    def __init__(self, driver: Driver, recovery: Recovery, interval: float) -> None:
        """Audit every `interval` seconds."""
        self._driver = driver
        self._recovery = recovery
        self._interval = interval
        self._audit = Audit(driver.scheduler)

    async def run(self) -> NoReturn:
        """Audit periodically, once all stored tasks are known."""
        await self._driver.recovered.wait()
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.audit()
            except PelotonError as error:
                log.warning("no audit of the store: %s", error)
            self._log_repairs()

    async def audit(self) -> None:
        """Compare all tasks once. Raises Unavailable where the store cannot be read."""
        audit, now = self._audit, self._driver.now
        audit.begin(now())
        seen, instances, job_id = set[JobId](), set[int](), ""
        backlog = Backlog()
        async for page in self._recovery.reader.pages():
            if page.job_id != job_id:
                audit.check_absent(job_id, instances, now())
                job_id, instances = page.job_id, set()
                seen.add(job_id)
            instances.update(page.runtimes)
            missing = audit.compare(job_id, page.runtimes, now())
            for instance, runtime in missing.take_in.items():
                if self._recovery.take_in(page, instance, runtime):
                    audit.note("taken in")
            backlog.add(page, missing.queue)
        audit.check_absent(job_id, instances, now())
        audit.check_absent_jobs(seen, now())
        audit.note("queued", len(backlog))
        for pool_id, gang in backlog.in_order():
            self._recovery.enqueue(pool_id, gang)
        audit.end()
        self._driver.wake()

    def _log_repairs(self) -> None:
        """Count and log the repairs by kind: there may be many."""
        repaired = self._audit.repaired
        for done, tasks in (+repaired).items():
            REPAIRED.labels(done).inc(tasks)
            log.warning("%d tasks that differed from the store are %s", tasks, done)
        repaired.clear()
