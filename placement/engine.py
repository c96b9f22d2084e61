"""The placement engine: takes gangs from resmgr and places each family on its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from peloton.backoff import Backoff
from peloton.errors import PelotonError
from placement.core.model import Gang
from placement.core.strategy import Family
from placement.last_resort import LastResort
from placement.metrics import WAITING
from placement.placing import Context, Placing

KEEP_ALIVE_SECONDS = 10.0
"""Time between signs of life to resmgr while gangs are leased; after 30 s without one, leases end."""
log = logging.getLogger(__name__)


class Engine:
    """Dequeues gangs and places them.

    Keeps no state that outlives it: gangs are leased and hosts claimed, both for a bounded time.
    """

    def __init__(
        self,
        context: Context,
        dequeue_limit: int = 1000,
        dequeue_wait: float = 5.0,
        max_waiting: int = 4000,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        last_resort: LastResort | None = None,
    ) -> None:
        """`last_resort` takes over gangs that found no place; None: they go back."""
        self._last_resort = last_resort
        self._context = replace(context, last_resort=last_resort.take if last_resort is not None else None)
        self._limit = dequeue_limit
        self._wait = dequeue_wait
        self._max_waiting = max_waiting
        self._keep_alive_seconds = keep_alive
        self._placings: dict[Hashable, Placing] = {}
        self._progress = asyncio.Event()
        self._backoff = Backoff(0.1, 5.0, jitter=0.5)
        self._last_failure = ""
        self._gauge = WAITING.labels(context.strategy.type.name.lower())

    @property
    def waiting(self) -> int:
        """Number of gangs that were taken and are neither placed nor given back."""
        reserving = len(self._last_resort) if self._last_resort is not None else 0
        return sum(map(len, self._placings.values())) + reserving

    async def run(self) -> None:
        """Run until cancelled. Resmgr and hostmgr may come and go."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_alive())
            if self._last_resort is not None:
                group.create_task(self._last_resort.run())
            while True:
                gangs = await self._dequeue()
                self._place_all(gangs, group)
                self._gauge.set(self.waiting)
                await self._until_room()

    async def _dequeue(self) -> Sequence[Gang]:
        limit = min(self._limit, self._max_waiting - self.waiting)
        try:
            gangs = await self._context.queue.dequeue(limit, self._wait)
        except PelotonError as error:
            self._warn_once(str(error))
            await self._backoff.wait()
            return ()
        self._last_failure = ""
        self._backoff.reset()
        return gangs

    def _warn_once(self, failure: str) -> None:
        """Log a failure unless the try before failed in the same way."""
        if failure != self._last_failure:
            log.warning("no gangs can be taken: %s", failure)
        self._last_failure = failure

    async def _keep_alive(self) -> None:
        """Give resmgr signs of life while no gangs are taken or reported, which may be minutes.

        Report with them the failures that could not be reported before.
        """
        unreported = self._context.unreported
        while True:
            await asyncio.sleep(self._keep_alive_seconds)
            if not self.waiting and not unreported:
                continue
            failures = list(unreported)
            unreported.clear()
            try:
                await self._context.queue.report((), failures)
            except PelotonError as error:
                log.debug("resmgr gets no sign of life from this engine: %s", error)
                unreported.extendleft(reversed(failures))

    async def _until_room(self) -> None:
        while self.waiting >= self._max_waiting:
            self._progress.clear()
            await self._progress.wait()

    def _place_all(self, gangs: Iterable[Gang], group: asyncio.TaskGroup) -> None:
        for family, members in families(self._context, gangs):
            self._place(family, members, group)

    def _place(self, family: Family, gangs: Iterable[Gang], group: asyncio.TaskGroup) -> None:
        running = self._placings.get(family.key)
        if running is not None:
            running.add(gangs)
            return
        new = self._placings[family.key] = Placing(
            family, self._context, self._progress.set, lambda gangs: self._place_all(gangs, group)
        )
        new.add(gangs)
        group.create_task(self._finish(family, new))

    async def _finish(self, family: Family, new: Placing) -> None:
        await new.run()
        # No gang can have joined since run() found none waiting: nothing was awaited between.
        del self._placings[family.key]
        self._progress.set()
        self._gauge.set(self.waiting)


def families(context: Context, gangs: Iterable[Gang]) -> list[tuple[Family, list[Gang]]]:
    """Group gangs by family, in the order in which families are served."""
    families: dict[Family, list[Gang]] = {}
    for gang in gangs:
        families.setdefault(context.strategy.family(gang), []).append(gang)
    return sorted(families.items(), key=lambda item: item[0].rank)
