"""Stored tasks of active jobs, page by page, with their needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from peloton.daemon.progress import Progress
from peloton.errors import InvalidArgument, NotFound
from peloton.model.ids import JobId, PoolId, Run
from peloton.model.job import JobSpec
from peloton.model.states import ON_HOST_TASK_STATES
from peloton.model.task import TaskRuntime
from peloton.wire.resmgr import resmgr_task
from resmgr.core.restoring import WAITING
from resmgr.core.state.needs import Needs, NewAlone, NewTask
from resmgr.wire.tasks import Translator
from storage.interface import Jobs, Tasks

JOBS_AT_ONCE = 16
"""Jobs whose first pages are read together: each takes a few round trips to the store."""
ALIKE_AT_ONCE = 500
"""Gangs of one that are queued together, before other work runs."""
log = logging.getLogger(__name__)


class SpecVersion:
    """One version of a job's spec. Instances without overrides and volumes share their needs."""

    def __init__(self, translator: Translator, job_id: JobId, spec: JobSpec) -> None:
        self._translator = translator
        self.job_id = job_id
        self.spec = spec
        self._shared: dict[bool, Needs] = {}
        """Of instances without needs of their own, by whether they are extras of an elastic gang."""

    def readable_needs(self, instance: int, runtime: TaskRuntime) -> Needs | None:
        """Return the run's needs; log and return None where they cannot be read."""
        try:
            return self._needs(instance, runtime)
        except InvalidArgument as wrong:
            log.error("%s-%d-%d is not queued again: %s", self.job_id, instance, runtime.run, wrong)
            return None

    def new_task(self, instance: int, runtime: TaskRuntime) -> NewTask:
        """Return the stored run with its needs. Raises InvalidArgument."""
        size = self.spec.gang_size_of(instance)
        needs = self._needs(instance, runtime)
        return NewTask(self.job_id, instance, runtime.run, needs, runtime.desired_host, size)

    def readable(self, instance: int, runtime: TaskRuntime) -> NewTask | None:
        """Return the run; log and return None where it cannot be read."""
        return None if self.readable_needs(instance, runtime) is None else self.new_task(instance, runtime)

    def _needs(self, instance: int, runtime: TaskRuntime) -> Needs:
        special = self.spec.task(instance).stateful or bool(runtime.avoided_hosts)
        own = special or instance in self.spec.overrides
        extra = self.spec.is_extra(instance)
        if not own and extra in self._shared:
            return self._shared[extra]
        needs = self._translator.needs(resmgr_task(self.job_id, self.spec, instance, runtime))
        if not own:
            self._shared[extra] = needs
        return needs


@dataclass(frozen=True, slots=True)
class Page:
    """Instances of one job that have the same config."""

    job_id: JobId
    config: SpecVersion
    runtimes: Mapping[int, TaskRuntime]

    @property
    def pool_id(self) -> PoolId:
        """Return the job's pool."""
        return self.config.spec.pool_id

    def on_hosts(self) -> list[tuple[int, TaskRuntime]]:
        """Return the tasks that are on hosts."""
        return [each for each in self.runtimes.items() if each[1].state in ON_HOST_TASK_STATES]

    def waiting(self) -> dict[int, TaskRuntime]:
        """Return the tasks that must be enqueued again."""
        return {instance: task for instance, task in self.runtimes.items() if task.state in WAITING}


@dataclass(slots=True)
class Waiting:
    """The waiting tasks of one job."""

    pool_id: PoolId
    since: int
    """Nanoseconds since 1970: when the first of them began to wait."""
    together: list[NewTask] = field(default_factory=list)
    """Of the gang of several, which may be spread over pages."""
    alone: list[tuple[SpecVersion, list[int], list[TaskRuntime]]] = field(default_factory=list)
    """The others, by page: instances and, in the same order, their runtimes, of which many are shared."""

    def __len__(self) -> int:
        """Return the number of gangs."""
        return sum(len(instances) for _, instances, _ in self.alone) + bool(self.together)

    def gangs(self) -> Iterator[list[NewTask] | NewAlone]:
        """Iterate over gangs, those of one in groups; log and leave out tasks that cannot be read."""
        if self.together:
            yield self.together
        for config, instances, runtimes in self.alone:
            yield from _alike(config, zip(instances, runtimes, strict=True))


