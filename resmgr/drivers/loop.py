"""Drives the core: hands it the time, lets admission take its turns, wakes who waits for something."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

from peloton.clock import NANOSECONDS, Clock
from peloton.model.states import TaskType
from resmgr.config import ResmgrSettings
from resmgr.core.cooperative import Steps, T
from resmgr.core.leases import Holder
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.preemption.policy import Victim
from resmgr.core.scheduler import AT_ONCE, Scheduler
from resmgr.drivers.metrics import PREEMPTED
from resmgr.services.translate import Translator

LEASE_SECONDS = 1.0
"""How often leases are looked at."""
HEARD_SECONDS = 5.0
"""How often a caller in a long poll counts as heard."""
LONGEST_POLL = 60.0
log = logging.getLogger(__name__)


class Signal:
    """Something changed: wakes all who wait for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def fire(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout: float) -> None:
        """Returns at the next change, or after `timeout` seconds."""
        event = self._event
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await event.wait()


async def in_turns(steps: Steps[T]) -> T:
    """Take the steps, letting others have their turn after each."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


class Driver:
    """Owns the scheduler for one term. All is called from the event loop's thread."""

    def __init__(
        self,
        settings: ResmgrSettings,
        clock: Clock,
        members: Callable[[], Collection[str] | None] = lambda: None,
    ) -> None:
        """`members` tells the instances that are there, as `<role>/<id>`; None where that is not known."""
        self.settings = settings
        self.clock = clock
        self.leader_id = uuid.uuid4().hex
        """Of this term: whoever knows another one may have missed what was enqueued there."""
        self.scheduler = Scheduler(settings.policy, stream_id=uuid.uuid4().hex)
        preemption = settings.preemption
        self.preemptor = Preemptor(self.scheduler, preemption.rules, preemption.queue_limit)
        self.translator = Translator()
        self.gangs = {kind: Signal() for kind in TaskType}
        self.placements = Signal()
        self.preemptions = Signal()
        self.reasons = Signal()
        self.restored = asyncio.Event()
        """Set when what the store said of tasks on hosts is known: before that nothing is admitted."""
        self.recovered = asyncio.Event()
        """Set when what the store held is queued again."""
        self._members = members
        self._wake = asyncio.Event()

    def now(self) -> float:
        return self.clock.monotonic()

    def wall(self, moment: float) -> int:
        """Nanoseconds since 1970 of a moment on the monotonic clock."""
        return self.clock.wall() - round((self.now() - moment) * NANOSECONDS)

    def touched(self) -> None:
        """To be called after what may let admission, or a waiting caller, go on."""
        scheduler = self.scheduler
        if scheduler.changed:
            self._wake.set()
        if scheduler.placed:
            self.placements.fire()

    async def poll(
        self, holder: Holder | None, signal: Signal, ready: Callable[[], bool], milliseconds: int
    ) -> None:
        """Wait until `ready`, for so long at most. The holder is heard of all the while."""
        time = asyncio.get_running_loop().time
        deadline = time() + min(milliseconds / 1000, LONGEST_POLL)
        while not ready() and (rest := deadline - time()) > 0:
            await signal.wait(min(rest, HEARD_SECONDS))
            if holder is not None:
                holder.heard = self.now()

    def turn(self) -> bool:
        """What is due now: deadlines, a turn of admission, reasons; whether more may be admitted at once."""
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
        """Turn after turn, as soon as something changed and at least every `admission.interval` seconds, once
        it is known what tasks hold already."""
        await self.restored.wait()
        admission = self.settings.admission
        while True:
            if not self._wake.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(admission.interval):
                        await self._wake.wait()
            self._wake.clear()
            if self.turn():
                self._wake.set()
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(admission.pause)

    async def keep_sharing(self) -> None:
        """Entitlement from time to time, whatever happened."""
        while True:
            await asyncio.sleep(self.settings.entitlement_interval)
            self.scheduler.entitle()
            self.touched()

    async def keep_preempting(self) -> None:
        """Check after check, once all that is stored is known."""
        await self.recovered.wait()
        while True:
            await asyncio.sleep(self.settings.preemption.period)
            await self.preempt()

    async def preempt(self) -> list[Victim]:
        """One check, others having their turn between its steps; who gives way."""
        victims = await in_turns(self.preemptor.steps(self.now()))
        tasks = Counter[tuple[str, str]]()
        for victim in victims:
            tasks[victim.pool, victim.policy] += len(victim.runs)
        for labels, count in tasks.items():
            PREEMPTED.labels(*labels).inc(count)
        for (pool, reason), count in Counter((each.pool, each.reason) for each in victims).items():
            log.info("%d gangs of %s give way: %s", count, pool, reason)
        if len(self.preemptor):
            self.preemptions.fire()
        self.touched()
        return victims

    async def watch_leases(self) -> None:
        """Take back what is leased to processes that are gone or silent."""
        while True:
            await asyncio.sleep(LEASE_SECONDS)
            count = self.scheduler.lapse(self.now(), self._members())
            if count:
                log.warning("%d gangs came back from processes that are gone or silent", count)
