"""A lane: one loop around one core, which gathers events, decides, stores, then acts.

While one cycle is being stored the events of the next one gather, so that batches grow with the load. A lane
waits for its own writes only. Its jobs are those of some shards; its fence says for which it may act.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter, Histogram

from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import Event, Now, PendingReasons
from jobmgr.core.state.instructions import Instruction
from jobmgr.engine import job_log
from jobmgr.engine.event_weight import weight
from jobmgr.engine.split import part_of
from jobmgr.engine.traces import TracedRuns
from jobmgr.engine.transient import backoff
from peloton.clock import Clock
from peloton.daemon.tracing import TRACES
from peloton.errors import Fenced, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.shard import shard_of
from peloton.model.states import TaskState
from peloton.model.workflow import Workflow
from peloton.new_calls import NEW_CALLS, NewCalls
from storage.interface import Store

RUNS_PER_CYCLE = 2000
RUNS_BESIDE_CALLS = 500
"""In place of that while many calls begin: a cycle holds the event loop, and those who wait for a new job or
a stop, for a quarter of the time. With fewer, a large job loses more by the commits than calls gain."""
log = logging.getLogger(__name__)
CYCLE_SECONDS = Histogram(
    "jobmgr_cycle_seconds",
    "Time from taking the events of a cycle to storing its changes.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
)
STEPS = Counter("jobmgr_task_steps", "Stored steps of tasks, by the state reached.", ["state"])
ENDED_JOBS = Counter("jobmgr_ended_jobs", "Jobs that ended while this instance led.")
LOST_SECONDS = Counter(
    "jobmgr_lost_seconds",
    "Seconds of work since the last checkpoints of runs that ended too early, by pool.",
    ["pool_id"],
)
_STEPS = {state: STEPS.labels(state.name) for state in TaskState}

NO_EVENT = PendingReasons(())
"""Changes nothing."""
MOVED = "the job moves to another job manager"
Answer = asyncio.Future[Any]
Item = tuple[Event, Answer | None]
"""An event, and who waits until it is stored."""
Send = Callable[[Sequence[Instruction]], None]
JobFence = Callable[[JobId], None]
"""Raises where nothing may be written of a job: Fenced, or Unavailable while that is unknown."""


@dataclass(frozen=True, slots=True)
class Drops:
    """The jobs of a shard that is held no more."""

    shard: int

    def drops(self, job_id: JobId) -> bool:
        """Return whether a job is one of them."""
        return shard_of(job_id) == self.shard

    def keeps(self, job_id: JobId) -> bool:
        """Return whether a job is none of them."""
        return shard_of(job_id) != self.shard


async def _nothing() -> None:
    """Do nothing, between two cycles."""


def unfenced_job(job_id: JobId) -> None:
    """Let everything pass."""


class Lane:
    """Owns the core of some of the jobs. `submit` and `run_between_cycles` are answered while `run` runs."""

    def __init__(
        self,
        core: Core,
        store: Store,
        clock: Clock,
        send: Send,
        fence: JobFence = unfenced_job,
        calls: NewCalls = NEW_CALLS,
    ) -> None:
        self.core = core
        self.store = store
        self.fence = fence
        """Called before each write, with its job."""
        self.on_end: Callable[[CachedJob], None] = lambda job: None
        """Called with each job that has ended."""
        self.on_commit: Callable[[Cycle], None] | None = None
        """Called with each cycle that is stored, after the cache is brought up to it."""
        self.problem = ""
        """Why nothing can be stored at present; empty while writes succeed."""
        self._clock = clock
        self._send = send
        self._calls = calls
        self._requests: deque[Item] = deque()
        """What users wait for: it is taken before all that is in the inbox."""
        self._inbox: deque[Item] = deque()
        self._actions: deque[tuple[Callable[[], Awaitable[None]], Answer]] = deque()
        self._wake = asyncio.Event()
        self.on_fenced: Callable[[JobId, Fenced], bool] = lambda job_id, error: False
        """Called with a job that may not be written any more. Returns whether `drop` was called with its
        shard, so that the lane goes on without it; else the lane ends."""
        self.on_drop: Callable[[Drops], None] = lambda drops: None
        """Called when jobs are forgotten by `drop`, with that."""
        self._drops: list[Drops] = []
        """What is to be forgotten when the cycle under way is over."""
        self._fenced: set[JobId] = set()
        """Jobs whose part of the cycle under way is not stored."""
        self._storing = False
        self._held = 0.0
        """Seconds for which the last cycle held the event loop."""
        self._batch: list[Item] = []
        self._closed = ""
        self._runs = TracedRuns()

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job that is in memory."""
        work = self.core.active.jobs.get(job_id)
        return None if work is None else work.job

    def create(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, workflow: Workflow | None = None
    ) -> None:
        """Add a new job that is stored, with the workflow that adds its instances, if any."""
        self.core.create(job_id, spec, runtime, workflow)
        self._wake.set()

    def recover(self, job: CachedJob) -> None:
        """Add a job of an earlier leader, as it is stored."""
        self.core.recover(job)
        self._wake.set()

    def post(self, event: Event) -> None:
        """Hand over an event whose answer is not needed."""
        self._inbox.append((event, None))
        self._wake.set()

    def submit(self, event: Event) -> Answer:
        """Hand over an event. The future ends, once it is stored, with the core's answer or error."""
        return self._put(self._inbox, event)

    def request(self, event: Event) -> Answer:
        """Hand over the event of a user who waits, as `submit` does, before those that wait already."""
        return self._put(self._requests, event)

    def _put(self, queue: deque[Item], event: Event) -> Answer:
        self._check()
        answer: Answer = asyncio.get_running_loop().create_future()
        queue.append((event, answer))
        self._wake.set()
        return answer

    async def run_between_cycles(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run an action while no cycle is being stored."""
        self._check()
        answer: Answer = asyncio.get_running_loop().create_future()
        self._actions.append((action, answer))
        self._wake.set()
        await answer

    def drop(self, drops: Drops) -> None:
        """Forget jobs that are not this instance's any more, as soon as the cycle under way is over.

        Requests that are not handled yet are answered with Unavailable.
        """
        self._requests = self._kept(self._requests, drops)
        self._inbox = self._kept(self._inbox, drops)
        self._drops.append(drops)
        if not self._storing:
            self._forget()

    def _kept(self, queue: deque[Item], drops: Drops) -> deque[Item]:
        kept: deque[Item] = deque()
        for event, answer in queue:
            part = part_of(event, drops.keeps, drops.keeps, self.job)
            if part is not None:
                kept.append((part, answer))
            else:
                _answer(answer, Unavailable(MOVED) if hasattr(event, "job_id") else None)
        return kept

    async def dropped(self) -> None:
        """Wait until all that was dropped is forgotten."""
        while self._drops:
            await self.run_between_cycles(_nothing)

    def _forget(self) -> None:
        """Forget what was dropped."""
        drops, self._drops = self._drops, []
        for each in drops:
            for job_id in [job_id for job_id in self.core.active.jobs if each.drops(job_id)]:
                self.core.forget(job_id)
            self.on_drop(each)

    async def run(self) -> None:
        """Repeat the cycle for ever. Raises Fenced where another instance leads."""
        try:
            while True:
                await self._wait_for_event()
                while self._actions:
                    await self._run_action(*self._actions.popleft())
                await self._calls.let_in(self._held)
                await self._run_cycle()
        except Fenced as error:
            self.problem = str(error)
            raise
        finally:
            self._close()

    async def _run_cycle(self) -> None:
        most = RUNS_BESIDE_CALLS if self._calls.many else RUNS_PER_CYCLE
        self._batch = batch = self._gather(most)
        now = Now(self._clock.wall(), self._clock.monotonic())
        with CYCLE_SECONDS.time():
            self._storing = True
            cycle = self.core.run_cycle([event for event, _ in batch], now, most)
            self._held = self._clock.monotonic() - now.monotonic
            await self._store(cycle)
            self._storing = False
        if self._fenced:
            self._leave_out(cycle)
        if TRACES.on:
            self._runs.observe(cycle)
        job_log.tell(cycle)
        ended = self.core.commit(cycle)
        for job in ended:
            self.on_end(job)
        if self.on_commit is not None:
            self.on_commit(cycle)
        _count(cycle, len(ended))
        for workflow_id, job_id, reason in cycle.silent:
            log.warning("workflow %s of job %s makes no progress: %s", workflow_id, job_id, reason)
        self._send(cycle.instructions)
        for (_, answer), reply in zip(batch, cycle.replies, strict=True):
            _answer(answer, reply)
        if self._drops:
            self._forget()
        if cycle.more:
            self._wake.set()

    def _leave_out(self, cycle: Cycle) -> None:
        """Leave out of a cycle the jobs that could not be stored: another instance has them."""
        fenced, self._fenced = self._fenced, set()
        for job_id in fenced:
            cycle.changes.pop(job_id, None)
        for at, (event, _) in enumerate(self._batch):
            if getattr(event, "job_id", None) in fenced:
                cycle.replies[at] = Unavailable(MOVED)

    def _gather(self, most: int) -> list[Item]:
        """Return the next events, about `most` runs or a little more."""
        batch: list[Item] = []
        size = 0
        for queue in (self._requests, self._inbox):
            while queue and size < most:
                item = queue.popleft()
                batch.append(item)
                size += weight(item[0])
        if self._requests or self._inbox:
            self._wake.set()
        return batch

    async def _store(self, cycle: Cycle) -> None:
        writes = [self._write(change) for change in cycle.changes.values() if not change.empty]
        if cycle.unknown:
            one_each = {shard_of(job_id): job_id for job_id in cycle.unknown}
            writes += [self._until_stored(job_id, self._check_term(job_id)) for job_id in one_each.values()]
        if len(writes) == 1:
            await writes[0]
        elif writes:
            await asyncio.gather(*writes)

    async def _write(self, change: Change) -> None:
        await self._until_stored(
            change.job_id,
            lambda: self.store.write_all(
                change.job_id,
                change.tasks,
                change.events,
                change.runtime,
                tuple(change.workflows.values()),
                change.workflow_events,
                tuple(change.volumes.values()),
            ),
        )

    def _check_term(self, job_id: JobId) -> Callable[[], Awaitable[None]]:
        """Return what makes certain that no newer leader knows the runs of a job that are not known here.

        Nothing of them is written: a leader that is overtaken would not learn of it, and kill them.
        """
        return lambda: self.store.check_term(job_id)

    async def _until_stored(self, job_id: JobId, write: Callable[[], Awaitable[None]]) -> None:
        """Write something of a job, however long that takes; the next cycle waits for it."""
        delays = backoff()
        while True:
            try:
                self.fence(job_id)
                await write()
                self.problem = ""
                return
            except Unavailable as error:
                self.problem = f"cannot store: {error}"
                log.warning("cannot store job %s, will try again: %s", job_id, error)
            except Fenced as error:
                if not self.on_fenced(job_id, error):
                    raise
                self._fenced.add(job_id)
                return
            await delays.wait()

    async def _wait_for_event(self) -> None:
        """Wait for an event or a deadline."""
        if not self._wake.is_set():
            due = self.core.idle_until()
            try:
                # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes with the event.
                async with asyncio.timeout(None if due is None else max(due - self._clock.monotonic(), 0.0)):
                    await self._wake.wait()
            except TimeoutError:
                return
        self._wake.clear()

    async def _run_action(self, action: Callable[[], Awaitable[None]], answer: Answer) -> None:
        try:
            await action()
            _answer(answer, None)
        except PelotonError as error:
            _answer(answer, error)

    def _check(self) -> None:
        if self._closed:
            raise Unavailable(self._closed)

    def _close(self) -> None:
        self._closed = "this job manager no longer leads"
        waiting = [answer for _, answer in (*self._batch, *self._requests, *self._inbox)]
        waiting += [answer for _, answer in self._actions]
        for answer in waiting:
            _answer(answer, Unavailable(self._closed))


def _count(cycle: Cycle, ended: int) -> None:
    steps = Counts(event.state for change in cycle.changes.values() for event in change.events)
    for state, number in steps.items():
        _STEPS[state].inc(number)
    ENDED_JOBS.inc(ended)
    for change in cycle.changes.values():
        if change.lost_seconds:
            LOST_SECONDS.labels(change.spec.pool_id).inc(change.lost_seconds)


def _answer(answer: Answer | None, reply: Any) -> None:
    if answer is None or answer.done():
        return
    if isinstance(reply, PelotonError):
        answer.set_exception(reply)
    else:
        answer.set_result(reply)
