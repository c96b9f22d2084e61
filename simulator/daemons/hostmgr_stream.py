"""The stream of statuses of the simulated host manager, and their acknowledgement to the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hostmgr.core.cluster_manager.acknowledgements import Acknowledgements
from hostmgr.core.cluster_manager.events import Acknowledgement, StatusUpdate
from hostmgr.core.term import Term
from peloton.errors import PelotonError
from peloton.eventstream import Added, EventRing
from peloton.model.task import TaskStatus
from simulator.world.kernel import Life, Timer
from simulator.world.network import LATER, Reply
from simulator.world.universe import Universe

CLIENTS = ("jobmgr", "resmgr")


@dataclass(slots=True)
class _Poll:
    """A client that waits for statuses."""

    begin: int
    limit: int
    reply: Reply
    timer: Timer | None = None

    def end(self) -> None:
        """Cancel the end of the wait."""
        if self.timer is not None:
            self.timer.cancel()


class StatusStream:
    """The ring of statuses, and who waits for the next ones."""

    def __init__(
        self, universe: Universe, life: Life, term: int, core: Term, connected: Callable[[], bool]
    ) -> None:
        """Begin without statuses; `connected` tells whether this term has a connection to the cluster."""
        self._kernel = universe.kernel
        self._cluster = universe.cluster
        self._life = life
        self._core = core
        self._connected = connected
        self._ring: EventRing[tuple[Acknowledgement, TaskStatus]] = EventRing(
            f"stream-{term}", CLIENTS, "jobmgr", universe.ring
        )
        self.acknowledgements = Acknowledgements()
        self._polls: dict[str, _Poll] = {}
        self._acknowledging = False
        self.acknowledges_early = False
        """Whether statuses are acknowledged when they arrive: a bug to plant."""

    def answer(self) -> None:
        """Answer all who wait."""
        for client in list(self._polls):
            self._answer_poll(client)

    def publish(self, update: StatusUpdate) -> None:
        """Append a status."""
        acknowledgement = update.acknowledgement
        added = self._ring.append((acknowledgement, update.status), acknowledgement.uuid)
        if added is Added.PASSED or self.acknowledges_early:
            self.acknowledge_later(acknowledgement)
        elif added is Added.FULL:
            self._core.statuses.missed(acknowledgement, self._kernel.now)

    def open(self, client: str) -> tuple[str, int]:
        """Return the stream and the first offset for a client: resmgr also reads what it has purged before.

        What jobmgr has not stored yet is in the stream, and in no store.
        """
        first, purged = self._ring.start(client)
        return self._ring.stream_id, max(first, purged) if client == "jobmgr" else first

    def pull(
        self,
        reply: Reply,
        client: str,
        stream: str,
        begin: int,
        purge: int,
        limit: int,
        wait: float,
    ) -> Any:
        """Return events from `begin` on with their offsets, waiting for some. Raises as the ring does."""
        for passed in self._ring.purge(client, stream, begin, purge):
            self.acknowledge_later(passed.event[0])
        former = self._polls.pop(client, None)
        if former is not None:
            former.end()
            former.reply(())
        if begin < self._ring.end or wait <= 0:
            return self._read(begin, limit)
        poll = self._polls[client] = _Poll(begin, limit, reply)
        if wait < math.inf:
            poll.timer = self._kernel.after(wait, self._life, self._answer_poll, client)
        return LATER

    def _read(self, begin: int, limit: int) -> tuple[tuple[int, TaskStatus], ...]:
        return tuple((each.offset, each.event[1]) for each in self._ring.read(begin, limit))

    def _answer_poll(self, client: str) -> None:
        poll = self._polls.pop(client, None)
        if poll is None:
            return
        poll.end()
        try:
            poll.reply(self._read(poll.begin, poll.limit))
        except PelotonError as error:
            poll.reply(error)

    def acknowledge_later(self, acknowledgement: Acknowledgement) -> None:
        """Acknowledge a status soon, together with others."""
        if self.acknowledgements.add(acknowledgement) and not self._acknowledging:
            self._acknowledging = True
            self._kernel.after(0.0, self._life, self._acknowledge)

    def _acknowledge(self) -> None:
        self._acknowledging = False
        while batch := self.acknowledgements.batch():
            self._kernel.point(self._life, "before it acknowledges statuses")
            if not self._connected():
                return
            self._cluster.acknowledge(batch)
            self.acknowledgements.sent(len(batch))
