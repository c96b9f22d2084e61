"""Reads the store: at the start of leadership, and after events were missed (behaviour 8). Never writes.

The store knows the current run of each instance only. So a new leader has no orphans: an earlier run that
still lives is jobmgr's to kill, which hears of it from Mesos (behaviour 3.2); until then it runs without
allocation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from peloton.errors import NotFound, Refused
from peloton.model.ids import JobId, PoolId, Run
from peloton.model.job import JobSpec
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.task import TaskRuntime
from peloton.wire.resmgr import resmgr_gangs, resmgr_task
from resmgr.core.pools import Pool
from resmgr.core.scheduler import NewTask
from resmgr.core.tasks import ON_HOST
from resmgr.driver import Driver
from resmgr.translate import gangs_from
from storage.interface import Jobs, Tasks

WAITING = frozenset(
    {
        TaskState.PENDING,
        TaskState.READY,
        TaskState.PLACING,
        TaskState.PLACED,
        TaskState.LAUNCHING,
        TaskState.RESERVED,
    }
)
"""States that are enqueued again; INITIALIZED ones are jobmgr's to enqueue."""
_AT_ONCE = 500
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Page:
    """Instances of one job by their config."""

    job_id: JobId
    spec: JobSpec
    runtimes: Mapping[int, TaskRuntime]


class Recovery:
    def __init__(self, driver: Driver, jobs: Jobs, tasks: Tasks) -> None:
        self._driver = driver
        self._jobs = jobs
        self._tasks = tasks
        self._backlog: list[tuple[PoolId, list[NewTask]]] = []

    async def restore(self) -> None:
        """The tasks that are on hosts, with their allocation; those that wait are kept for `requeue`. Raises
        Unavailable where the store cannot tell."""
        count = 0
        async for page in self._pages():
            count += self._restore_page(page)
        log.info("%d tasks are on hosts, %d gangs wait", count, len(self._backlog))

    async def run(self) -> None:
        """The background part."""
        await self.requeue()
        await asyncio.Event().wait()

    async def requeue(self) -> None:
        """What waited, in the background. A run that was enqueued meanwhile is left as it is."""
        driver, backlog = self._driver, self._backlog
        for done, (pool_id, gang) in enumerate(backlog):
            pool = self._pool(pool_id, gang)
            if pool is not None:
                try:
                    driver.scheduler.enqueue(pool, gang, driver.now())
                except Refused as refused:
                    log.error("job %s is not queued again: %s", gang[0].job_id, refused)
            if done % _AT_ONCE == _AT_ONCE - 1:
                driver.touched()
                await asyncio.sleep(0)
        self._backlog = []
        driver.touched()
        driver.recovered.set()

    async def resync(self) -> None:
        """After events were missed: the store has what they said. The stream is read from its start then."""
        await self._driver.recovered.wait()
        before = self._held()
        stored: dict[JobId, set[int]] = {}
        count = 0
        async for page in self._pages():
            stored.setdefault(page.job_id, set()).update(page.runtimes)
            count += self._restore_page(_Page(page.job_id, page.spec, self._on_host(page)))
            count += self._settle_page(page)
        count += self._forget_absent(before, stored)
        self._driver.touched()
        log.info("%d tasks had changed unseen", count)

    def _on_host(self, page: _Page) -> dict[int, TaskRuntime]:
        return {i: runtime for i, runtime in page.runtimes.items() if runtime.state in ON_HOST_TASK_STATES}

    def _restore_page(self, page: _Page) -> int:
        """Take in what is on hosts, put by what waits; how many were on hosts."""
        on_host = self._on_host(page)
        pool = self._pool(page.spec.pool_id, page.job_id) if on_host else None
        for instance, runtime in on_host.items() if pool is not None else ():
            assert pool is not None
            wire = resmgr_task(page.job_id, page.spec, instance, runtime)
            new = self._driver.translator.new_task(wire)
            self._take_in(pool, new, runtime)
        waiting = {i: runtime for i, runtime in page.runtimes.items() if runtime.state in WAITING}
        gangs, failed = gangs_from(resmgr_gangs(page.job_id, page.spec, waiting), self._driver.translator)
        for task in failed:
            log.error("%s is not queued again: %s", task.task.taskId.value, task.message)
        self._backlog += [(page.spec.pool_id, gang) for gang in gangs]
        return len(on_host)

    def _take_in(self, pool: Pool, new: NewTask, runtime: TaskRuntime) -> None:
        scheduler, now = self._driver.scheduler, self._driver.now()
        known = scheduler.registry.current(new.job_id, new.instance)
        if known is not None and known.run == new.run:
            if known.state not in ON_HOST:
                scheduler.observe(Run(new.job_id, new.instance, new.run), runtime.state, now)
            return
        scheduler.restore(pool, new, runtime.state, runtime.host, now)

    def _settle_page(self, page: _Page) -> int:
        """Forget the runs that the store says are over."""
        scheduler, count = self._driver.scheduler, 0
        for instance, runtime in page.runtimes.items():
            known = scheduler.registry.current(page.job_id, instance)
            if known is None:
                continue
            ended = known.run == runtime.run and runtime.state.terminal
            if ended or (known.run < runtime.run and known.state in ON_HOST):
                scheduler.observe(known.key, TaskState.LOST, self._driver.now())
                count += 1
        return count

    def _held(self) -> list[Run]:
        """Runs that are on hosts, as far as is known here, orphans included."""
        registry = self._driver.scheduler.registry
        return [*(task.key for task in registry if task.state in ON_HOST), *registry.orphans]

    def _forget_absent(self, before: Iterable[Run], stored: Mapping[JobId, set[int]]) -> int:
        """Of the runs held before the store was read, forget those that are on no list any more, and
        orphans, whose end may have been among what was missed."""
        scheduler, count = self._driver.scheduler, 0
        for run in before:
            if run in scheduler.registry.orphans or run.instance not in stored.get(run.job_id, ()):
                count += scheduler.observe(run, TaskState.LOST, self._driver.now())
        return count

    def _pool(self, pool_id: PoolId, subject: object) -> Pool | None:
        try:
            return self._driver.scheduler.tree.get(pool_id)
        except NotFound as missing:
            log.error("%s is left out: %s", subject, missing)
            return None

    async def _pages(self) -> AsyncIterator[_Page]:
        """Instances of all active jobs, with their configs. A job deleted meanwhile is left out."""
        for job_id in await self._jobs.active():
            specs: dict[int, JobSpec] = {}
            try:
                async for runtimes in self._tasks.list(job_id):
                    for version, group in _by_version(runtimes).items():
                        if version not in specs:
                            specs[version] = await self._jobs.config(job_id, version)
                        yield _Page(job_id, specs[version], group)
            except NotFound as missing:
                log.warning("job %s is left out: %s", job_id, missing)


def _by_version(runtimes: Mapping[int, TaskRuntime]) -> dict[int, dict[int, TaskRuntime]]:
    groups: dict[int, dict[int, TaskRuntime]] = {}
    for instance, runtime in runtimes.items():
        groups.setdefault(runtime.config_version, {})[instance] = runtime
    return groups
