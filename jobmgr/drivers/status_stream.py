"""Pulls hostmgr's event stream, and purges events that are stored."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from jobmgr.core.state.events import Statuses
from jobmgr.drivers.backlog import Backlog
from jobmgr.drivers.retry import for_ever
from jobmgr.engine.engine import Engine
from jobmgr.engine.transient import backoff
from jobmgr.ports.hostmgr import StatusBatch, StatusEvents, StreamBroken
from peloton.errors import PelotonError
from peloton.model.cluster import UNNAMED
from peloton.model.ids import Run
from peloton.model.task import TaskStatus

EVENTS_PER_CALL = 2000
EVENTS_UNSTORED = 50_000
"""Limit of events that lanes have not stored; beyond it no events are taken. hostmgr holds 100,000."""
POLL_SECONDS = 10.0
GATHER_SECONDS = 0.02
"""Pause after a call that brought events. Those that follow come together, and most of those that came are
stored, so that the next call acknowledges them."""
BEHIND_POLL_SECONDS = 0.5
"""While a lane is behind: what it has stored is acknowledged with the next call."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events that some lane may not have stored."""

    events: StatusBatch
    parts: Mapping[int, asyncio.Task[None]]
    acknowledged: set[int] = field(default_factory=set)
    """Lanes whose part was acknowledged before the whole."""

    @property
    def stored(self) -> bool:
        """Whether all lanes have stored their part."""
        return all(part.done() for part in self.parts.values())


class StatusStream:
    """Hands statuses to the lanes.

    Mesos sends no further status of a run until one is acknowledged. While a lane is behind, events that the
    others have stored are therefore acknowledged out of order.
    """

    def __init__(self, hostmgr: StatusEvents, engine: Engine, cluster: str = UNNAMED) -> None:
        """Pull from the `hostmgr` of a Mesos cluster."""
        self._hostmgr = hostmgr
        self._engine = engine
        self._cluster = cluster
        self._stream = ""
        self._next = 0
        """Events before this offset are handed to the lanes."""
        self._unstored: deque[_Batch] = deque()
        """Oldest first. Events before the first batch are purged."""
        self._parts: set[asyncio.Task[None]] = set()
        self._backlog = Backlog(EVENTS_UNSTORED)
        self._updating = [asyncio.Lock() for _ in range(len(engine.lanes))]

    async def run(self) -> None:
        """Pull events for ever."""
        try:
            await for_ever(f"event stream {self._cluster}".rstrip(), self._step)
        finally:
            for part in self._parts:
                part.cancel()

    async def _step(self) -> None:
        try:
            if not self._stream:
                await self._open()
            purge = self._purge_offset()
            if self._unstored:
                await self._acknowledge_early()
            events = await self._hostmgr.statuses(
                self._stream,
                purge,
                self._next,
                EVENTS_PER_CALL,
                BEHIND_POLL_SECONDS if self._unstored else POLL_SECONDS,
            )
            if events is not None:
                await self._hand_over(events)
                if events.count < EVENTS_PER_CALL:
                    await asyncio.sleep(GATHER_SECONDS)
        except StreamBroken:
            self._stream = ""
            raise

    async def _hand_over(self, events: StatusBatch) -> None:
        answers = self._engine.lanes.submit(Statuses(events.runs, self._cluster))
        parts = {lane: asyncio.create_task(self._store(lane, answer)) for lane, answer in answers.items()}
        for part in parts.values():
            self._parts.add(part)
            part.add_done_callback(self._parts.discard)
        self._unstored.append(_Batch(self._taken(events), parts))
        self._next = events.end
        await self._backlog.add(parts, events.count)

    def _taken(self, events: StatusBatch) -> StatusBatch:
        """Return the events that the lanes have taken: no others are acknowledged before they are purged."""
        shards = self._engine.shards
        if shards.takes_all:
            return events
        taken = [
            (offset, each)
            for offset, each in zip(events.offsets, events.runs, strict=True)
            if shards.takes(each[0].job_id)
        ]
        return replace(events, offsets=[offset for offset, _ in taken], runs=[each for _, each in taken])

    async def _store(self, lane: int, answer: asyncio.Future[list[tuple[Run, TaskStatus]]]) -> None:
        """Wait until a lane has stored its part, then apply late updates of jobs that have ended."""
        ended = await answer
        delays = backoff()
        async with self._updating[lane]:
            while ended:
                try:
                    await self._engine.apply_late_updates(ended)
                    return
                except PelotonError as error:
                    log.warning("%d late updates are not stored: %s", len(ended), error)
                ended = [each for each in ended if self._engine.shards.holds(each[0].job_id)]
                await delays.wait()

    def _purge_offset(self) -> int:
        """Return the offset before which everything is stored. Raises what a lane raised."""
        while self._unstored and self._unstored[0].stored:
            for part in self._unstored[0].parts.values():
                part.result()
            self._unstored.popleft()
        return self._unstored[0].events.first if self._unstored else self._next

    async def _acknowledge_early(self) -> None:
        """Acknowledge events that are stored, behind ones that are not."""
        fresh = [(batch, _stored(batch) - batch.acknowledged) for batch in self._unstored]
        offsets = [offset for batch, lanes in fresh for offset in self._offsets(batch, lanes)]
        if offsets:
            try:
                await self._hostmgr.acknowledge(self._stream, offsets)
            except PelotonError as error:  # the next call for events fails if the stream is a new one
                log.warning("%d events are not acknowledged yet: %s", len(offsets), error)
                return
        for batch, lanes in fresh:
            batch.acknowledged.update(lanes)

    def _offsets(self, batch: _Batch, lanes: set[int]) -> Iterable[int]:
        """Yield the offsets of events that belong to these lanes."""
        lane_of, events = self._engine.lanes.lane_of, batch.events
        takes = self._engine.shards.takes
        for offset, (run, _) in zip(events.offsets, events.runs, strict=True) if lanes else ():
            if lane_of(run.job_id) in lanes and takes(run.job_id):
                yield offset

    async def _open(self) -> None:
        stream, self._next = await self._hostmgr.open_stream()
        self._unstored.clear()
        self._stream = stream
        log.info("event stream %s from offset %d", self._stream, self._next)


def _stored(batch: _Batch) -> set[int]:
    """Return the lanes that have stored their part."""
    return {lane for lane, part in batch.parts.items() if part.done() and part.exception() is None}
