"""The goal-state engine, as the services call it.

A request is stored when its call returns, and is carried out afterwards. Active jobs are read with `job`,
from memory, which is always what is stored; any job with `load`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.decisions import Relocated
from jobmgr.core.state.events import (
    JobUpdated,
    PauseAsked,
    ReleaseRequested,
    RelocationRequested,
    RestartRequested,
    ReuseRequested,
    ScheduleMoved,
    StartRequested,
    StopRequested,
    SuspensionAsked,
    VolumeDeletionRequested,
)
from jobmgr.core.state.instructions import DestroyVolume
from jobmgr.core.state.limits import Limits
from jobmgr.engine import job_log
from jobmgr.engine.accounts import Accounts, NoAccounts
from jobmgr.engine.elsewhere import Elsewhere, Nowhere
from jobmgr.engine.finished_jobs import FinishedJobs
from jobmgr.engine.held_shards import HeldShards
from jobmgr.engine.job_ends import JobEnds
from jobmgr.engine.lane import MOVED, Drops, JobFence, unfenced_job
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.lockdown import Lockdown
from jobmgr.engine.outbox import Outbox, Queue
from jobmgr.engine.read_ahead import ReadAhead
from jobmgr.engine.recovery import Recovery, read_job
from jobmgr.engine.traces import trace_creation
from peloton.clock import NANOSECONDS, Clock, SystemClock
from peloton.daemon.tracing import TRACES
from peloton.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable
from peloton.identity.principal import author
from peloton.model.ids import JobId, PoolId, Run
from peloton.model.job import JobPage, JobQuery, JobRuntime, JobSpec, JobSummary
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.plural import plural
from peloton.model.schedule import ScheduleState
from peloton.model.shard import shard_of
from peloton.model.states import JobState, JobType
from peloton.model.task import TaskStatus
from peloton.model.volume import VolumeId, VolumeState
from peloton.model.workflow import Workflow
from storage.interface import Store

MAX_VERSION_TRIES = 1000
"""An update that was interrupted after storing its config leaves an unused version behind."""
ADOPTION_DELAYS = (0.0, 1.0, 5.0)
"""Seconds before each look for a job whose creation has an unknown outcome: the write may arrive late."""


class Engine:
    """Runs jobs towards their goals.

    All calls raise Unavailable while the store cannot answer, and Fenced where this process is no longer the
    leader.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        limits: Limits | None = None,
        lanes: int = 1,
        fence: JobFence = unfenced_job,
        ahead: ReadAhead | None = None,
        shards: HeldShards | None = None,
    ) -> None:
        """Recover from the store, and from what was read ahead of the term.

        Without `shards`, the engine has all of them. With them, it has those that are opened, and calls about
        jobs of others raise Unavailable.
        """
        self.store = store
        self.clock = clock or SystemClock()
        self.lockdown = Lockdown(store)
        self.limits = limits or Limits()
        self.outbox = Outbox(self.lockdown)
        self.shards = shards or HeldShards()
        self.lanes = Lanes(lanes, self.limits, store, self.clock, self.outbox, fence, shards=self.shards)
        self.lanes.on_drop = self._forgotten
        self.recovery = Recovery(store, self.lanes, ahead=ahead)
        self.unconfirmed: Queue[JobId] = Queue()
        """Jobs that may be stored although their creation failed."""
        self.on_delete: Callable[[JobId], None] | None = None
        """Called with each job that is deleted."""
        self.accounts: Accounts = NoAccounts()
        """Is told of new jobs, and of those that have ended."""
        self.ends = JobEnds()
        """Who waits for the ends of which jobs."""
        self.schedule_ends = JobEnds()
        """Which jobs have schedules, and which runs of theirs live."""
        self.elsewhere: Elsewhere = Nowhere()
        """What is asked of the owners of other jobs."""
        self.jobs_of_all: Callable[[JobQuery], Awaitable[JobPage]] | None = None
        """Answers queries over the jobs of all instances; None: the store does."""
        self.losses_of_all: Callable[[], Awaitable[Mapping[PoolId, float]]] | None = None
        """Adds up what the jobs of all instances have lost; None: the store does."""
        self._finished = FinishedJobs(self.lanes, self._on_end, self._on_correction)
        self._creating: dict[asyncio.Task[None], JobId] = {}
        self.finish_launches: Callable[[int], Awaitable[None]] = _finished
        """Waits until no launch of a shard is queued or under way; the drivers set it."""

    async def create_job(
        self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS, *, suspended: bool = False
    ) -> None:
        """Store a new job (`spec.version` 1) and start it; the rows of its tasks follow in the background.

        `secrets` are the contents that the spec's payload refers to. A `suspended` job gets no tasks yet.

        The creation goes on where the caller is cancelled. Raises AlreadyExists.
        """
        now = self.clock.wall()
        runtime = JobRuntime(
            state=JobState.INITIALIZED,
            goal=JobState.SUCCEEDED if spec.type is JobType.BATCH else JobState.RUNNING,
            config_version=spec.version,
            creation_time=now,
            updated_at=now,
            unmet=tuple(each.job_id for each in spec.depends_on),
            suspended=now if suspended else 0,
        )
        await self.start_creating(job_id, spec, runtime, None, secrets)

    async def start_creating(
        self,
        job_id: JobId,
        spec: JobSpec,
        runtime: JobRuntime,
        workflow: Workflow | None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> None:
        """Store a new job and take it on. A caller who does not wait for the end breaks nothing off.

        Raises AlreadyExists.
        """
        await self.shards.check(job_id)
        creating = asyncio.create_task(self._create(job_id, spec, runtime, workflow, secrets))
        self._creating[creating] = job_id
        creating.add_done_callback(self._creating.pop)
        await asyncio.shield(creating)

    async def _create(
        self,
        job_id: JobId,
        spec: JobSpec,
        runtime: JobRuntime,
        workflow: Workflow | None,
        secrets: SecretBytes,
    ) -> None:
        begun = TRACES.now()
        try:
            await self.store.jobs.create(job_id, spec, runtime, workflow, secrets)
        except AlreadyExists:
            await self.find(job_id)
            raise
        except Unavailable:
            self.unconfirmed.put([job_id])
            raise
        if not self.shards.holds(job_id):
            raise Unavailable(f"job {job_id} is created, and moves to another job manager")
        self.lanes.create(job_id, spec, runtime, workflow)
        if runtime.unmet:
            self.ends.wait_for(job_id, runtime.unmet)
        if spec.schedule is not None:
            self.schedule_ends.wait_for(job_id, ())
        self.accounts.note_creation(job_id)
        job_log.created(job_id, spec)
        if begun:
            trace_creation(job_id, spec, begun)

    async def update_job(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> None:
        """Take the next version of the config (`spec.version` = the current one + 1), which adds instances.

        The caller has checked that it changes nothing else. Raises NotFound, Conflict where the version is
        not the next one, and Refused where the job has ended.
        """
        job = await self._find_active(job_id, "update")
        base = spec.version - 1
        if base != job.spec.version:
            raise Conflict(f"the config is at version {job.spec.version}, not {base}")
        stored = await self.store_version(job_id, spec, secrets)
        await self.lanes.request(JobUpdated(job_id, stored, base))
        job_log.asked(job_id, f"updated to version {stored.version}")

    async def relocate(self, job_id: JobId) -> Relocated:
        """Let the next runs of a batch job go by its newest config; runs that wait begin anew.

        Many instances take several cycles: where the call is cut off, it may be repeated. Raises NotFound,
        and Refused where the job has ended, or is being stopped.
        """
        await self._find_active(job_id, "move")
        taken, anew = 0, 0
        while True:
            some: Relocated = await self.lanes.request(RelocationRequested(job_id, author()))
            taken, anew = taken + some.taken, anew + some.anew
            if some.taken < self.limits.rows_per_cycle:
                break
        if taken:
            job_log.asked(job_id, f"move {plural(taken, 'instance')}, {anew} of them waiting")
        return Relocated(taken, anew)

    async def release(self, job_id: JobId, instances: Sequence[int]) -> list[int]:
        """Take instances out of a batch job, live ones after their end; return those not released before.

        Many are released by several cycles: where the call is cut off, it may be repeated. Raises NotFound,
        InvalidArgument, and Refused where the job has ended.
        """
        await self._find_active(job_id, "release instances of")
        left, released = list(instances), list[int]()
        while left:
            some = await self.lanes.request(ReleaseRequested(job_id, left, author()))
            released += some
            if len(some) < self.limits.rows_per_cycle:
                break
            done = set(some)
            left = [instance for instance in left if instance not in done]
        job_log.asked(job_id, "release", released)
        return released

    async def reuse(self, job_id: JobId, count: int, most: int) -> list[int]:
        """Add instances to a batch job by free numbers, until it has `count`; return these.

        At most `most` are added, and fewer where fewer numbers are free. Raises NotFound, and Refused where
        the job has ended, or is being stopped.
        """
        await self._find_active(job_id, "add instances to")
        added: list[int] = []
        while len(added) < most:
            some = await self.lanes.request(ReuseRequested(job_id, count, most - len(added)))
            if not some:
                break
            added += some
        job_log.asked(job_id, "add", added)
        return added

    async def stop(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Make the goal KILLED: of the whole job (None), or of these instances.

        Return the instances that had not ended, in order; none for a job that has ended. Raises NotFound.
        """
        if await self.find(job_id) is None:
            return []
        stopped: list[int] = await self.lanes.request(StopRequested(job_id, instances, author()))
        job_log.asked(job_id, "stop", instances and stopped)
        return stopped

    async def stop_run(self, job_id: JobId, by: str) -> None:
        """Make the goal of an active job KILLED, for a reason of the job manager's own."""
        await self.lanes.request(StopRequested(job_id, None, by))

    async def move_schedule(self, job_id: JobId, state: ScheduleState) -> None:
        """Store how far a schedule is.

        Raises Refused where the job does not follow it any more, or where it was paused or resumed meanwhile.
        """
        await self.lanes.request(ScheduleMoved(job_id, state))

    async def pause_schedule(self, job_id: JobId, pause: bool) -> None:
        """Let a schedule begin no runs, or let it go on. Nothing changes where that is so already.

        Times of a pause get no run. Raises NotFound, and Refused where the job has no schedule or has ended.
        """
        verb = "pause" if pause else "resume"
        await self._find_active(job_id, f"{verb} the schedule of")
        await self.lanes.request(PauseAsked(job_id, pause, self.clock.wall() // NANOSECONDS))
        job_log.asked(job_id, f"{verb} the schedule")
        self.schedule_ends.wake()

    async def suspend(self, job_id: JobId, suspend: bool) -> None:
        """Suspend a batch job, or let it go on. Nothing changes where that is so already.

        Raises NotFound, and Refused where the job has ended, is being stopped, or is of another kind.
        """
        verb = "suspend" if suspend else "resume"
        await self._find_active(job_id, verb)
        await self.lanes.request(SuspensionAsked(job_id, suspend, author()))
        job_log.asked(job_id, verb)

    async def start(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Begin a new run of instances whose goal is KILLED (None: all of them); return these.

        Raises NotFound, and Refused where the job has ended or is stopped as a whole.
        """
        await self._find_active(job_id, "start tasks of")
        started: list[int] = await self.lanes.request(StartRequested(job_id, instances, author()))
        job_log.asked(job_id, "start", instances and started)
        return started

    async def restart(
        self, job_id: JobId, instances: Sequence[int] | None, check_sla: bool = False
    ) -> list[int]:
        """Stop the current run and begin the next one, whatever the retry policy (None: all instances).

        Instances that are stopped are started. Return those that are restarted. Raises NotFound, Refused
        where the job has ended or is stopped as a whole, and, with `check_sla`, Conflict where more
        instances of a service would be unavailable than its SLA allows.
        """
        await self._find_active(job_id, "restart tasks of")
        event = RestartRequested(job_id, instances, check_sla, author())
        restarted: list[int] = await self.lanes.request(event)
        job_log.asked(job_id, "restart", instances and restarted)
        return restarted

    async def delete_volume(self, volume_id: VolumeId) -> None:
        """Delete a volume. Its host destroys it afterwards, or when it comes back.

        Nothing changes where it is deleted already. Raises NotFound, and Refused while a run uses it.
        """
        volume = await self.store.volumes.get(volume_id)
        await self.shards.check(volume.job_id)
        if volume.goal is VolumeState.DELETED:
            return
        if await self._is_active(volume.job_id):
            await self.lanes.request(VolumeDeletionRequested(volume.job_id, volume))
            return
        deleted = replace(volume, goal=VolumeState.DELETED, updated_at=self.clock.wall())
        await self.store.volumes.write(deleted)
        self.outbox.send([DestroyVolume(deleted)])

    async def _is_active(self, job_id: JobId) -> bool:
        try:
            return await self.find(job_id) is not None
        except NotFound:
            return False

    async def delete(self, job_id: JobId) -> None:
        """Delete a job that has ended, with all that is stored of it.

        Raises NotFound("job not found") and Refused("Job is not in a terminal state: <state>").
        """
        await self._read(job_id)
        job = self.job(job_id)
        try:
            state = job.runtime.state if job else (await self.store.jobs.runtime(job_id)).state
        except NotFound:
            if job_id not in self._creating.values():  # an interrupted deletion may have left rows
                await self._finished.delete(job_id)
            raise NotFound("job not found") from None
        if not state.terminal:
            raise Refused(f"Job is not in a terminal state: {state.name}")
        if job is not None:  # a service, which stays in memory when it is stopped
            await self.lanes.run_between_cycles(job_id, lambda: self._let_go(job_id))
        await self.remove(job_id)
        job_log.asked(job_id, "delete")

    async def remove(self, job_id: JobId) -> None:
        """Delete a job that has ended or was stopped to be deleted, and all that is stored of it."""
        await self.accounts.settle([job_id])
        await self._finished.delete(job_id)
        if self.on_delete is not None:
            self.on_delete(job_id)

    async def _let_go(self, job_id: JobId) -> None:
        job = self.job(job_id)
        if job is not None and not job.runtime.state.terminal:
            raise Refused(f"Job is not in a terminal state: {job.runtime.state.name}")
        if job is not None:
            self.accounts.note_end(job)
        self.lanes.lane(job_id).core.forget(job_id)

    def _on_end(self, job: CachedJob) -> None:
        self.accounts.note_end(job)
        self.ends.note_end(job.job_id)
        self.schedule_ends.note_end(job.job_id)

    def _on_correction(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        self.accounts.note_correction(job_id, spec, runtime)

    async def apply_late_updates(self, statuses: Iterable[tuple[Run, TaskStatus]]) -> None:
        """Correct the ends of runs of jobs that have ended, by late updates of agents."""
        await self._finished.apply_late_updates(statuses)

    async def refresh(self, job_id: JobId) -> None:
        """Read a job from the store again and evaluate its tasks, unless it has ended. Raises NotFound."""
        if await self.find(job_id) is None:
            self._finished.remove(job_id)
            return
        await self.lanes.run_between_cycles(job_id, lambda: self._read_again(job_id))

    async def refresh_tasks(self, job_id: JobId, first: int = 0, end: int | None = None) -> None:
        """Read instances first … end-1 of a job again, and the other ones too. Raises NotFound."""
        await self.refresh(job_id)

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job, not to be changed; None for any other, and while its tasks are not read yet.

        Where it is None the store has the newest state.
        """
        return self.lanes.job(job_id)

    async def find(self, job_id: JobId) -> CachedJob | None:
        """Return an active job, not to be changed; None where it has ended. Raises NotFound.

        A job is adopted that is stored but not in memory, because the outcome of its creation was unknown.
        """
        await self._read(job_id)
        if self.job(job_id) is None and not (await self.store.jobs.runtime(job_id)).state.terminal:
            await self.lanes.run_between_cycles(job_id, lambda: self._adopt(job_id))
        return self.job(job_id)

    async def load(self, job_id: JobId) -> CachedJob:
        """Return any job with all its tasks, from the store where it has ended. Raises NotFound."""
        await self._read(job_id)
        return self.job(job_id) or await self._finished.load(job_id)

    async def summary(self, job_id: JobId) -> JobSummary:
        """Return any job's newest spec and runtime, without its tasks. Raises NotFound.

        For a job that has ended this is cheaper than `load`.
        """
        job = self.job(job_id) or self._finished.get(job_id)
        if job is not None:
            return JobSummary(job_id, job.spec, job.runtime)
        runtime = await self.store.jobs.runtime(job_id)
        return JobSummary(job_id, await self.store.jobs.config(job_id, runtime.config_version), runtime)

    async def find_jobs(self, query: JobQuery) -> JobPage:
        """Answer a query over the jobs of all instances. Raises as `storage.interface.Jobs.query`."""
        return await (self.jobs_of_all or self.store.jobs.query)(query)

    async def lost_seconds(self) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs of all instances have lost since checkpoints, by pool."""
        return await (self.losses_of_all or self.store.jobs.lost_seconds)()

    def pool_of(self, job_id: JobId) -> str:
        """Return the pool of a job in memory, an empty text of others."""
        job = self.job(job_id)
        return "" if job is None else job.spec.pool_id

    def active_jobs(self) -> list[JobId]:
        """Return the ids of the jobs that have not ended."""
        return self.lanes.jobs()

    async def store_version(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> JobSpec:
        """Store a config as the next free version; unused versions of interrupted updates are skipped."""
        for version in range(spec.version, spec.version + MAX_VERSION_TRIES):
            try:
                stored = replace(spec, version=version)
                await self.store.jobs.add_config(job_id, stored, secrets)
                return stored
            except AlreadyExists:
                continue
        raise Conflict(f"config versions {spec.version} to {version} exist already")

    async def _find_active(self, job_id: JobId, verb: str) -> CachedJob:
        """Return an active job. Raises NotFound, and Refused where it has ended: `verb` is what was asked."""
        job = await self.find(job_id)
        if job is None:
            runtime = await self.store.jobs.runtime(job_id)
            raise Refused(f"cannot {verb} a job that has ended: it is {runtime.state.name}")
        return job

    async def _read(self, job_id: JobId) -> None:
        """Have an active job in memory. Raises Unavailable where it is another instance's."""
        if not self.shards.takes_all:
            await self.shards.check(job_id)
        await self.recovery.read(job_id)
        if not self.shards.holds(job_id):
            raise Unavailable(MOVED)

    async def _adopt(self, job_id: JobId) -> None:
        if self.job(job_id) is None:
            job = await read_job(self.store, job_id)
            if not self.shards.holds(job_id):
                raise Unavailable(MOVED)
            self.lanes.lane(job_id).core.recover(job)

    async def _read_again(self, job_id: JobId) -> None:
        if self.job(job_id) is not None:
            job = await read_job(self.store, job_id)
            if self.job(job_id) is not None:
                self.lanes.lane(job_id).core.refresh(job)

    # --- shards ---

    async def finish(self, shard: int) -> None:
        """Take no more events and calls of a shard, and finish what was begun for it."""
        self.shards.drain(shard)
        creating = [task for task, job_id in self._creating.items() if shard_of(job_id) == shard]
        await asyncio.gather(*creating, return_exceptions=True)
        await self.lanes.flush_shard(shard)
        await self.finish_launches(shard)
        await self.lanes.flush_shard(shard)

    def drop(self, shard: int) -> None:
        """Forget a shard, whether anything is under way for it or not."""
        self.shards.drop(shard)
        self.lanes.drop(shard)

    def _forgotten(self, drops: Drops) -> None:
        self._finished.drop(drops.drops)
        self.accounts.drop(drops.drops)


async def _finished(shard: int) -> None:
    """Have no launches."""
