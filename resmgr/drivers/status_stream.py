"""Status updates of runs, pulled from hostmgr's event stream (docs/behaviour/hosts.md, Event stream)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from peloton.errors import PelotonError
from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.scheduler import Scheduler
from resmgr.drivers.loop import Driver
from resmgr.ports import StatusEvents, StreamLost

_OPEN_SECONDS = 1.0
_GATHER_SECONDS = 0.05
"""Pause after a call that brought events, so that those that follow come together."""
log = logging.getLogger(__name__)


def apply(
    scheduler: Scheduler,
    states: Iterable[tuple[Run, TaskState]],
    saved: Iterable[tuple[Run, float]],
    now: float,
) -> None:
    """Apply states of runs, and how long ago some have saved their work. Unknown runs are ignored."""
    for run, state in states:
        scheduler.observe(run, state, now)
    for run, seconds in saved:
        scheduler.note_saved(run, now - seconds)


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
        hostmgr: StatusEvents,
        options: PullOptions,
        resync: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._hostmgr = hostmgr
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
        self._stream, self._next = await self._hostmgr.open_stream(timeout)

    async def _pull(self) -> None:
        options = self._options
        try:
            batch = await self._hostmgr.states(self._stream, self._next, options.batch, options.poll)
        except StreamLost as error:
            log.warning("event stream %s is lost: %s", self._stream, error)
            self._stream = ""
            return
        if batch is None:
            return
        apply(self._driver.scheduler, batch.states, batch.saved, self._driver.now())
        self._next = batch.end
        self._driver.wake()
        if batch.size < options.batch:
            await asyncio.sleep(_GATHER_SECONDS)
