"""Claims on hosts at hostmgr for placements that nobody will launch.

They would last for minutes, and the same gangs may find no other host.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError, ResourceExhausted, Unavailable
from peloton.waking import tick
from resmgr import ports
from resmgr.core.state.placements import Handover
from resmgr.drivers.loop import Driver

PERIOD = 0.5
"""Seconds between two releases."""
CLAIM_SECONDS = 300.0
"""After so long a claim has ended by itself: it is not released again."""
log = logging.getLogger(__name__)


class AbandonedClaims:
    """Release the claims of abandoned placements, and shorten those of earlier leaders' placements."""

    def __init__(self, driver: Driver, hostmgrs: ports.ClaimRelease) -> None:
        """Take this moment as the beginning of the term: nothing has been dequeued in it yet."""
        self._driver = driver
        self._hostmgrs = hostmgrs
        self._began = driver.now()
        self._logged = ""
        self._unreleased: list[tuple[float, Handover]] = []
        """Claims to release, each with the time when it was abandoned."""

    async def run(self) -> NoReturn:
        """Release claims periodically."""
        while True:
            await tick(PERIOD)
            await self.release()

    async def shorten_earlier(self, hostmgr: ports.EarlierClaims) -> None:
        """Shorten the claims of a Mesos cluster from before this term, as soon as its hostmgr answers."""
        while True:
            if await self._shorten_earlier(hostmgr):
                return
            await asyncio.sleep(PERIOD)

    async def _shorten_earlier(self, hostmgr: ports.EarlierClaims) -> bool:
        """Shorten the claims from before this term; return whether hostmgr answered.

        Their placements died with an earlier leader.

        An engine that reports such placements to this leader is refused, and releases the claims by itself.
        jobmgr launches those that it has taken within that time, or their runs are placed again.
        """
        try:
            shortened = await hostmgr.shorten_claims(self._driver.now() - self._began)
        except PelotonError as error:
            if str(error) != self._logged:
                log.warning("claims from before this term are not shortened yet: %s", error)
                self._logged = str(error)
            return False
        if shortened:
            log.info("%d claims from before this term end early", shortened)
        return True

    async def release(self) -> None:
        """Release the claims of abandoned placements, also those for which hostmgr did not answer before.

        Releasing a claim that is gone changes nothing. One that hostmgr refuses to release expires by itself.
        """
        now = self._driver.now()
        self._unreleased += [(now, each) for each in self._driver.scheduler.take_abandoned()]
        self._unreleased = [each for each in self._unreleased if now - each[0] < CLAIM_SECONDS]
        given = [claim for _, claim in self._unreleased]
        if not given:
            return
        try:
            await self._hostmgrs.release(given)
        except (Unavailable, ResourceExhausted) as error:
            log.warning("%d claims not released yet: %s", len(given), error)
            return
        except PelotonError as error:
            log.warning("%d claims not released: %s", len(given), error)
        self._unreleased = []
