"""The job manager in the simulated world: one lane around the core, as `jobmgr.engine.lane` is.

A cycle is stored before its instructions are carried out, and the next one begins after that. Calls of
clients are answered once what they ask for is stored.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import (
    Enqueued,
    Event,
    JobGoalRequested,
    Launched,
    Now,
    PauseAsked,
    StopRequested,
    WorkflowAction,
)
from jobmgr.core.state.limits import Limits
from peloton.errors import AlreadyExists, Fenced, NotFound, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.schedule import ScheduleState
from peloton.model.states import JobState, JobType
from peloton.model.workflow import Workflow, WorkflowId
from simulator.daemons.jobmgr_calls import Instructions
from simulator.daemons.jobmgr_dependencies import Dependencies
from simulator.daemons.jobmgr_schedules import Schedules
from simulator.daemons.jobmgr_services import Services
from simulator.daemons.jobmgr_streams import Streams
from simulator.daemons.translate import NeedsOfTasks
from simulator.world.kernel import Life, Timer
from simulator.world.network import LATER, Caller, Reply
from simulator.world.store import StoredJob
from simulator.world.universe import Universe

ROLE = "jobmgr"
EVENTS_PER_CYCLE = 2000
RETRY_SECONDS = 0.5
Batch = Sequence[tuple[Event, Callable[[Any], None] | None]]
"""Events, each with what gets the core's reply to it."""
PATIENCE: Mapping[type[Event], float] = {Enqueued: 0.05, Launched: 1.5}
"""How long events wait for others that most often follow, where nothing fails, in seconds.

A placement follows the queueing of a task, its first status the launch: both are decided about in one cycle.
"""


@dataclass(slots=True)
class JobmgrOptions:
    """Settings of the job manager that the simulation knows."""

    limits: Limits = field(default_factory=Limits)
    reasons: bool = True
    """Whether it follows why tasks wait. No decision depends on the reasons."""
    drains: bool = False
    """Whether it follows which hosts are in maintenance."""
    schedule_speed: float = 1.0
    """How many seconds of a schedule pass in a second."""


