"""Periodic requests to hostmgr whether gangs that were set aside fit now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.rpc.client import Caller
from peloton.wire.feasibility import shortage_from
from resmgr.core.state.needs import Shape
from resmgr.drivers.loop import Driver
from resmgr.wire.tasks import shape_to

MOST_SHAPES = 1000
"""Most shapes in one call."""
log = logging.getLogger(__name__)


class Feasibility:
    """Bring gangs back that may fit, and keep the reasons of the others up to date."""

    def __init__(self, driver: Driver, hostmgr: Caller, interval: float) -> None:
        """Request every `interval` seconds."""
        self._driver = driver
        self._hostmgr = hostmgr
        self._interval = interval
        self._checked: dict[Shape, str] = {}
        """The version of the hosts that each shape was compared with."""

    async def run(self) -> NoReturn:
        """Check periodically. Gangs stay aside while hostmgr cannot answer."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.check()
            except PelotonError as error:
                log.info("gangs that fit on no host stay aside: %s", error)

    async def check(self) -> None:
        """Compare all gangs set aside with the hosts, unless the hosts are unchanged. Raises PelotonError."""
        shapes = self._driver.scheduler.infeasible.shapes()
        self._checked = {shape: self._checked.get(shape, "") for shape in shapes}
        versions: dict[str, list[Shape]] = {}
        for shape, version in self._checked.items():
            versions.setdefault(version, []).append(shape)
        for version, alike in versions.items():
            for at in range(0, len(alike), MOST_SHAPES):
                await self._compare(alike[at : at + MOST_SHAPES], version)

    async def _compare(self, shapes: Sequence[Shape], version: str) -> None:
        request = pb.CheckGangsRequest(gangs=map(shape_to, shapes), hosts_version=version)
        answer: pb.CheckGangsResponse = await self._hostmgr.call("CheckGangs", request)
        if answer.unchanged:
            return
        scheduler = self._driver.scheduler
        for shape, verdict in zip(shapes, answer.verdicts, strict=True):
            shortage = shortage_from(verdict.shortage) if verdict.HasField("shortage") else None
            if shortage is None:
                log.info("%d gangs may fit now", len(scheduler.infeasible.gangs(shape)))
                scheduler.bring_back(shape)
            else:
                scheduler.keep_aside(shape, shortage)
                self._checked[shape] = answer.hosts_version
        self._driver.wake()
