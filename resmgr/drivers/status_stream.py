"""Pulls hostmgr's event stream and tells the core what became of each run (behaviour 6 and 8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from peloton.errors import InvalidArgument, PelotonError
from peloton.model.ids import parse_mesos_task_id
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.wire.mesos import task_status
from resmgr.config import EventSettings
from resmgr.core.scheduler import Scheduler
from resmgr.drivers.loop import Driver

CLIENT = "resmgr"
_OPEN_SECONDS = 1.0
_SLACK_SECONDS = 10.0
"""How much longer than the poll a call may take."""
log = logging.getLogger(__name__)


class Caller(Protocol):
    """A client that follows a leader: `peloton.rpc.client.LeaderClient`."""

    async def call(
        self, method: str, request: object, timeout: float = 10.0, retry: bool = True
    ) -> object: ...


def apply(scheduler: Scheduler, events: Iterable[pb.Event], now: float) -> None:
    """Statuses of runs that are not known, and ids that are not ours, say nothing here."""
    for event in events:
        if event.type != pb.Event.MESOS_TASK_STATUS:
            continue
        try:
            status = task_status(event.mesosTaskStatus)
            run = parse_mesos_task_id(status.mesos_task_id)
        except InvalidArgument as error:
            log.debug("status of %s, which says nothing: %s", event.mesosTaskStatus.task_id.value, error)
            continue
        scheduler.observe(run, status.state, now)


class Intake:
    """One client's place in the stream. What the stream no longer holds is read from the store: `resync`."""

    def __init__(
        self,
        driver: Driver,
        client: Caller,
        settings: EventSettings,
        resync: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._client = client
        self._settings = settings
        self._resync = resync
        self._stream = ""
        self._next = 0

    async def open(self) -> bool:
        """Find the stream before the store is read, so that nothing falls between the two; whether that
        worked. Where it did not, the store is read again once the stream is found."""
        try:
            await self._init(_OPEN_SECONDS)
        except PelotonError as error:
            log.warning("event stream not open yet: %s", error)
            return False
        return True

    async def run(self) -> None:
        """Pull for ever, through changes of hostmgr's leader, once all runs that are stored are known."""
        await self._driver.recovered.wait()
        told = ""
        while True:
            try:
                if not self._stream:
                    await self._start_over()
                await self._pull()
                told = ""
            except PelotonError as error:
                if str(error) != told:
                    log.warning("event stream: %s", error)
                    told = str(error)
                await asyncio.sleep(self._settings.pause)

    async def _start_over(self) -> None:
        await self._init(_OPEN_SECONDS)
        opened, self._stream = self._stream, ""
        await self._resync()
        self._stream = opened
        log.info("event stream %s from %d on, after reading the store", self._stream, self._next)

    async def _init(self, timeout: float) -> None:
        answer = await self._client.call(
            "InitStream", pb.InitStreamRequest(clientName=CLIENT), timeout=timeout
        )
        assert isinstance(answer, pb.InitStreamResponse)
        if answer.HasField("error"):
            raise PelotonError(f"hostmgr refused: {answer.error.clientUnsupported.message}")
        self._stream, self._next = answer.streamID, answer.minOffset

    async def _pull(self) -> None:
        settings = self._settings
        request = pb.WaitForEventsRequest(
            streamID=self._stream,
            purgeOffset=self._next,
            beginOffset=self._next,
            limit=settings.batch,
            timeoutMs=round(settings.poll * 1000),
            clientName=CLIENT,
        )
        answer = await self._client.call(
            "WaitForEvents", request, timeout=settings.poll + _SLACK_SECONDS, retry=False
        )
        assert isinstance(answer, pb.WaitForEventsResponse)
        if answer.HasField("error"):
            log.warning("event stream %s is lost: %s", self._stream, " ".join(str(answer.error).split()))
            self._stream = ""
            return
        if answer.events:
            apply(self._driver.scheduler, answer.events, self._driver.now())
            self._next = answer.events[-1].offset + 1
            self._driver.touched()
