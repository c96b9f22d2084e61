"""Periodic comparison of the tasks held in memory with the store, and repair of differences.

This daemon and jobmgr learn of a run at different moments. So a difference is repaired only when two
audits in a row have found it (docs/behaviour/recovery.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.model.ids import JobId, Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.task import TaskRuntime
from resmgr.core.state.entities import Task
from resmgr.core.state.task_states import ON_HOST
from resmgr.drivers.loop import Driver
from resmgr.drivers.metrics import REPAIRED
from resmgr.drivers.recovery import Recovery
from resmgr.drivers.store_reader import WAITING, Backlog, Page

log = logging.getLogger(__name__)


class StoreAudit:
    """Compare the tasks with the store, and repair them."""

    def __init__(self, driver: Driver, recovery: Recovery, interval: float) -> None:
        """Audit every `interval` seconds."""
        self._driver = driver
        self._recovery = recovery
        self._interval = interval
        self._before: set[Run] = set()
        """Runs that differed in the last audit."""
        self._differ: set[Run] = set()
        self._repaired: Counter[str] = Counter()

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
        began, self._differ = self._driver.now(), set()
        seen, instances, job_id = set[JobId](), set[int](), ""
        backlog = Backlog()
        async for page in self._recovery.reader.pages():
            if page.job_id != job_id:
                self._check_absent(job_id, instances, began)
                job_id, instances = page.job_id, set()
                seen.add(job_id)
            instances.update(page.runtimes)
            missing: dict[int, TaskRuntime] = {}
            for instance, runtime in page.runtimes.items():
                self._check(page, instance, runtime, missing)
            backlog.add(page, missing)
        self._check_absent(job_id, instances, began)
        for absent in self._driver.scheduler.registry.jobs.keys() - seen:
            self._check_absent(absent, (), began)
        self._note("queued", len(backlog))
        for pool_id, gang in backlog.in_order():
            self._recovery.enqueue(pool_id, gang)
        self._before = self._differ
        self._driver.wake()

    def _check(
        self, page: Page, instance: int, runtime: TaskRuntime, missing: dict[int, TaskRuntime]
    ) -> None:
        """Compare one stored task with the held one; add it to `missing` if it must be queued."""
        known = self._driver.scheduler.registry.current(page.job_id, instance)
        if known is not None and _is_over(known, runtime):
            self._forget(known.key)
        if _is_missing(known, runtime) and self._again(Run(page.job_id, instance, runtime.run)):
            if runtime.state in WAITING:
                missing[instance] = runtime
            elif self._recovery.take_in(page, instance, runtime):
                self._note("taken in")

    def _check_absent(self, job_id: JobId, instances: Collection[int], began: float) -> None:
        """Forget a job's tasks that were held before the audit began and are not stored."""
        job = self._driver.scheduler.registry.jobs.get(job_id)
        tasks = job.tasks.values() if job is not None else ()
        for run in [task.key for task in tasks if task.instance not in instances and task.since < began]:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        if self._again(run):
            self._driver.scheduler.observe(run, TaskState.LOST, self._driver.now())
            self._note("forgotten")

    def _again(self, run: Run) -> bool:
        """Note that a run differs; return whether it did in the last audit."""
        self._differ.add(run)
        return run in self._before

    def _note(self, done: str, tasks: int = 1) -> None:
        REPAIRED.labels(done).inc(tasks)
        self._repaired[done] += tasks

    def _log_repairs(self) -> None:
        """Log the number of repairs by kind: there may be many."""
        for done, tasks in (+self._repaired).items():
            log.warning("%d tasks that differed from the store are %s", tasks, done)
        self._repaired.clear()


def _is_over(known: Task, runtime: TaskRuntime) -> bool:
    if known.run == runtime.run:
        return runtime.state.terminal
    return known.run < runtime.run and known.state in ON_HOST


def _is_missing(known: Task | None, runtime: TaskRuntime) -> bool:
    """Return whether it is stored as on a host or as waiting, and held in an earlier state or not at all."""
    on_host = runtime.state in ON_HOST_TASK_STATES
    if known is None or known.run < runtime.run:
        return on_host or runtime.state in WAITING
    return on_host and known.run == runtime.run and known.state not in ON_HOST
