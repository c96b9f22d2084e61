"""Status updates of runs, pulled from hostmgr's event stream (docs/behaviour/hosts.md, Event stream)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from peloton.errors import InvalidArgument, PelotonError
from peloton.model.ids import parse_mesos_task_id
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.rpc.client import Caller
from peloton.wire.mesos import task_status
from resmgr.core.scheduler import Scheduler
from resmgr.drivers.loop import Driver

CLIENT = "resmgr"
_OPEN_SECONDS = 1.0
_GATHER_SECONDS = 0.05
"""Pause after a call that brought events, so that those that follow come together."""
_SLACK_SECONDS = 10.0
"""Time of a call beyond that of the poll."""
log = logging.getLogger(__name__)


def apply(scheduler: Scheduler, events: Iterable[pb.Event], now: float) -> None:
    """Apply statuses. Those of unknown runs, and of ids of other frameworks, are ignored."""
    for event in events:
        if event.type != pb.Event.MESOS_TASK_STATUS:
            continue
        try:
            status = task_status(event.mesosTaskStatus)
            run = parse_mesos_task_id(status.mesos_task_id)
        except InvalidArgument as error:
            log.debug("status of %s ignored: %s", event.mesosTaskStatus.task_id.value, error)
            continue
        scheduler.observe(run, status.state, now)


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How events are pulled."""

    batch: int
    """Most events in one answer."""
    poll: float
    """Longest wait for an event, in seconds."""
    pause: float
    """Seconds between tries while hostmgr cannot be reached."""


class StatusStream:
    """One client's position in the stream of a Mesos cluster.

    `resync` reads from the store what the stream no longer holds.
    """

    def __init__(
        self,
        driver: Driver,
        client: Caller,
        options: PullOptions,
        resync: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._client = client
        self._options = options
        self._resync = resync
        self._stream = ""
        self._next = 0

    async def open(self) -> bool:
        """Open the stream before the store is read, so that no event is missed; return whether that worked.

        Where it did not, the store is read again once the stream is open.
        """
        try:
            await self._init(_OPEN_SECONDS)
        except PelotonError as error:
            log.warning("event stream not open yet: %s", error)
            return False
        return True

    async def run(self) -> None:
        """Pull through changes of hostmgr's leader, once all stored runs are known."""
        await self._driver.recovered.wait()
        logged = ""
        while True:
            try:
                if not self._stream:
                    await self._start_over()
                await self._pull()
                logged = ""
            except PelotonError as error:
                if str(error) != logged:
                    log.warning("event stream: %s", error)
                    logged = str(error)
                await asyncio.sleep(self._options.pause)

    async def _start_over(self) -> None:
        await self._init(_OPEN_SECONDS)
        opened, self._stream = self._stream, ""
        await self._resync()
        self._stream = opened
        log.info("event stream %s from %d on, after reading the store", self._stream, self._next)

    async def _init(self, timeout: float) -> None:
        answer: pb.InitStreamResponse = await self._client.call(
            "InitStream", pb.InitStreamRequest(clientName=CLIENT), timeout=timeout
        )
        if answer.HasField("error"):
            raise PelotonError(f"hostmgr refused: {answer.error.clientUnsupported.message}")
        self._stream, self._next = answer.streamID, answer.minOffset

    async def _pull(self) -> None:
        options = self._options
        request = pb.WaitForEventsRequest(
            streamID=self._stream,
            purgeOffset=self._next,
            beginOffset=self._next,
            limit=options.batch,
            timeoutMs=round(options.poll * 1000),
            clientName=CLIENT,
        )
        answer: pb.WaitForEventsResponse = await self._client.call(
            "WaitForEvents", request, timeout=options.poll + _SLACK_SECONDS, retry=False
        )
        if answer.HasField("error"):
            log.warning("event stream %s is lost: %s", self._stream, " ".join(str(answer.error).split()))
            self._stream = ""
            return
        if answer.events:
            apply(self._driver.scheduler, answer.events, self._driver.now())
            self._next = answer.events[-1].offset + 1
            self._driver.wake()
        if 0 < len(answer.events) < options.batch:
            await asyncio.sleep(_GATHER_SECONDS)
