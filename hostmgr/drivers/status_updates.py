"""Status updates from the cluster manager into the ring that clients pull from, and acknowledgements back.

A status is acknowledged only when jobmgr has passed it. Where the connection ends before that, the cluster
manager sends it again, and the ring knows whether it has been passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, NoReturn

from prometheus_client import Counter, Gauge

from hostmgr.backend.interface import Backend
from hostmgr.core.cluster_manager.acknowledgements import Acknowledgements
from hostmgr.core.cluster_manager.events import Acknowledgement, StatusEvent, StatusUpdate
from hostmgr.core.cluster_manager.instructions import HandleStatuses
from hostmgr.core.cluster_manager.status_rules import StatusRules
from peloton.errors import Unavailable
from peloton.eventstream import Added, EventRing, Numbered
from peloton.model.ids import MesosTaskId
from peloton.model.shard import shard_of
from peloton.wire.eventstream import status_event

CLIENTS = ("jobmgr", "resmgr")
HOLDER = "jobmgr"
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

    def __init__(self, ring: EventRing[Entry], rules: StatusRules, now: Callable[[], float]) -> None:
        self.ring = ring
        self._rules = rules
        self._now = now
        self._acknowledgements = Acknowledgements()
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
        self._acknowledgements.connected()

    def disconnected(self) -> None:
        """Drop acknowledgements: a new connection brings the unacknowledged statuses again."""
        self._acknowledgements.disconnected()

    def take(self, statuses: Iterable[StatusEvent]) -> None:
        """Handle statuses in their order, and wake the waiting clients."""
        handling = self._rules.judge(statuses, self._now())
        results = Counts(map(self._publish, handling.publish))
        results["requested again"] += handling.requested_again
        self._report(handling)
        for result, count in results.items():
            STATUSES.labels(result).inc(count)
        self._measure()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _report(self, handling: HandleStatuses) -> None:
        """Report statuses that are not for the clients, and acknowledge those that nobody can read."""
        for run in handling.second_launches:
            log.error("a second launch of %s was refused; the first one still runs", run)
        for acknowledgement in handling.skip:
            log.warning("task %s is in a state of Mesos that is not known here", acknowledgement.run)
            self._queue(acknowledgement)
        STATUSES.labels("second launch").inc(len(handling.second_launches))
        STATUSES.labels("unknown state").inc(len(handling.skip))

    def _publish(self, update: StatusUpdate) -> str:
        """Append a status to the ring; return the result for the metric."""
        encoded = status_event(self.ring.end, update.wire)
        acknowledgement = update.acknowledgement
        entry, shard = Entry(acknowledgement, encoded), _shard_of(acknowledgement.run)
        added = self.ring.append(entry, acknowledgement.uuid, shard)
        if added is Added.PASSED:
            self._queue(acknowledgement)
        elif added is Added.APPENDED and self.watched is not None:
            self.watched.append(encoded)
        elif added is Added.FULL:
            self._rules.missed(acknowledgement, self._now())
        return added.value

    # From the clients.

    async def wait(
        self, client: str, stream_id: str, begin: int, purge: int, limit: int, timeout: float
    ) -> list[Numbered[Entry]]:
        """Return events from `begin` on as soon as there are any, or none after `timeout` seconds.

        Raises as `purge` and `read` of the ring do, and Unavailable when this instance no longer leads.
        """
        self._purge(client, stream_id, begin, purge, None)
        if begin == self.ring.end and timeout > 0:
            await self._wait_for_events(timeout)
        return self.ring.read(begin, limit)

    async def wait_for_shards(
        self,
        client: str,
        stream_id: str,
        begin: int,
        purge: int,
        limit: int,
        timeout: float,
        shards: Collection[int],
    ) -> tuple[list[Numbered[Entry]], int]:
        """Do as `wait`, for a caller that has some of the shards; return also the offset at which it goes on.

        It returns when there are events of other shards, too: the caller is done with them by its next call,
        and the ring is purged up to what all are done with.
        """
        self._purge(client, stream_id, begin, purge, shards)
        if begin == self.ring.end and timeout > 0:
            await self._wait_for_events(timeout)
        return self.ring.read_shards(begin, limit, shards)

    def _purge(
        self, client: str, stream_id: str, begin: int, purge: int, shards: Collection[int] | None
    ) -> None:
        for passed in self.ring.purge(client, stream_id, begin, purge, shards):
            self._queue(passed.event.acknowledgement)
        self._measure()

    def pass_early(self, stream_id: str, offsets: Iterable[int]) -> None:
        """Acknowledge events that jobmgr has finished before earlier ones. Raises StreamChanged."""
        for passed in self.ring.pass_early(stream_id, offsets):
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
        if self._acknowledgements.add(acknowledgement):
            self._acknowledge.set()

    async def acknowledge(self, backend: Backend) -> NoReturn:
        """Acknowledge in batches the statuses that jobmgr has passed."""
        while True:
            await self._acknowledge.wait()
            self._acknowledge.clear()
            try:
                while batch := self._acknowledgements.batch():
                    backend.acknowledge(batch)
                    self._acknowledgements.sent(len(batch))
                    ACKNOWLEDGED.inc(len(batch))
                    await backend.drain()
            except Unavailable as error:
                # Without a connection the queue is empty; where the fence refused, the batch is sent again.
                log.debug("acknowledgements wait: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                if len(self._acknowledgements):
                    self._acknowledge.set()


def _shard_of(run: MesosTaskId) -> int:
    """Return the shard of a run's job. A run that is none of ours has one, too."""
    return shard_of(run.rsplit("-", 2)[0])
