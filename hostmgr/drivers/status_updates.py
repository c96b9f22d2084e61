"""A status' way: from Mesos into the ring, to the clients that pull, and back to Mesos as an acknowledgement.

Mesos is told only of what jobmgr has passed. What cannot be told, because the connection is gone, Mesos
sends again, and the ring knows it for passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NoReturn, Protocol

from prometheus_client import Counter, Gauge

from hostmgr.core.launches import Launches
from hostmgr.core.reconcile import Reconciler, Verdict
from hostmgr.core.runs import Runs
from hostmgr.mesos.calls import Call, Calls
from mesos.v1 import mesos_pb2
from peloton.errors import Unavailable
from peloton.eventstream import Added, EventRing, Numbered
from peloton.private.eventstream import eventstream_pb2
from peloton.wire.mesos import TASK_STATES, is_of_another_launch

CLIENTS = ("jobmgr", "resmgr")
HOLDER = "jobmgr"
ACK_BATCH = 256
RETRY_SECONDS = 0.2
STATUSES = Counter("hostmgr_statuses", "Statuses from Mesos, by what became of them.", ["result"])
ACKNOWLEDGED = Counter("hostmgr_acknowledged", "Statuses acknowledged to Mesos.")
PENDING = Gauge("hostmgr_events_pending", "Events that jobmgr has not passed.")
log = logging.getLogger(__name__)
Event = eventstream_pb2.Event


class Caller(Protocol):
    """The driver, as far as it is needed here."""

    def send(self, *calls: Call) -> None: ...

    async def drain(self) -> None: ...


class Statuses:
    def __init__(
        self,
        ring: EventRing[Event],
        runs: Runs,
        launches: Launches,
        reconciler: Reconciler,
        now: Callable[[], float],
    ) -> None:
        self.ring = ring
        self._launches = launches
        self._runs = runs
        self._reconciler = reconciler
        self._now = now
        self._calls: Calls | None = None
        self._to_acknowledge: deque[mesos_pb2.TaskStatus] = deque()
        self._acknowledge = asyncio.Event()
        self._waiters: set[asyncio.Future[None]] = set()
        self._uncrowded = asyncio.Event()
        self._uncrowded.set()
        self._closed = False
        PENDING.set_function(lambda: ring.pending)

    async def uncrowded(self) -> None:
        """Wait until at most half of the ring is events that jobmgr has not passed."""
        await self._uncrowded.wait()

    def _measure(self) -> None:
        if self.ring.pending > self.ring.capacity // 2:
            self._uncrowded.clear()
        else:
            self._uncrowded.set()

    # From Mesos.

    def connected(self, calls: Calls) -> None:
        self._calls = calls

    def disconnected(self) -> None:
        """Acknowledgements are void: a new subscription brings the unacknowledged statuses again."""
        self._calls = None
        self._to_acknowledge.clear()

    def take(self, statuses: Iterable[mesos_pb2.TaskStatus]) -> None:
        """Statuses in the order in which they came."""
        for result, count in Counts(map(self._take, statuses)).items():
            STATUSES.labels(result).inc(count)
        self._measure()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _take(self, status: mesos_pb2.TaskStatus) -> str:
        """What became of it."""
        if not status.HasField("state"):
            return self._leave(status)
        if is_of_another_launch(status):
            log.error("a second launch of %s was refused, which lives on", status.task_id.value)
            return "of another launch"
        run = status.task_id.value
        agent_id = status.agent_id.value or self._runs.agent(run)
        unknown = status.state == mesos_pb2.TASK_UNKNOWN
        over = TASK_STATES[status.state].terminal
        missing = over and status.reason == mesos_pb2.TaskStatus.REASON_RECONCILIATION
        if missing and (self._runs.unheard(run) or self._reconciler.doubted(run)):
            self._runs.confirm(run)
            self._reconciler.doubt(run, agent_id, self._now())
            return "asked again"
        if self._reconciler.judge(run, agent_id, unknown, self._now()) is Verdict.ASK_AGAIN:
            return "asked again"
        self._follow(run, agent_id, over)
        reason = mesos_pb2.TaskStatus.Reason.Name(status.reason) if status.HasField("reason") else ""
        self._launches.hear(run, agent_id, TASK_STATES[status.state], reason, self._now())
        if missing:
            self._runs.give_up(run)
        event = Event(offset=self.ring.end, type=Event.MESOS_TASK_STATUS, mesosTaskStatus=status)
        added = self.ring.append(event, status.uuid)
        if added is Added.PASSED:
            self._queue(status)
        elif added is Added.FULL and not status.uuid:
            self._reconciler.overlooked(self._now())
        return added.value

    def _leave(self, status: mesos_pb2.TaskStatus) -> str:
        """Mesos is told at once that it came, for it would hold back what follows."""
        log.warning("task %s is in a state of Mesos that is not known here", status.task_id.value)
        self._runs.confirm(status.task_id.value)
        if status.uuid:
            self._queue(status)
        return "unknown state"

    def _follow(self, run: str, agent_id: str, over: bool) -> None:
        self._runs.confirm(run)
        if over:
            self._runs.remove(run)
        elif agent_id:
            self._runs.put(run, agent_id)

    # From the clients.

    async def wait(
        self, client: str, stream_id: str, begin: int, purge: int, limit: int, timeout: float
    ) -> list[Numbered[Event]]:
        """Events from `begin` on, as soon as there is one or after `timeout` seconds. Raises what the ring's
        `purge` and `read` raise, and Unavailable when this instance stops to lead."""
        for passed in self.ring.purge(client, stream_id, begin, purge):
            if passed.key:
                self._queue(passed.event.mesosTaskStatus)
        self._measure()
        if begin == self.ring.end and timeout > 0:
            await self._for_news(timeout)
        return self.ring.read(begin, limit)

    async def _for_news(self, timeout: float) -> None:
        if self._closed:
            raise Unavailable("this hostmgr no longer leads")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout)
            if waiter.done():
                waiter.result()
        finally:
            self._waiters.discard(waiter)

    def close(self) -> None:
        """Let the clients go that wait."""
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(Unavailable("this hostmgr no longer leads"))

    # To Mesos.

    def _queue(self, status: mesos_pb2.TaskStatus) -> None:
        if self._calls is not None:
            self._to_acknowledge.append(status)
            self._acknowledge.set()

    async def acknowledge(self, caller: Caller) -> NoReturn:
        """Tell Mesos, batch by batch, what jobmgr has passed."""
        while True:
            await self._acknowledge.wait()
            self._acknowledge.clear()
            try:
                while self._to_acknowledge:
                    self._send_batch(caller)
                    await caller.drain()
            except Unavailable as error:
                # Without a connection nothing is left to tell; without leave to send it is soon tried again.
                log.debug("acknowledgements wait: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                if self._to_acknowledge:
                    self._acknowledge.set()

    def _send_batch(self, caller: Caller) -> None:
        queue, calls = self._to_acknowledge, self._calls
        if calls is not None:
            batch = list(islice(queue, ACK_BATCH))
            caller.send(*map(calls.acknowledge, batch))
            for _ in batch:
                queue.popleft()
            ACKNOWLEDGED.inc(len(batch))
