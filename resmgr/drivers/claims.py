"""Gives back the claims on hosts of placements whose taker is gone: they would last for minutes, and the same
gangs may find no other host."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.wire.hosts import claim_to
from resmgr.drivers.loop import Driver
from resmgr.drivers.status_stream import Caller

PERIOD = 0.5
"""Seconds."""
log = logging.getLogger(__name__)


class Claims:
    def __init__(self, driver: Driver, hostmgr: Caller) -> None:
        self._driver = driver
        self._hostmgr = hostmgr

    async def run(self) -> NoReturn:
        while True:
            await asyncio.sleep(PERIOD)
            await self.release()

    async def release(self) -> None:
        """A claim that cannot be given back ends by itself; so does, at once, one that was used."""
        scheduler = self._driver.scheduler
        given, scheduler.forsaken = scheduler.forsaken, []
        if not given:
            return
        offers = [claim_to(each.host, each.agent_id, each.offer_id) for each in given]
        try:
            await self._hostmgr.call("ReleaseHostOffers", pb.ReleaseHostOffersRequest(hostOffers=offers))
        except PelotonError as error:
            log.warning("%d claims not released: %s", len(offers), error)
