"""A lane: one loop around one core. It gathers what has happened, decides, stores, then acts.

While one cycle is being stored the next one's events gather, so that the batches grow with the load. A lane
waits for its own writes only. It is the unit that a job manager leads: its fence says whether it may act.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from prometheus_client import Counter, Histogram

from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Turn
from jobmgr.core.state.events import Event, Now, WaitingTold
from jobmgr.core.state.instructions import Instruction
from jobmgr.engine.event_weight import weight
from jobmgr.engine.transient import backoff
from peloton.clock import Clock
from peloton.errors import Fenced, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import TaskState
from storage.interface import Fence, Store, unfenced

EVENTS_PER_TURN = 2000
log = logging.getLogger(__name__)
TURN_SECONDS = Histogram(
    "jobmgr_turn_seconds",
    "Time from a turn's events to its changes being stored.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
)
STEPS = Counter("jobmgr_task_steps", "Steps of tasks that are stored, by the state reached.", ["state"])
ENDED_JOBS = Counter("jobmgr_ended_jobs", "Jobs that ended while this instance led.")
_STEPS = {state: STEPS.labels(state.name) for state in TaskState}

NOTHING = WaitingTold(())
Answer = asyncio.Future[Any]
Send = Callable[[Sequence[Instruction]], None]


class Lane:
    """Own the core of some of the jobs. `run` must be running for `ask` and `between` to be answered."""

    def __init__(self, core: Core, store: Store, clock: Clock, send: Send, fence: Fence = unfenced) -> None:
        self.core = core
        self.store = store
        self.fence = fence
        """Raises where this lane may not act: it is asked before each write."""
        self.on_end: Callable[[CachedJob], None] = lambda job: None
        """Called with each job that has ended and is let go of."""
        self.trouble = ""
        """Why nothing can be stored at the moment; empty while all is well."""
        self._clock = clock
        self._send = send
        self._inbox: deque[tuple[Event, Answer | None]] = deque()
        self._between: deque[tuple[Callable[[], Awaitable[None]], Answer]] = deque()
        self._wake = asyncio.Event()
        self._batch: list[tuple[Event, Answer | None]] = []
        self._over = ""

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job that is in memory."""
        work = self.core.active.jobs.get(job_id)
        return None if work is None else work.job

    def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Take a job that is stored."""
        self.core.active.create(job_id, spec, runtime)
        self._wake.set()

    def recover(self, job: CachedJob) -> None:
        """Take a job that an earlier leader left, as it is stored."""
        self.core.active.recover(job)
        self._wake.set()

    def post(self, event: Event) -> None:
        """Hand the core an event that nobody waits for."""
        self._inbox.append((event, None))
        self._wake.set()

    def submit(self, event: Event) -> Answer:
        """Hand the core an event. The future ends, once that is stored, with the core's answer or error."""
        self._check()
        answer: Answer = asyncio.get_running_loop().create_future()
        self._inbox.append((event, answer))
        self._wake.set()
        return answer

    async def between(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something while nothing is being stored."""
        self._check()
        answer: Answer = asyncio.get_running_loop().create_future()
        self._between.append((work, answer))
        self._wake.set()
        await answer

    async def run(self) -> None:
        """Repeat the cycle for ever. Raises where the store refuses a write for good."""
        try:
            while True:
                await self._something()
                while self._between:
                    await self._do(*self._between.popleft())
                await self._turn()
        except Fenced as error:
            self.trouble = str(error)
            raise
        finally:
            self._end()

    async def _turn(self) -> None:
        self._batch = batch = self._gather()
        now = Now(self._clock.wall(), self._clock.monotonic())
        with TURN_SECONDS.time():
            turn = self.core.turn([event for event, _ in batch], now)
            await self._store(turn)
        ended = self.core.commit(turn)
        for job in ended:
            self.on_end(job)
        _count(turn, len(ended))
        self._send(turn.instructions)
        for (_, answer), reply in zip(batch, turn.replies, strict=True):
            _tell(answer, reply)
        if turn.more:
            self._wake.set()

    def _gather(self) -> list[tuple[Event, Answer | None]]:
        batch, size = [], 0
        while self._inbox and size < EVENTS_PER_TURN:
            item = self._inbox.popleft()
            batch.append(item)
            size += weight(item[0])
        if self._inbox:
            self._wake.set()
        return batch

    async def _store(self, turn: Turn) -> None:
        writes = [self._write(change) for change in turn.changes.values() if not change.empty]
        if len(writes) == 1:
            await writes[0]
        elif writes:
            await asyncio.gather(*writes)

    async def _write(self, change: Change) -> None:
        """Until it is stored: everything else waits for that."""
        delays = backoff()
        while True:
            try:
                self.fence()
                await self.store.write_all(change.job_id, change.tasks, change.events, change.runtime)
                self.trouble = ""
                return
            except Unavailable as error:
                self.trouble = f"cannot store: {error}"
                log.warning("cannot store job %s, will try again: %s", change.job_id, error)
            await delays.wait()

    async def _something(self) -> None:
        """Wait for an event, or for what falls due."""
        if not self._wake.is_set():
            due = self.core.idle_until()
            try:
                # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes with the event.
                async with asyncio.timeout(None if due is None else max(due - self._clock.monotonic(), 0.0)):
                    await self._wake.wait()
            except TimeoutError:
                return
        self._wake.clear()

    async def _do(self, work: Callable[[], Awaitable[None]], answer: Answer) -> None:
        try:
            await work()
            _tell(answer, None)
        except PelotonError as error:
            _tell(answer, error)

    def _check(self) -> None:
        if self._over:
            raise Unavailable(self._over)

    def _end(self) -> None:
        self._over = "this job manager no longer leads"
        waiting = [answer for _, answer in (*self._batch, *self._inbox)]
        waiting += [answer for _, answer in self._between]
        for answer in waiting:
            _tell(answer, Unavailable(self._over))


def _count(turn: Turn, ended: int) -> None:
    steps = Counts(event.state for change in turn.changes.values() for event in change.events)
    for state, number in steps.items():
        _STEPS[state].inc(number)
    ENDED_JOBS.inc(ended)


def _tell(answer: Answer | None, reply: Any) -> None:
    if answer is None or answer.done():
        return
    if isinstance(reply, PelotonError):
        answer.set_exception(reply)
    else:
        answer.set_result(reply)
