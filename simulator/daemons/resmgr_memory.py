"""How the simulated resource manager knows of tasks: from the store, and from the stream of statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peloton.errors import Fenced, PelotonError, Refused
from peloton.model.ids import JobId, parse_mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import ON_HOST_TASK_STATES
from peloton.model.task import TaskRuntime, TaskStatus
from resmgr.core import restoring
from resmgr.core.auditing import Audit
from resmgr.core.restoring import WAITING
from resmgr.core.state.needs import NewTask
from simulator.daemons.hostmgr_stream import Follower
from simulator.daemons.resmgr_loop import Loop
from simulator.daemons.resmgr_polls import answered
from simulator.daemons.resmgr_term import ROLE, Term
from simulator.daemons.translate import NeedsOfTasks
from simulator.world.network import LATER, Reply
from simulator.world.store import StoredJob

GATHER_SECONDS = 0.05
POLL_SECONDS = 10.0
EVENTS = 1000
RETRY_SECONDS = 0.5
STRANGERS_SECONDS = 1.0


class Memory:
    """Brings the scheduler to what is stored and reported."""

    def __init__(self, term: Term, loop: Loop, needs: NeedsOfTasks, begin: Callable[[], None]) -> None:
        """`begin` is called once the pools are known."""
        self._term = term
        self._kernel = term.kernel
        self._scheduler = term.scheduler
        self._loop = loop
        self._needs = needs
        self._begin = begin
        self._audit = Audit(term.scheduler)
        self.restores = True
        """Whether the stored runs on hosts are taken in. False, here and below, is a bug to plant."""
        self.looks_up = True
        """Whether runs that are not known here are looked up."""
        self._after_recovery: list[Callable[[], None]] = []
        self._looking_up = False
        self._stream = ""
        self._next = 0
        self._follower: Follower | None = None
        """The stream of statuses where nothing fails."""

    def when_recovered(self, reply: Reply, answer: Callable[[], Any]) -> Any:
        """Answer now, or once all stored tasks are known."""
        if self._term.recovered:
            return answer()
        self._after_recovery.append(lambda: reply(answered(answer)))
        return LATER

    def recover(self) -> None:
        """Read the pools, then the tasks."""
        store = self._term.universe.store

        def begun(answer: Any) -> None:
            if isinstance(answer, Fenced):
                return
            if isinstance(answer, PelotonError):
                self._term.after(RETRY_SECONDS, self.recover)
                return
            store.read(self._term.life, lambda: dict(store.pools), loaded)

        def loaded(pools: Mapping[str, Any]) -> None:
            self._scheduler.load_pools(pools.values())
            self._open_stream(self._restore)
            self._begin()

        store.submit(
            self._term.life, ROLE, self._term.number, lambda: store.begin_term(ROLE, self._term.number), begun
        )

    def _restore(self) -> None:
        store = self._term.universe.store
        store.read(self._term.life, store.active_jobs, self._take_stored)

    def _take_stored(self, jobs: Any) -> None:
        now = self._kernel.now
        waiting: list[tuple[int, JobId, StoredJob]] = []
        for job_id, job in jobs.items():
            for instance, runtime in job.tasks.items():
                if runtime.state in ON_HOST_TASK_STATES:
                    self._take_in(job_id, job, instance, runtime)
            since = [task.updated_at for task in job.tasks.values() if task.state in WAITING]
            if since:
                waiting.append((min(since), job_id, job))
        self._loop.is_open = True
        for _, job_id, job in sorted(waiting, key=lambda each: each[0]):
            self._enqueue_stored(job_id, job, now)
        self._term.recovered = True
        if not self._term.universe.quiet:
            self._term.after(self._term.options.audit_interval, self._compare_with_store)
        ready, self._after_recovery = self._after_recovery, []
        for call in ready:
            call()
        self._pull()
        self._loop.wake()

    def _take_in(self, job_id: JobId, job: StoredJob, instance: int, runtime: TaskRuntime) -> None:
        if not self.restores:
            return
        spec = job.specs[runtime.config_version]
        new = self._new_task(job_id, spec, instance, runtime)
        pool = self._scheduler.tree.get(spec.pool_id)
        kernel = self._kernel
        moment = restoring.Moment(kernel.now, kernel.wall(self._term.life))
        restoring.take_in(self._scheduler, pool, new, runtime, moment)

    def _new_task(self, job_id: JobId, spec: JobSpec, instance: int, runtime: TaskRuntime) -> NewTask:
        return self._needs.new_task(job_id, spec, instance, runtime)._replace(host="")

    def _enqueue_stored(self, job_id: JobId, job: StoredJob, now: float) -> None:
        waiting = {i: runtime for i, runtime in sorted(job.tasks.items()) if runtime.state in WAITING}
        self._enqueue_tasks(job_id, job, waiting, now)

    def _enqueue_tasks(
        self, job_id: JobId, job: StoredJob, tasks: Mapping[int, TaskRuntime], now: float
    ) -> None:
        gang: list[NewTask] = []
        gangs = [gang]
        for instance, runtime in tasks.items():
            spec = job.specs[runtime.config_version]
            new = self._new_task(job_id, spec, instance, runtime)
            if spec.in_gang(instance):
                gang.append(new)
            else:
                gangs.append([new])
        pool_id = max(job.specs.items())[1].pool_id
        pool = self._scheduler.tree.get(pool_id)
        for each in gangs:
            if each:
                try:
                    self._scheduler.enqueue(pool, each, now)
                except Refused:
                    continue

    def _compare_with_store(self) -> None:
        """Audit the tasks in memory, and repair what differs again."""
        store = self._term.universe.store
        self._audit.begin(self._kernel.now)

        def done(jobs: Mapping[JobId, StoredJob]) -> None:
            now = self._kernel.now
            for job_id, job in jobs.items():
                missing = self._audit.compare(job_id, job.tasks, now)
                for instance, runtime in missing.take_in.items():
                    self._take_in(job_id, job, instance, runtime)
                if missing.queue:
                    self._enqueue_tasks(job_id, job, missing.queue, now)
                self._audit.check_absent(job_id, job.tasks, now)
            self._audit.check_absent_jobs(jobs, now)
            self._audit.end()
            self._term.after(self._term.options.audit_interval, self._compare_with_store)
            self._loop.wake()

        store.read(self._term.life, store.active_jobs, done)

    def look_up_later(self) -> None:
        """Look up runs soon that are reported as on hosts and are not known here."""
        if self._scheduler.strangers and not self._looking_up and self.looks_up:
            self._looking_up = True
            self._term.after(STRANGERS_SECONDS, self._look_up)

    def _look_up(self) -> None:
        strangers = self._scheduler.strangers
        runs = strangers.ask(len(strangers))

        def done(jobs: Mapping[JobId, StoredJob]) -> None:
            self._looking_up = False
            for run in runs:
                job = jobs.get(run.job_id)
                runtime = job.tasks.get(run.instance) if job is not None else None
                if not strangers.answered(run) or job is None or runtime is None or runtime.run != run.run:
                    continue
                if runtime.state in ON_HOST_TASK_STATES:
                    self._take_in(run.job_id, job, run.instance, runtime)
            self.look_up_later()
            self._loop.wake()

        self._term.universe.store.read(self._term.life, self._term.universe.store.active_jobs, done)

    def _open_stream(self, then: Callable[[], None]) -> None:
        """Open the stream before the store is read, so that no event is missed."""

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self._term.after(RETRY_SECONDS, self._open_stream, then)
                return
            self._stream, self._next = answer
            then()

        self._term.call("hostmgr", "on_open_stream", ("resmgr",), done)

    def _pull(self) -> None:
        if self._term.universe.quiet:
            follow = ("resmgr", self._next, GATHER_SECONDS, EVENTS, self._take)
            self._term.call("hostmgr", "on_follow", follow, self._followed)
            return
        args = (
            "resmgr",
            self._stream,
            self._next,
            self._next,
            EVENTS,
            self._term.universe.patience(POLL_SECONDS),
        )
        self._term.call("hostmgr", "on_statuses", args, self._pulled, POLL_SECONDS)

    def _followed(self, follower: Follower) -> None:
        self._follower = follower

    def _take(self, events: Sequence[tuple[int, TaskStatus]]) -> None:
        """Take statuses from the stream that is followed."""
        self._observe(events)
        assert self._follower is not None
        self._follower.passed(self._next)

    def _pulled(self, answer: Any) -> None:
        if isinstance(answer, Refused):  # another stream, or its events are gone
            self._open_stream(self._resync)
            return
        if isinstance(answer, PelotonError):
            self._term.after(RETRY_SECONDS, self._pull)
            return
        events: Sequence[tuple[int, TaskStatus]] = answer
        if events:
            self._observe(events)
        self._term.after(GATHER_SECONDS if events else 0.0, self._pull)

    def _observe(self, events: Sequence[tuple[int, TaskStatus]]) -> None:
        now = self._kernel.now
        for _, status in events:
            self._scheduler.observe(parse_mesos_task_id(status.mesos_task_id), status.state, now)
        self._next = events[-1][0] + 1
        self.look_up_later()
        self._loop.wake()

    def _resync(self) -> None:
        """Read the effects of missed events from the store."""
        before = restoring.held(self._scheduler)
        store = self._term.universe.store

        def done(jobs: Mapping[JobId, StoredJob]) -> None:
            now = self._kernel.now
            for job_id, job in jobs.items():
                for instance, runtime in job.tasks.items():
                    if runtime.state in ON_HOST_TASK_STATES:
                        self._take_in(job_id, job, instance, runtime)
                restoring.forget_ended(self._scheduler, job_id, job.tasks, now)
            restoring.forget_absent(
                self._scheduler, before, {job_id: set(job.tasks) for job_id, job in jobs.items()}, now
            )
            self._loop.wake()
            self._pull()

        store.read(self._term.life, store.active_jobs, done)
