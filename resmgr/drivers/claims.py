"""Release of the claims on hosts of abandoned placements.

They would last for minutes, and the same gangs may find no other host.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.rpc.client import Caller
from peloton.wire.hosts import claim_to
from resmgr.drivers.loop import Driver

PERIOD = 0.5
"""Seconds between two releases."""
log = logging.getLogger(__name__)


class Claims:
    """Release claims at hostmgr."""

    def __init__(self, driver: Driver, hostmgr: Caller) -> None:
        self._driver = driver
        self._hostmgr = hostmgr

    async def run(self) -> NoReturn:
        """Release claims periodically."""
        while True:
            await asyncio.sleep(PERIOD)
            await self.release()

    async def release(self) -> None:
        """Release the claims of abandoned placements; one that cannot be released expires by itself."""
        given = self._driver.scheduler.take_abandoned()
        if not given:
            return
        offers = [claim_to(each.host, each.agent_id, each.offer_id) for each in given]
        try:
            await self._hostmgr.call("ReleaseHostOffers", pb.ReleaseHostOffersRequest(hostOffers=offers))
        except PelotonError as error:
            log.warning("%d claims not released: %s", len(offers), error)