class Jobmgr:
    """One term of the job manager."""

    def __init__(
        self, universe: Universe, life: Life, term: int, options: JobmgrOptions, needs: NeedsOfTasks
    ) -> None:
        self.life = life
        self.term = term
        self.universe = universe
        self.core = Core(options.limits)
        self.caller = Caller(life, term)
        self.on_end: Callable[[CachedJob], None] | None = None
        """Called with each job that has ended; with a service that is stopped perhaps more than once."""
        self.early = False
        """Whether a request is answered before it is stored. This and what follows are bugs to plant."""
        self.acts_early = False
        """Whether instructions are carried out before the decisions behind them are stored."""
        self._kernel = universe.kernel
        self._store = universe.store
        self._options = options
        self._inbox: deque[tuple[Event, Callable[[Any], None] | None]] = deque()
        self._due = math.inf
        """When a cycle is due because of the inbox."""
        self._storing = False
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._ready = False
        """Whether the list of active jobs is read, so that calls are answered."""
        self._instructions = Instructions(self, needs)
        self.streams = Streams(self, options.reasons, options.drains)
        self._services = Services(self, self._store)
        fails, speed = not universe.quiet, options.schedule_speed
        self.schedules = Schedules(self, self._kernel, self._store, speed, fails)
        self._dependencies = Dependencies(self, self._kernel, self._store, fails)
        self.forgets_updates = False
        """Whether a new leader forgets the updates that run: a bug to plant."""

    # The life of a term.

    def start(self) -> None:
        """Begin to lead: read the active jobs."""
        self.submit_write(lambda: self._store.begin_term(ROLE, self.term), self._begun)

    def submit_write(self, write: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Have something written in this term."""
        if not self.universe.leads(self):
            self._kernel.after(0.0, self.life, done, Fenced("this job manager no longer leads"))
            return
        self._store.submit(self.life, ROLE, self.term, write, done)

    def _begun(self, answer: Any) -> None:
        if isinstance(answer, Fenced):
            self._step_down()
        elif isinstance(answer, PelotonError):
            self._kernel.after(RETRY_SECONDS, self.life, self.start)
        else:
            self._store.read(self.life, self._store.active_jobs, self._recover)

    def _recover(self, jobs: Mapping[JobId, StoredJob]) -> None:
        for job_id, stored in jobs.items():
            job = cached(job_id, stored)
            if self.forgets_updates:
                job.workflow = None
            self.core.recover(job)
        self._ready = True
        self.streams.start()
        self.schedules.start()
        self._dependencies.start()
        self._wake()

    def _step_down(self) -> None:
        """End: another instance leads."""
        self.life.ended = True
        self._kernel.on_crash(self.life)

    # The lane.

    def post(self, event: Event, done: Callable[[Any], None] | None = None) -> None:
        """Hand over an event; `done` gets the core's reply once it is stored."""
        self._inbox.append((event, done))
        patience = PATIENCE.get(type(event), 0.0) if self.universe.quiet else 0.0
        self._due = min(self._due, self._kernel.now + patience)
        self._cycle_at(self._due)

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job."""
        work = self.core.active.jobs.get(job_id)
        return None if work is None else work.job

    def jobs(self) -> Collection[CachedJob]:
        """Return the active jobs."""
        return [work.job for work in self.core.active.jobs.values()]

    def _wake(self) -> None:
        self._cycle_at(self._kernel.now)

    def _cycle_at(self, when: float) -> None:
        if self._storing:
            return
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._kernel.after(max(0.0, when - self._kernel.now), self.life, self._run_cycle)

    def _run_cycle(self) -> None:
        self._timer = None
        batch = [self._inbox.popleft() for _ in range(min(len(self._inbox), EVENTS_PER_CYCLE))]
        kernel = self._kernel
        self._due = kernel.now if self._inbox else math.inf
        kernel.point(self.life, "before a cycle")
        cycle = self.core.run_cycle([event for event, _ in batch], Now(kernel.wall(self.life), kernel.now))
        self._storing = True
        changes = [change for change in cycle.changes.values() if not change.empty]
        if self.early:
            _reply(batch, cycle)
        if self.acts_early:
            self._act(cycle)
        unknown = bool(cycle.unknown)
        if not changes and not unknown:
            self._stored(cycle, batch)
            return
        if self._store.reliable:
            self.submit_write(partial(self._write_all, changes), partial(self._written, cycle, batch))
            return
        left = len(changes) + unknown

        def done() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._stored(cycle, batch)

        for change in changes:
            self._write(partial(self._store.write_all, change), done)
        if unknown:
            self._write(lambda: None, done)  # the store checks the term of whoever writes

    def _write_all(self, changes: Sequence[Change]) -> None:
        """Write what a cycle decided, at one moment: each write is applied, and answered."""
        for change in changes:
            self._store.write_all(change)

    def _written(self, cycle: Cycle, batch: Batch, answer: Any) -> None:
        if isinstance(answer, Fenced):
            self._step_down()
        elif isinstance(answer, PelotonError):
            raise AssertionError(f"a store that never fails has failed: {answer}")
        else:
            self._stored(cycle, batch)

    def _write(self, write: Callable[[], None], done: Callable[[], None]) -> None:
        """Write something, however often that has to be tried."""

        def answered(answer: Any) -> None:
            if isinstance(answer, Fenced):
                self._step_down()
            elif isinstance(answer, Unavailable):
                self._kernel.after(RETRY_SECONDS, self.life, self._write, write, done)
            elif isinstance(answer, NotFound):
                raise AssertionError(f"a job is changed that is not stored: {answer}")
            else:
                done()

        self.submit_write(write, answered)

    def _stored(self, cycle: Cycle, batch: Batch) -> None:
        self._storing = False
        self._kernel.point(self.life, "after a cycle is stored")
        for job in (*self.core.commit(cycle), *_stopped_services(cycle)):
            if self.on_end is not None:
                self.on_end(job)
            self.schedules.note_end(job.job_id)
            self._dependencies.note_end(job.job_id)
        if not self.acts_early:
            self._act(cycle)
        if not self.early:
            _reply(batch, cycle)
        if cycle.more:
            self._wake()
            return
        due = self.core.idle_until()
        due = self._due if due is None else min(due, self._due)
        if due < math.inf:
            self._cycle_at(max(due, self._kernel.now))

    def _act(self, cycle: Cycle) -> None:
        for instruction in cycle.instructions:
            self._instructions.carry_out(instruction)

    # Calls of clients.

    def on_create(self, caller: Caller, reply: Reply, job_id: JobId, spec: JobSpec) -> Any:
        """Store a new job and take it on. Raises AlreadyExists."""
        self._require_ready()
        if self.early:
            reply(None)
        self.create(job_id, spec, reply)
        return LATER

    def create(self, job_id: JobId, spec: JobSpec, done: Callable[[Any], None]) -> None:
        """Store a new job and take it on; `done` gets None, or AlreadyExists or another error."""
        now = self._kernel.wall(self.life)
        runtime = JobRuntime(
            state=JobState.INITIALIZED,
            goal=JobState.SUCCEEDED if spec.type is JobType.BATCH else JobState.RUNNING,
            config_version=spec.version,
            creation_time=now,
            updated_at=now,
            unmet=tuple(each.job_id for each in spec.depends_on),
            schedule=None if spec.schedule is None else ScheduleState(seen=self.schedules.now()),
        )

        def stored(answer: Any) -> None:
            if isinstance(answer, Fenced):
                self._step_down()
            elif isinstance(answer, AlreadyExists | Unavailable):
                self._adopt(job_id)
                done(answer)
            elif isinstance(answer, PelotonError):
                done(answer)
            else:
                self._kernel.point(self.life, "after a job is stored")
                self.core.create(job_id, spec, runtime, None)
                self._wait(job_id, spec)
                self._wake()
                done(None)

        self.submit_write(lambda: self._store.create(job_id, spec, runtime, None), stored)

    def delete(self, job_id: JobId, done: Callable[[Any], None]) -> None:
        """Delete a job that has ended."""

        def deleted(answer: Any) -> None:
            if isinstance(answer, Fenced):
                self._step_down()
            else:
                done(answer)

        self.submit_write(lambda: self._store.delete(job_id), deleted)

    def _wait(self, job_id: JobId, spec: JobSpec) -> None:
        """Follow the schedule of a new job, or the jobs whose ends it waits for."""
        if spec.schedule is not None:
            self.schedules.wake(job_id)
        if spec.depends_on:
            self._dependencies.look()

    def _adopt(self, job_id: JobId) -> None:
        """Take a job that may be stored although its creation failed."""

        def done(stored: StoredJob | None) -> None:
            if self._storing:  # a cycle may be about it: it is looked for again afterwards
                self._kernel.after(RETRY_SECONDS, self.life, self._adopt, job_id)
            elif stored is not None and not stored.runtime.state.terminal and self.job(job_id) is None:
                self.core.recover(cached(job_id, stored))
                self._wake()

        self._store.read(self.life, lambda: self._store.jobs.get(job_id), done)

    def on_stop(self, caller: Caller, reply: Reply, job_id: JobId) -> Any:
        """Stop a job. Raises NotFound for one that is not stored."""
        job = self.active_job(job_id)
        if job is None:
            return None
        if job.spec.type is JobType.BATCH:
            self.post(StopRequested(job_id, None), reply)
        else:
            self.post(JobGoalRequested(job_id, JobState.KILLED), reply)
        return LATER

    def on_pause(self, caller: Caller, reply: Reply, job_id: JobId, pause: bool) -> Any:
        """Pause a schedule, or let it go on. Raises NotFound where it has ended."""
        if self.active_job(job_id) is None:
            raise NotFound(f"the schedule of job {job_id} has ended")

        def stored(answer: Any) -> None:
            self.schedules.wake(job_id)
            reply(answer)

        self.post(PauseAsked(job_id, pause, self.schedules.now()), stored)
        return LATER

    def on_update(self, caller: Caller, reply: Reply, spec: JobSpec, workflow: Workflow) -> Any:
        """Begin an update of a service."""
        return self._services.update(reply, spec, workflow)

    def on_steer(
        self, caller: Caller, reply: Reply, job_id: JobId, workflow_id: WorkflowId, action: WorkflowAction
    ) -> Any:
        """Pause an update, or have it go on or end."""
        return self._services.steer(reply, job_id, workflow_id, action)

    def on_restart(self, caller: Caller, reply: Reply, job_id: JobId, instance: int) -> Any:
        """Restart an instance as far as the SLA allows."""
        return self._services.restart(reply, job_id, instance)

    def active_job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job; None for one that has ended.

        Raises NotFound for one that is not stored, Unavailable for one that is not read yet.
        """
        self._require_ready()
        job = self.job(job_id)
        if job is None:
            if job_id not in self._store.jobs:
                raise NotFound(f"job {job_id} is not stored")
            if not self._store.jobs[job_id].runtime.state.terminal:
                self._adopt(job_id)
                raise Unavailable(f"job {job_id} is being read")
        return job

    def _require_ready(self) -> None:
        if not self._ready:
            raise Unavailable("this job manager reads what is stored")


def _stopped_services(cycle: Cycle) -> list[CachedJob]:
    """Return the services of a stored cycle that have ended. They stay active: they may be started again."""
    changes = cycle.changes.values()
    return [each.job for each in changes if each.lives_on and each.job.runtime.state.terminal]


def cached(job_id: JobId, stored: StoredJob) -> CachedJob:
    """Return a stored job as it is kept in memory."""
    runtime = stored.runtime
    job = CachedJob(job_id, stored.specs[runtime.config_version], runtime, stored.workflow)
    job.fill(stored.tasks)
    job.specs.update({version: stored.specs[version] for version in job.versions() - job.specs.keys()})
    return job


def _reply(batch: Batch, cycle: Cycle) -> None:
    for (_, done), reply in zip(batch, cycle.replies, strict=True):
        if done is not None:
            done(reply)
