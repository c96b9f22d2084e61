"""Looks up runs in the store that are reported as on a host and are not known here."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.model.ids import Run
from resmgr.drivers.loop import Driver
from resmgr.drivers.recovery import Recovery

SECONDS = 1.0
"""Between two looks: reports of an end that follow at once make one needless."""
AT_ONCE = 16
"""Runs that are read together."""
log = logging.getLogger(__name__)


class StrangerLookup:
    """Take in runs that this leader has missed."""

    def __init__(self, driver: Driver, recovery: Recovery) -> None:
        self._driver = driver
        self._recovery = recovery

    async def run(self) -> NoReturn:
        """Look them up as they are reported, once all stored tasks are known."""
        await self._driver.recovered.wait()
        while True:
            await asyncio.sleep(SECONDS)
            try:
                await self.look()
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

    async def _look_up(self, run: Run) -> bool:
        page = await self._recovery.reader.page_of(run)
        if page is None or not self._driver.scheduler.strangers.answered(run):
            return False
        found = page.on_hosts()
        return bool(found) and self._recovery.take_in(page, *found[0])
