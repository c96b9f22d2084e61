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
from simulator.world.network import LATER, STEADY_SECONDS, Reply
from simulator.world.universe import Universe

CLIENTS = ("jobmgr", "resmgr")
Events = tuple[tuple[int, TaskStatus], ...]
"""Statuses with their offsets."""
Take = Callable[[Events], None]


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


class Follower:
    """A client to which statuses are handed where nothing fails, at the moments at which it would pull them.

    It is handed what has come a message's time after it has come, but not sooner than `gather` seconds after
    the last time.
    """

    def __init__(
        self, stream: StatusStream, client: str, begin: int, gather: float, limit: int, take: Take
    ) -> None:
        self._stream = stream
        self.client = client
        self._next = begin
        self._gather = gather + STEADY_SECONDS
        self._limit = limit
        self._take = take
        self._from = 0.0
        """When it would pull again."""
        self._due = False
        """Whether statuses are on their way to it."""

    def published(self) -> None:
        """Have statuses handed over, now that there are some."""
        stream = self._stream
        if self._due or self._next >= stream.ring.end:
            return
        self._due = True
        now = stream.kernel.now
        if now < self._from:
            stream.kernel.after(self._from - now, stream.life, self._hand_over)
        else:
            stream.kernel.after(STEADY_SECONDS, stream.life, self._hand, self._read())

    def _read(self) -> Events:
        events = self._stream.read(self._next, self._limit)
        self._next = events[-1][0] + 1
        return events

    def _hand_over(self) -> None:
        self._hand(self._read())

    def _hand(self, events: Events) -> None:
        self._due = False
        self._from = self._stream.kernel.now + self._gather
        self._take(events)
        self.published()

    def passed(self, offset: int) -> None:
        """Note that the client is done with all statuses below an offset."""
        self._stream.purge(self.client, self._stream.ring.stream_id, self._next, offset)


class StatusStream:
    """The ring of statuses, and who waits for the next ones."""

    def __init__(
        self, universe: Universe, life: Life, term: int, core: Term, connected: Callable[[], bool]
    ) -> None:
        """Begin without statuses; `connected` tells whether this term has a connection to the cluster."""
        self.kernel = universe.kernel
        self._cluster = universe.cluster
        self.life = life
        self._core = core
        self._connected = connected
        self.ring: EventRing[tuple[Acknowledgement, TaskStatus]] = EventRing(
            f"stream-{term}", CLIENTS, "jobmgr", universe.ring
        )
        self.acknowledgements = Acknowledgements()
        self._polls: dict[str, _Poll] = {}
        self._followers: list[Follower] = []
        self._acknowledging = False
        self.acknowledges_early = False
        """Whether statuses are acknowledged when they arrive: a bug to plant."""

    def answer(self) -> None:
        """Answer all who wait."""
        for follower in self._followers:
            follower.published()
        for client in list(self._polls):
            self._answer_poll(client)

    def publish(self, update: StatusUpdate) -> None:
        """Append a status."""
        acknowledgement = update.acknowledgement
        added = self.ring.append((acknowledgement, update.status), acknowledgement.uuid)
        if added is Added.PASSED or self.acknowledges_early:
            self.acknowledge_later(acknowledgement)
        elif added is Added.FULL:
            self._core.statuses.missed(acknowledgement, self.kernel.now)

    def open(self, client: str) -> tuple[str, int]:
        """Return the stream and the first offset for a client: resmgr also reads what it has purged before.

        What jobmgr has not stored yet is in the stream, and in no store.
        """
        first, purged = self.ring.start(client)
        return self.ring.stream_id, max(first, purged) if client == "jobmgr" else first

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
        self.purge(client, stream, begin, purge)
        former = self._polls.pop(client, None)
        if former is not None:
            former.end()
            former.reply(())
        if begin < self.ring.end or wait <= 0:
            return self.read(begin, limit)
        poll = self._polls[client] = _Poll(begin, limit, reply)
        if wait < math.inf:
            poll.timer = self.kernel.after(wait, self.life, self._answer_poll, client)
        return LATER

    def follow(self, client: str, begin: int, gather: float, limit: int, take: Take) -> Follower:
        """Hand statuses from `begin` on to a client, `limit` at most at a time, in place of its pulls."""
        follower = Follower(self, client, begin, gather, limit, take)
        self._followers.append(follower)
        self._followers.sort(key=lambda each: each.client)
        follower.published()
        return follower

    def purge(self, client: str, stream: str, begin: int, purge: int) -> None:
        """Note that a client is done with all below `purge`. Raises as the ring does."""
        for passed in self.ring.purge(client, stream, begin, purge):
            self.acknowledge_later(passed.event[0])

    def read(self, begin: int, limit: int) -> Events:
        """Return events from `begin` on with their offsets."""
        return tuple([(each.offset, each.event[1]) for each in self.ring.read(begin, limit)])

    def _answer_poll(self, client: str) -> None:
        poll = self._polls.pop(client, None)
        if poll is None:
            return
        poll.end()
        try:
            poll.reply(self.read(poll.begin, poll.limit))
        except PelotonError as error:
            poll.reply(error)

    def acknowledge_later(self, acknowledgement: Acknowledgement) -> None:
        """Acknowledge a status soon, together with others."""
        if self.acknowledgements.add(acknowledgement) and not self._acknowledging:
            self._acknowledging = True
            self.kernel.after(0.0, self.life, self._acknowledge)

    def _acknowledge(self) -> None:
        self._acknowledging = False
        while batch := self.acknowledgements.batch():
            self.kernel.point(self.life, "before it acknowledges statuses")
            if not self._connected():
                return
            self._cluster.acknowledge(batch)
            self.acknowledgements.sent(len(batch))
