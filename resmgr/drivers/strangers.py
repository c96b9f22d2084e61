"""Looks up runs in the store that are reported as on a host and are not known here.

A report may be older than the run's end, which this leader has seen before and jobmgr has not stored yet. So
a run that was taken in is compared with the store for some time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.waking import tick
from resmgr.drivers.loop import Driver
from resmgr.drivers.recovery import Recovery

SECONDS = 1.0
"""Between two looks: reports of an end that follow at once make one needless."""
COMPARED_EVERY = 10
"""Looks from one comparison with the store to the next."""
COMPARISONS = 30
"""Comparisons of a run that was taken in."""
AT_ONCE = 16
"""Runs that are read together."""
log = logging.getLogger(__name__)


class StrangerLookup:
    """Take in runs that this leader has missed."""

    def __init__(self, driver: Driver, recovery: Recovery) -> None:
        self._driver = driver
        self._recovery = recovery
        self._taken: dict[Run, int] = {}
        """Runs that were taken in, each with the comparisons that are left."""

    async def run(self) -> NoReturn:
        """Look them up as they are reported, once all stored tasks are known."""
        await self._driver.recovered.wait()
        looks = 0
        while True:
            await tick(SECONDS)
            looks += 1
            try:
                await self.look()
                if looks % COMPARED_EVERY == 0:
                    await self.compare()
            except PelotonError as error:
                log.warning("runs that are not known here cannot be looked up: %s", error)

    async def look(self) -> int:
        """Look up all that were noted; return how many were taken in. Raises Unavailable."""
        strangers, count = self._driver.scheduler.strangers, 0
        while runs := strangers.ask(AT_ONCE):
            try:
                found = await asyncio.gather(*map(self._look_up, runs))
            except PelotonError:
                for run in runs:
                    if strangers.answered(run):
                        strangers.note(run)
                raise
            count += sum(found)
        if count:
            log.warning("%d runs are on hosts that were not known here: taken in", count)
            self._driver.wake()
        return count

    async def compare(self) -> int:
        """Forget runs that were taken in and have ended by the store; return how many. Raises Unavailable."""
        scheduler, forgotten = self._driver.scheduler, 0
        for run, left in list(self._taken.items()):
            if scheduler.registry.find(run) is not None and await self._is_over(run):
                forgotten += scheduler.observe(run, TaskState.LOST, self._driver.now())
                left = 1
            elif scheduler.registry.find(run) is None:
                left = 1
            if left > 1:
                self._taken[run] = left - 1
            else:
                del self._taken[run]
        if forgotten:
            log.warning("%d runs that were taken in had ended before: forgotten", forgotten)
            self._driver.wake()
        return forgotten

    async def _is_over(self, run: Run) -> bool:
        """Return whether a run has ended by the store, which has it no more or another one in its place."""
        page = await self._recovery.reader.page_of(run)
        return page is None or page.runtimes[run.instance].state.terminal

    async def _look_up(self, run: Run) -> bool:
        page = await self._recovery.reader.page_of(run)
        if page is None or not self._driver.scheduler.strangers.answered(run):
            return False
        found = page.on_hosts()
        taken = bool(found) and self._recovery.take_in(page, *found[0])
        if taken:
            self._taken[run] = COMPARISONS
        return taken
