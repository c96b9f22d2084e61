"""The goal-state engine as the services see it: what is asked is stored when a call returns, and the
engine brings it about afterwards.

Reading is from `job` (active jobs, in memory, always what is stored) or `load` (any job).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import JobUpdated, RestartAsked, StartAsked, StopAsked
from jobmgr.core.task.actions import Limits
from jobmgr.engine.finished_jobs import Archive
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.outbox import Outbox, Queue
from jobmgr.engine.recovery import Recovery, read_job
from peloton.clock import Clock, SystemClock
from peloton.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable
from peloton.model.ids import JobId, Run
from peloton.model.job import JobRuntime, JobSpec, JobSummary
from peloton.model.states import JobState, JobType
from peloton.model.task import TaskStatus
from storage.interface import Fence, Store, unfenced

VERSIONS_TRIED = 1000
"""One more for each update that was cut off between storing its config and making it the current one."""
LOOKS = (0.0, 1.0, 5.0)
"""Seconds before each look for a job of which nobody could tell whether it was stored: it may come late."""


class Engine:
    """Runs jobs towards their goals. All calls raise Unavailable while the store cannot answer, and
    Fenced where this process is no longer the leader."""

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        limits: Limits | None = None,
        lanes: int = 1,
        fence: Fence = unfenced,
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.outbox = Outbox()
        self.lanes = Lanes(lanes, limits, store, self.clock, self.outbox, fence)
        self.recovery = Recovery(store, self.lanes)
        self.doubtful: Queue[JobId] = Queue()
        """Jobs that may be stored, though whoever created them was told of a failure."""
        self._archive = Archive(self.lanes)
        self._creating: dict[asyncio.Task[None], JobId] = {}

    async def create_job(self, job_id: JobId, spec: JobSpec) -> None:
        """Store a new job (`spec.version` 1) and start it; its tasks' rows follow in the background. A caller
        who does not wait for the end breaks nothing off.

        Raises AlreadyExists."""
        now = self.clock.wall()
        runtime = JobRuntime(
            state=JobState.INITIALIZED,
            goal=JobState.SUCCEEDED if spec.type is JobType.BATCH else JobState.RUNNING,
            config_version=spec.version,
            creation_time=now,
            updated_at=now,
        )
        creating = asyncio.create_task(self._create(job_id, spec, runtime))
        self._creating[creating] = job_id
        creating.add_done_callback(self._creating.pop)
        await asyncio.shield(creating)

    async def _create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        try:
            await self.store.jobs.create(job_id, spec, runtime)
        except AlreadyExists:
            await self.find(job_id)
            raise
        except Unavailable:
            self.doubtful.put([job_id])
            raise
        self.lanes.create(job_id, spec, runtime)

    async def update_job(self, job_id: JobId, spec: JobSpec) -> None:
        """Take the next version of the config (`spec.version` = the current one + 1), which only adds
        instances: whoever calls has checked that.

        Raises NotFound, Conflict where the version is not the next one, Refused where the job has ended."""
        job = await self.find(job_id)
        if job is None:
            await self._refuse_ended(job_id, "update")
            return
        base = spec.version - 1
        if base != job.spec.version:
            raise Conflict(f"the config is at version {job.spec.version}, not {base}")
        stored = await self._store_version(job_id, spec)
        await self.lanes.ask(JobUpdated(job_id, stored, base))

    async def stop(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Make the goal KILLED: of the whole job (None), or of these instances.

        Returns the instances that had not ended and now have the goal KILLED, in order. Those that have
        ended, and those that are not there, are left out. A job that has ended: empty. Raises NotFound."""
        if await self.find(job_id) is None:
            return []
        stopped: list[int] = await self.lanes.ask(StopAsked(job_id, instances))
        return stopped

    async def start(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Give instances whose goal is KILLED a new run (None: all of them). Returns those that get one.

        Raises NotFound, and Refused where the job has ended or is being stopped as a whole."""
        if await self.find(job_id) is None:
            await self._refuse_ended(job_id, "start tasks of")
        started: list[int] = await self.lanes.ask(StartAsked(job_id, instances))
        return started

    async def restart(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Stop the current run and start the next one, whatever the retry policy (None: all instances).
        Instances whose goal is KILLED are left out. Returns those that are restarted.

        Raises NotFound, and Refused where the job has ended or is being stopped as a whole."""
        if await self.find(job_id) is None:
            await self._refuse_ended(job_id, "restart tasks of")
        restarted: list[int] = await self.lanes.ask(RestartAsked(job_id, instances))
        return restarted

    async def delete(self, job_id: JobId) -> None:
        """Forget a job that has ended, and all that is stored of it.

        Raises NotFound("job not found") and Refused("Job is not in a terminal state: <state>")."""
        await self.recovery.read(job_id)
        job = self.job(job_id)
        try:
            state = job.runtime.state if job else (await self.store.jobs.runtime(job_id)).state
        except NotFound:
            if job_id not in self._creating.values():  # a deletion that was cut off may have left something
                await self._archive.delete(job_id)
            raise NotFound("job not found") from None
        if not state.terminal:
            raise Refused(f"Job is not in a terminal state: {state.name}")
        await self._archive.delete(job_id)

    async def fill_in(self, told: Iterable[tuple[Run, TaskStatus]]) -> None:
        """Take what agents tell late of the ends of runs of jobs that have ended."""
        await self._archive.fill_in(told)

    async def refresh(self, job_id: JobId) -> None:
        """Read the job from the store again and look at each task's goal anew. A job that has ended: nothing.
        Raises NotFound."""
        if await self.find(job_id) is None:
            self._archive.drop(job_id)
            return
        await self.lanes.between(job_id, lambda: self._read_again(job_id))

    async def refresh_tasks(self, job_id: JobId, first: int = 0, end: int | None = None) -> None:
        """As `refresh`, for instances first … end-1, and those beside them. Raises NotFound."""
        await self.refresh(job_id)

    def job(self, job_id: JobId) -> CachedJob | None:
        """An active job, not to be changed; None where the job has ended or is not there, and where its tasks
        are still to be read: then nothing is newer than what is stored."""
        return self.lanes.job(job_id)

    async def find(self, job_id: JobId) -> CachedJob | None:
        """An active job, not to be changed; None where it has ended. One that is stored and not known here,
        because the store could not tell that it had stored it, is taken on. Raises NotFound."""
        await self.recovery.read(job_id)
        if self.job(job_id) is None and not (await self.store.jobs.runtime(job_id)).state.terminal:
            await self.lanes.between(job_id, lambda: self._take(job_id))
        return self.job(job_id)

    async def load(self, job_id: JobId) -> CachedJob:
        """Any job with all its tasks: from memory, or from the store where it has ended. Raises NotFound."""
        await self.recovery.read(job_id)
        return self.job(job_id) or await self._archive.load(job_id)

    async def summary(self, job_id: JobId) -> JobSummary:
        """Any job's spec and runtime without its tasks: cheaper than `load` for a finished one. Raises
        NotFound."""
        job = self.job(job_id) or self._archive.held(job_id)
        if job is not None:
            return JobSummary(job_id, job.spec, job.runtime)
        runtime = await self.store.jobs.runtime(job_id)
        return JobSummary(job_id, await self.store.jobs.config(job_id, runtime.config_version), runtime)

    def active_jobs(self) -> list[JobId]:
        """Ids of the jobs that have not ended."""
        return self.lanes.jobs()

    async def _store_version(self, job_id: JobId, spec: JobSpec) -> JobSpec:
        """A version that an earlier attempt left behind without making it the current one is passed over."""
        for version in range(spec.version, spec.version + VERSIONS_TRIED):
            try:
                stored = replace(spec, version=version)
                await self.store.jobs.add_config(job_id, stored)
                return stored
            except AlreadyExists:
                continue
        raise Conflict(f"config versions {spec.version} to {version} exist already")

    async def _refuse_ended(self, job_id: JobId, what: str) -> None:
        runtime = await self.store.jobs.runtime(job_id)
        raise Refused(f"cannot {what} a job that has ended: it is {runtime.state.name}")

    async def _take(self, job_id: JobId) -> None:
        if self.job(job_id) is None:
            self.lanes.lane(job_id).core.active.recover(await read_job(self.store, job_id))

    async def _read_again(self, job_id: JobId) -> None:
        if self.job(job_id) is not None:
            self.lanes.lane(job_id).core.active.refresh(await read_job(self.store, job_id))
