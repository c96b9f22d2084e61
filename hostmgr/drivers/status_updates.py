"""Status updates from the cluster manager into the ring that clients pull from, and acknowledgements back.

A status is acknowledged only when jobmgr has passed it. Where the connection ends before that, the cluster
manager sends it again, and the ring knows whether it has been passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, NoReturn, assert_never

from prometheus_client import Counter, Gauge

from hostmgr.backend.interface import (
    Acknowledgement,
    Backend,
    SecondLaunchRefused,
    StatusEvent,
    StatusUpdate,
    UnreadableStatus,
)
from hostmgr.core.launches import Launches
from hostmgr.core.reconcile import Reconciler, Verdict
from hostmgr.core.runs import Runs
from peloton.errors import Unavailable
from peloton.eventstream import Added, EventRing, Numbered
from peloton.wire.eventstream import status_event

CLIENTS = ("jobmgr", "resmgr")
HOLDER = "jobmgr"
ACK_BATCH = 256
RETRY_SECONDS = 0.2
STATUSES = Counter("hostmgr_statuses", "Statuses from Mesos, by result.", ["result"])
ACKNOWLEDGED = Counter("hostmgr_acknowledged", "Statuses acknowledged to Mesos.")
PENDING = Gauge("hostmgr_events_pending", "Events in the ring that jobmgr has not passed yet.")
log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A status in the ring, encoded once for all clients."""

    acknowledgement: Acknowledgement
    encoded: bytes
    """See ``status_event``."""


class StatusUpdates:
    """Keep status updates in the ring for its clients, and acknowledge those that jobmgr has passed."""

    def __init__(
        self,
        ring: EventRing[Entry],
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
        self._connected = False
        self._to_acknowledge: deque[Acknowledgement] = deque()
        self._acknowledge = asyncio.Event()
        self._waiters: set[asyncio.Future[None]] = set()
        self._uncrowded = asyncio.Event()
        self._uncrowded.set()
        self._closed = False
        self.watched: list[bytes] | None = None
        """New events, encoded, since a watch took the last ones. None: nobody watches them."""
        PENDING.set_function(lambda: ring.pending)

    async def uncrowded(self) -> None:
        """Wait until at most half of the ring is events that jobmgr has not passed."""
        await self._uncrowded.wait()

    def _measure(self) -> None:
        if self.ring.pending > self.ring.capacity // 2:
            self._uncrowded.clear()
        else:
            self._uncrowded.set()

    # From the cluster manager.

    def connected(self) -> None:
        """Queue acknowledgements from now on."""
        self._connected = True

    def disconnected(self) -> None:
        """Drop acknowledgements: a new connection brings the unacknowledged statuses again."""
        self._connected = False
        self._to_acknowledge.clear()

    def take(self, statuses: Iterable[StatusEvent]) -> None:
        """Handle statuses in their order, and wake the waiting clients."""
        for result, count in Counts(map(self._take, statuses)).items():
            STATUSES.labels(result).inc(count)
        self._measure()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _take(self, event: StatusEvent) -> str:
        """Handle one status; return the result for the metric."""
        if isinstance(event, StatusUpdate):
            return self._take_update(event)
        if isinstance(event, SecondLaunchRefused):
            log.error("a second launch of %s was refused; the first one still runs", event.run)
            return "second launch"
        if isinstance(event, UnreadableStatus):
            return self._skip(event.acknowledgement)
        assert_never(event)

    def _take_update(self, update: StatusUpdate) -> str:
        status, now = update.status, self._now()
        run, state = status.mesos_task_id, status.state
        agent_id = status.agent_id or self._runs.agent(run)
        if update.missing and (self._runs.is_unconfirmed(run) or self._reconciler.distrusted(run)):
            self._runs.confirm(run)
            self._reconciler.distrust(run, agent_id, now)
            return "requested again"
        if self._reconciler.judge(run, agent_id, update.unknown, now) is Verdict.RETRY:
            return "requested again"
        self._follow(run, agent_id, state.terminal)
        self._launches.observe(run, agent_id, state, status.reason, now)
        if update.missing:
            self._runs.give_up(run)
        return self._append(update)

    def _append(self, update: StatusUpdate) -> str:
        encoded = status_event(self.ring.end, update.wire)
        acknowledgement = update.acknowledgement
        added = self.ring.append(Entry(acknowledgement, encoded), acknowledgement.uuid)
        if added is Added.PASSED:
            self._queue(acknowledgement)
        elif added is Added.APPENDED and self.watched is not None:
            self.watched.append(encoded)
        elif added is Added.FULL and not acknowledgement.uuid:
            self._reconciler.reconcile_soon(self._now())
        return added.value

    def _skip(self, acknowledgement: Acknowledgement) -> str:
        """Acknowledge at once, because Mesos holds back the following statuses."""
        log.warning("task %s is in a state of Mesos that is not known here", acknowledgement.run)
        self._runs.confirm(acknowledgement.run)
        if acknowledgement.uuid:
            self._queue(acknowledgement)
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
    ) -> list[Numbered[Entry]]:
        """Return events from `begin` on as soon as there are any, or none after `timeout` seconds.

        Raises as `purge` and `read` of the ring do, and Unavailable when this instance no longer leads.
        """
        for passed in self.ring.purge(client, stream_id, begin, purge):
            if passed.key:
                self._queue(passed.event.acknowledgement)
        self._measure()
        if begin == self.ring.end and timeout > 0:
            await self._wait_for_events(timeout)
        return self.ring.read(begin, limit)

    def pass_early(self, stream_id: str, offsets: Iterable[int]) -> None:
        """Acknowledge events that jobmgr has finished before earlier ones. Raises StreamChanged."""
        for passed in self.ring.pass_early(stream_id, offsets):
            if passed.key:
                self._queue(passed.event.acknowledgement)

    async def _wait_for_events(self, timeout: float) -> None:
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
        """End the waits of all clients."""
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(Unavailable("this hostmgr no longer leads"))

    # To the cluster manager.

    def _queue(self, acknowledgement: Acknowledgement) -> None:
        if self._connected:
            self._to_acknowledge.append(acknowledgement)
            self._acknowledge.set()

    async def acknowledge(self, backend: Backend) -> NoReturn:
        """Acknowledge in batches the statuses that jobmgr has passed."""
        while True:
            await self._acknowledge.wait()
            self._acknowledge.clear()
            try:
                while self._to_acknowledge:
                    self._send_batch(backend)
                    await backend.drain()
            except Unavailable as error:
                # Without a connection the queue is empty; where the fence refused, the batch is sent again.
                log.debug("acknowledgements wait: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                if self._to_acknowledge:
                    self._acknowledge.set()

    def _send_batch(self, backend: Backend) -> None:
        queue = self._to_acknowledge
        batch = list(islice(queue, ACK_BATCH))
        backend.acknowledge(batch)
        for _ in batch:
            queue.popleft()
        ACKNOWLEDGED.inc(len(batch))
