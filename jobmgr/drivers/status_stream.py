"""Pulls the event stream of hostmgr: ordered batches, passed only when they are stored."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from jobmgr.core.events import Statuses
from jobmgr.drivers.retry import CALL_SECONDS, Caller, for_ever
from jobmgr.engine.engine import Engine
from peloton.errors import InvalidArgument, PelotonError
from peloton.model.ids import Run, parse_mesos_task_id
from peloton.model.task import TaskStatus
from peloton.private.eventstream import eventstream_pb2
from peloton.wire.mesos import task_status

CLIENT = "jobmgr"
EVENTS_PER_CALL = 2000
POLL_SECONDS = 10.0
log = logging.getLogger(__name__)


class StreamBroken(PelotonError):
    """The stream is another one now, or no longer holds what was wanted: start over."""


class Intake:
    def __init__(self, hostmgr: Caller, engine: Engine) -> None:
        self._hostmgr = hostmgr
        self._engine = engine
        self._stream = ""
        self._next = 0
        """Everything before this offset is stored."""

    async def run(self) -> None:
        await for_ever("event stream", self._step)

    async def _step(self) -> None:
        if not self._stream:
            await self._open()
        try:
            events = await self._wait()
        except StreamBroken:
            self._stream = ""
            raise
        if events:
            ended = await self._engine.turns.ask(Statuses(list(_statuses(events))))
            await self._engine.fill_in(ended)
            self._next = events[-1].offset + 1

    async def _open(self) -> None:
        request = eventstream_pb2.InitStreamRequest(clientName=CLIENT)
        answer = await self._hostmgr.call("InitStream", request)
        if answer.HasField("error"):
            raise PelotonError(f"InitStream: {answer.error.clientUnsupported.message}")
        self._next = max(answer.minOffset, answer.previousPurgeOffset)
        self._stream = answer.streamID
        log.info("event stream %s from offset %d", self._stream, self._next)

    async def _wait(self) -> list[eventstream_pb2.Event]:
        request = eventstream_pb2.WaitForEventsRequest(
            streamID=self._stream,
            purgeOffset=self._next,
            beginOffset=self._next,
            limit=EVENTS_PER_CALL,
            timeoutMs=int(POLL_SECONDS * 1000),
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
