"""Asks hostmgr again and again whether gangs that were set aside would fit by now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.wire.feasibility import shortage_from
from resmgr.core.tasks import Shape
from resmgr.drivers.loop import Driver
from resmgr.drivers.status_stream import Caller
from resmgr.services.translate import shape_to

MOST_SHAPES = 1000
"""In one call."""
log = logging.getLogger(__name__)


class Feasibility:
    def __init__(self, driver: Driver, hostmgr: Caller, interval: float) -> None:
        """`interval`: seconds between two questions."""
        self._driver = driver
        self._hostmgr = hostmgr
        self._interval = interval
        self._checked: dict[Shape, str] = {}
        """The version of the hosts that each was compared with."""

    async def run(self) -> NoReturn:
        """What is set aside stays so while hostmgr cannot answer."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.check()
            except PelotonError as error:
                log.info("gangs that fit on no host stay aside: %s", error)

    async def check(self) -> None:
        """Compare all that is set aside with the hosts, unless these are as they were. Raises the
        PelotonError that came in the way."""
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
        answer = await self._hostmgr.call("CheckGangs", request)
        assert isinstance(answer, pb.CheckGangsResponse)
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
        self._driver.touched()
