"""Pulls the event stream of hostmgr: ordered batches, passed only when they are stored."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from jobmgr.core.events import Statuses
from jobmgr.drivers.backlog import Backlog
from jobmgr.drivers.retry import CALL_SECONDS, Caller, backoff, for_ever
from jobmgr.engine.engine import Engine
from peloton.errors import InvalidArgument, PelotonError
from peloton.model.ids import Run, parse_mesos_task_id
from peloton.model.task import TaskStatus
from peloton.private.eventstream import eventstream_pb2
from peloton.wire.mesos import task_status

CLIENT = "jobmgr"
EVENTS_PER_CALL = 2000
EVENTS_UNSTORED = 50_000
"""Events that lanes have not stored, from which on no more are taken: hostmgr holds 100,000."""
POLL_SECONDS = 10.0
BEHIND_POLL_SECONDS = 0.5
"""While a lane is behind: what it has stored is passed with the next call."""
log = logging.getLogger(__name__)


class StreamBroken(PelotonError):
    """The stream is another one now, or no longer holds what was wanted: start over."""


class Intake:
    def __init__(self, hostmgr: Caller, engine: Engine) -> None:
        self._hostmgr = hostmgr
        self._engine = engine
        self._stream = ""
        self._next = 0
        """Everything before this offset is handed to the lanes."""
        self._unstored: deque[tuple[int, list[asyncio.Task[None]]]] = deque()
        """Batches that some lane has not stored, by the offset that each begins at."""
        self._parts: set[asyncio.Task[None]] = set()
        self._backlog = Backlog(EVENTS_UNSTORED)
        self._filling = [asyncio.Lock() for _ in range(len(engine.lanes))]

    async def run(self) -> None:
        """Run for ever."""
        try:
            await for_ever("event stream", self._step)
        finally:
            for part in self._parts:
                part.cancel()

    async def _step(self) -> None:
        try:
            if not self._stream:
                await self._open()
            events = await self._wait()
            if events:
                await self._hand_over(events)
        except StreamBroken:
            self._stream = ""
            raise

    async def _hand_over(self, events: list[eventstream_pb2.Event]) -> None:
        answers = self._engine.lanes.submit(Statuses(list(_statuses(events))))
        parts = {lane: asyncio.create_task(self._store(lane, told)) for lane, told in answers.items()}
        for part in parts.values():
            self._parts.add(part)
            part.add_done_callback(self._parts.discard)
        self._unstored.append((self._next, list(parts.values())))
        self._next = events[-1].offset + 1
        await self._backlog.add(parts, len(events))

    async def _store(self, lane: int, answer: asyncio.Future[list[tuple[Run, TaskStatus]]]) -> None:
        """Wait until a lane has stored its part, and store what is told late of jobs that have ended."""
        ended = await answer
        pause = backoff()
        async with self._filling[lane]:
            while ended:
                try:
                    await self._engine.fill_in(ended)
                    return
                except PelotonError as error:
                    log.warning("late news of %d runs are not stored: %s", len(ended), error)
                await pause.wait()

    def _passed(self) -> int:
        """Return the offset before which everything is stored. Raises what a lane raised."""
        while self._unstored and all(part.done() for part in self._unstored[0][1]):
            for part in self._unstored[0][1]:
                part.result()
            self._unstored.popleft()
        return self._unstored[0][0] if self._unstored else self._next

    async def _open(self) -> None:
        request = eventstream_pb2.InitStreamRequest(clientName=CLIENT)
        answer = await self._hostmgr.call("InitStream", request)
        if answer.HasField("error"):
            raise PelotonError(f"InitStream: {answer.error.clientUnsupported.message}")
        self._next = max(answer.minOffset, answer.previousPurgeOffset)
        self._unstored.clear()
        self._stream = answer.streamID
        log.info("event stream %s from offset %d", self._stream, self._next)

    async def _wait(self) -> list[eventstream_pb2.Event]:
        request = eventstream_pb2.WaitForEventsRequest(
            streamID=self._stream,
            purgeOffset=self._passed(),
            beginOffset=self._next,
            limit=EVENTS_PER_CALL,
            timeoutMs=int((BEHIND_POLL_SECONDS if self._unstored else POLL_SECONDS) * 1000),
            clientName=CLIENT,
        )
        answer = await self._hostmgr.call("WaitForEvents", request, timeout=POLL_SECONDS + CALL_SECONDS)
        if answer.HasField("error"):
            raise StreamBroken(" ".join(str(answer.error).split()))
        return list(answer.events)


def _statuses(events: Iterable[eventstream_pb2.Event]) -> Iterable[tuple[Run, TaskStatus]]:
    for event in events:
        if event.type != eventstream_pb2.Event.MESOS_TASK_STATUS:
            continue
        try:
            yield parse_mesos_task_id(event.mesosTaskStatus.task_id.value), task_status(event.mesosTaskStatus)
        except InvalidArgument as error:
            log.warning("status of %s, which says nothing: %s", event.mesosTaskStatus.task_id.value, error)