def _alike(config: SpecVersion, tasks: Iterable[tuple[int, TaskRuntime]]) -> Iterator[NewAlone]:
    """Group tasks in their order: neighbours that need the same, at most ALIKE_AT_ONCE."""
    group: list[tuple[int, int, str]] = []
    shared: Needs | None = None
    for instance, runtime in tasks:
        needs = config.readable_needs(instance, runtime)
        if needs is None:
            continue
        if shared is not None and (needs is not shared or len(group) == ALIKE_AT_ONCE):
            yield NewAlone(config.job_id, shared, group)
            group = []
        shared = needs
        group.append((instance, runtime.run, runtime.desired_host))
    if shared is not None:
        yield NewAlone(config.job_id, shared, group)


def _since(job: Waiting) -> float:
    return job.since


class Backlog:
    """The waiting tasks of all jobs. There may be a million: each takes two places in a list."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, Waiting] = {}

    def __len__(self) -> int:
        """Return the number of gangs."""
        return sum(map(len, self._jobs.values()))

    def add(self, page: Page, tasks: Mapping[int, TaskRuntime]) -> None:
        """Add waiting tasks of a page; log and leave out those that cannot be read."""
        if not tasks:
            return
        since = min({id(runtime): runtime.updated_at for runtime in tasks.values()}.values())
        job = self._jobs.get(page.job_id)
        if job is None:
            job = self._jobs[page.job_id] = Waiting(page.pool_id, since)
        job.since = min(job.since, since)
        config = page.config
        together = [instance for instance in tasks if config.spec.in_gang(instance)]
        found = (config.readable(instance, tasks[instance]) for instance in together)
        job.together += (new for new in found if new is not None)
        if together:
            tasks = {instance: task for instance, task in tasks.items() if not config.spec.in_gang(instance)}
        job.alone.append((config, list(tasks), list(tasks.values())))

    def in_order(self) -> Iterator[tuple[PoolId, list[NewTask] | NewAlone]]:
        """Iterate over gangs, beginning with the job that has waited longest."""
        for job in sorted(self._jobs.values(), key=_since):
            for gang in job.gangs():
                yield job.pool_id, gang


class Reader:
    """Read the store."""

    def __init__(self, jobs: Jobs, tasks: Tasks, translator: Translator) -> None:
        self._jobs = jobs
        self._tasks = tasks
        self._translator = translator

    async def pages(self, begin: Callable[[int], Progress] | None = None) -> AsyncIterator[Page]:
        """Iterate over the instances of all active jobs, job by job; leave out a job deleted meanwhile.

        `begin` receives the number of jobs. Raises Unavailable where the store cannot be read.
        """
        jobs = await self._jobs.active()
        progress = begin(len(jobs)) if begin is not None else None
        for at in range(0, len(jobs), JOBS_AT_ONCE):
            readers = [self._of_job(job_id) for job_id in jobs[at : at + JOBS_AT_ONCE]]
            first_pages = await asyncio.gather(*(_next(reader) for reader in readers))
            for reader, page in zip(readers, first_pages, strict=True):
                while page is not None:
                    if progress is not None:
                        progress.tasks(len(page.runtimes))
                    following = asyncio.create_task(_next(reader))
                    try:
                        yield page
                    except BaseException:
                        following.cancel()
                        raise
                    page = await following
                if progress is not None:
                    progress.job()
        if progress is not None:
            progress.done()

    async def page_of(self, run: Run) -> Page | None:
        """Return a page with the instance of a run; None where another run of it is stored, or none."""
        try:
            runtime = await self._tasks.get(run.job_id, run.instance)
            if runtime.run != run.run:
                return None
            spec = await self._jobs.config(run.job_id, runtime.config_version)
        except NotFound:
            return None
        return Page(run.job_id, SpecVersion(self._translator, run.job_id, spec), {run.instance: runtime})

    async def _of_job(self, job_id: JobId) -> AsyncIterator[Page]:
        configs: dict[int, SpecVersion] = {}
        try:
            async for runtimes in self._tasks.list(job_id):
                for version, group in _by_version(runtimes).items():
                    if version not in configs:
                        spec = await self._jobs.config(job_id, version)
                        configs[version] = SpecVersion(self._translator, job_id, spec)
                    yield Page(job_id, configs[version], group)
        except NotFound as missing:
            log.warning("job %s is left out: %s", job_id, missing)


async def _next(pages: AsyncIterator[Page]) -> Page | None:
    return await anext(pages, None)


def _by_version(runtimes: Mapping[int, TaskRuntime]) -> dict[int, dict[int, TaskRuntime]]:
    groups: dict[int, dict[int, TaskRuntime]] = {}
    for instance, runtime in runtimes.items():
        groups.setdefault(runtime.config_version, {})[instance] = runtime
    return groups
