"""Follow changes of hosts for the gangs that fit on no host."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.waking import tick
from resmgr.core.state.needs import Shape
from resmgr.drivers.loop import Driver
from resmgr.ports import Hosts

MOST_SHAPES = 1000
"""Most shapes in one call."""
DESCRIBE_SECONDS = 30.0
"""Least time between two renewals of all reasons."""
log = logging.getLogger(__name__)


class Feasibility:
    """Bring gangs back that may fit, and keep the reasons of the others up to date."""

    def __init__(
        self, driver: Driver, hosts: Hosts, interval: float, describe: float = DESCRIBE_SECONDS
    ) -> None:
        """Ask for changes of hosts every `interval` seconds while gangs are set aside.

        Renew all reasons at most once in `describe` seconds.
        """
        self._driver = driver
        self._hosts = hosts
        self._interval = interval
        self._describe = describe
        self._version = ""
        """The hosts that the gangs set aside were compared with. Those of them that no change can have helped
        since were compared with older ones."""
        self._described = ""
        """The hosts that all reasons were compared with."""
        self._describe_again = 0.0

    async def run(self) -> NoReturn:
        """Check periodically. Gangs stay aside while hostmgr cannot answer."""
        while True:
            await tick(self._interval)
            try:
                await self.check()
            except PelotonError as error:
                log.info("gangs that fit on no host stay aside: %s", error)

    async def check(self) -> None:
        """Compare the gangs that changes of hosts may have helped. Raises PelotonError.

        Where hosts have changed in another way, the reasons of all are renewed after a while: the
        figures in them have changed, but no gang fits that did not before.
        """
        infeasible = self._driver.scheduler.infeasible
        if not infeasible.shapes():
            return
        version, gains = await self._hosts.gains(self._version)
        now = self._driver.now()
        stale = version != self._described and now >= self._describe_again
        if gains is None or stale:
            shapes = infeasible.shapes()
        else:
            shapes = list(dict.fromkeys([*infeasible.new_shapes(), *infeasible.helped_by(gains)], True))
        for at in range(0, len(shapes), MOST_SHAPES):
            await self._compare(shapes[at : at + MOST_SHAPES])
        self._version = version
        if gains is None or stale:
            self._described, self._describe_again = version, now + self._describe

    async def _compare(self, shapes: Sequence[Shape]) -> None:
        scheduler = self._driver.scheduler
        shortages = await self._hosts.check(shapes, scheduler.open_pools)
        for shape, shortage in zip(shapes, shortages, strict=True):
            if shortage is None:
                log.info("%d gangs may fit now", len(scheduler.infeasible.gangs(shape)))
                scheduler.bring_back(shape)
            else:
                scheduler.keep_aside(shape, shortage)
        self._driver.wake()
