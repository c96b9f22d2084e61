"""The loop that drives the core: time, cycles of admission, and signals to waiting callers."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from peloton.clock import NANOSECONDS, Clock
from peloton.model.ids import Run
from peloton.model.states import TaskType
from peloton.new_calls import NEW_CALLS
from peloton.sharding.claims import terms_of
from peloton.waking import Signal, tick, until_tick
from resmgr.core.placing.expiry import AT_ONCE
from resmgr.core.preemption.policy import Victim
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.cooperative import Steps, T
from resmgr.core.state.entities import Holder
from resmgr.drivers.metrics import PREEMPTED
from resmgr.drivers.preemption_log import PreemptionLog
from resmgr.wire.tasks import Translator

LEASE_SECONDS = 1.0
"""Seconds between two checks of the leases."""
TOUCH_SECONDS = 5.0
"""How often the lease of a caller in a long poll is renewed."""
LONGEST_POLL = 60.0
RESTING_SECONDS = 0.5
"""Seconds between two cycles while nothing waits for one."""
SPARE_SECONDS = 2.0
"""Seconds between two looks whether tasks that are being preempted are still needed."""
MOST_CLAIMS = 1000
"""Claims to shards that are known; job managers make a few each, until owners change."""
log = logging.getLogger(__name__)


async def run_in_steps(steps: Steps[T]) -> T:
    """Run a generator of steps and let other tasks run after each step."""
    while True:
        begun = time.perf_counter()
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await NEW_CALLS.let_in(time.perf_counter() - begun)


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Periods of the loop, in seconds."""

    admission_interval: float
    """Longest time between two cycles."""
    admission_pause: float
    """Least time between two cycles, unless more may be admitted at once."""
    entitlement_interval: float
    preemption_period: float


class Driver:
    """Own the scheduler for one term. Everything is called from the event loop's thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        times: LoopTimes,
        clock: Clock,
        members: Callable[[], Collection[str] | None] = lambda: None,
    ) -> None:
        """Drive a scheduler.

        `members` returns the present instances as `<role>/<id>`; None where that is not known.
        """
        self.scheduler = scheduler
        self.preemptor = scheduler.preemptor
        self._times = times
        self.clock = clock
        self.leader_id = uuid.uuid4().hex
        """The id of this term: a caller that knows another one may have missed what was enqueued there."""
        self.translator = Translator()
        self.gangs = {kind: Signal() for kind in TaskType}
        self._claims: set[tuple[str, str]] = set()
        """What job managers have said of their shards, and is known."""
        self.placements = Signal()
        self.preemptions = Signal()
        self.reasons = Signal()
        self.restored = asyncio.Event()
        """Set when the stored tasks on hosts are known: nothing is admitted before."""
        self.recovered = asyncio.Event()
        """Set when the stored waiting tasks are queued again."""
        self._checking = False
        """Whether a preemption check is under way."""
        self.preempted = PreemptionLog()
        """The gangs that were preempted last."""
        self._members = members
        self._wake = asyncio.Event()

    def now(self) -> float:
        """Return seconds on the monotonic clock."""
        return self.clock.monotonic()

    def wall(self, moment: float) -> int:
        """Return nanoseconds since 1970 of a moment on the monotonic clock."""
        return self.clock.wall() - round((self.now() - moment) * NANOSECONDS)

    def wake(self) -> None:
        """Wake admission and waiting callers where the scheduler has something for them."""
        scheduler = self.scheduler
        if scheduler.changed:
            self._wake.set()
        if scheduler.placements:
            self.placements.fire()

    def take_claim(self, name: str, claim: str) -> None:
        """Take what a job manager says of the shards that it owns. Raises InvalidArgument."""
        if (name, claim) in self._claims:
            return
        returned = self.scheduler.take_claim(name, terms_of(claim), self.now())
        if len(self._claims) >= MOST_CLAIMS:
            self._claims.clear()
        self._claims.add((name, claim))
        if returned:
            log.info("%d gangs return: %s has got their shards", returned, name)
        self.wake()

    async def poll(
        self, holder: Holder | None, signal: Signal, ready: Callable[[], bool], milliseconds: int
    ) -> None:
        """Wait until `ready`, at most that long, and renew the holder's lease meanwhile."""
        time = asyncio.get_running_loop().time
        deadline = time() + min(milliseconds / 1000, LONGEST_POLL)
        while not ready() and (rest := deadline - time()) > 0:
            await signal.wait(min(rest, TOUCH_SECONDS))
            if holder is not None:
                holder.last_seen = self.now()

    def cycle(self) -> bool:
        """Run deadlines, admission and reasons once; return whether more may be admitted at once."""
        scheduler, now = self.scheduler, self.now()
        late = scheduler.expire(now) >= AT_ONCE
        more = scheduler.admit(now) or late
        for kind, ready in scheduler.ready.items():
            if ready:
                self.gangs[kind].fire()
        if scheduler.reasons.flush(now):
            self.reasons.fire()
        return more

    async def run(self) -> None:
        """Run cycles once the tasks on hosts are known.

        A cycle begins when something has changed, and at least every `admission.interval` seconds while
        anything waits.
        """
        await self.restored.wait()
        times = self._times
        while True:
            if not self._wake.is_set():
                resting = until_tick(RESTING_SECONDS) if self.scheduler.rests else 0.0
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(times.admission_interval, resting)):
                        await self._wake.wait()
            self._wake.clear()
            begun = time.perf_counter()
            if self.cycle():
                self._wake.set()
                await NEW_CALLS.let_in(time.perf_counter() - begun)
            else:
                await asyncio.sleep(times.admission_pause)

    async def keep_sharing(self) -> None:
        """Share the capacity anew periodically."""
        while True:
            await asyncio.sleep(self._times.entitlement_interval)
            self.scheduler.entitle()
            self.wake()

    async def keep_preempting(self) -> None:
        """Run preemption checks periodically, once all stored tasks are known."""
        await self.recovered.wait()
        while True:
            await asyncio.sleep(self._times.preemption_period)
            await self.preempt()

    async def keep_sparing(self) -> None:
        """Look periodically, while tasks are being preempted, which of them are not needed any more."""
        while True:
            await tick(SPARE_SECONDS)
            if not self._checking and self.preemptor.spare(self.now()):
                self.wake()

    def keep(self, runs: Iterable[Run]) -> int:
        """Spare tasks that jobmgr keeps because of their SLA; return how many were being preempted."""
        count = self.preemptor.keep(runs, self.now())
        self.wake()
        return count

    async def preempt(self) -> list[Victim]:
        """Run one check, with other tasks running between its steps; return the victims."""
        self._checking = True
        try:
            victims = await run_in_steps(self.preemptor.steps(self.now()))
        finally:
            self._checking = False
        tasks = Counter[tuple[str, str]]()
        for victim in victims:
            tasks[victim.pool, victim.policy] += len(victim.runs)
        for labels, count in tasks.items():
            PREEMPTED.labels(*labels).inc(count)
        for (pool, reason), count in Counter((each.pool, each.reason) for each in victims).items():
            log.info("%d gangs of %s are preempted: %s", count, pool, reason)
        self.preempted.note(victims, self.clock.wall())
        if len(self.preemptor):
            self.preemptions.fire()
        self.wake()
        return victims

    async def watch_leases(self) -> None:
        """Take back periodically the leases of processes that are absent or silent."""
        while True:
            await tick(LEASE_SECONDS)
            count = self.scheduler.expire_leases(self.now(), self._members())
            if count:
                log.warning("%d gangs are taken back from processes that are absent or silent", count)
