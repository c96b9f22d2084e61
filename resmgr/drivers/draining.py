"""Draining hosts: report those to hostmgr on which no run is left."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from peloton.errors import PelotonError, Refused
from resmgr.core.state.task_states import ON_HOST
from resmgr.drivers.loop import Driver
from resmgr.ports import DrainingHosts

WAIT_SECONDS = 10.0
"""How long a call waits in hostmgr for a host to drain."""
PAUSE_SECONDS = 1.0
"""Time between two looks at the same hosts, and after a failure."""
log = logging.getLogger(__name__)


class Draining:
    """Follow the draining hosts. hostmgr compares a report with what it knows, and may refuse it."""

    def __init__(self, driver: Driver, hostmgr: DrainingHosts) -> None:
        self._driver = driver
        self._hostmgr = hostmgr
        self._logged = ""

    async def run(self) -> NoReturn:
        """Report drained hosts for ever."""
        while True:
            try:
                await self.step()
                self._logged = ""
            except PelotonError as error:
                if str(error) != self._logged:
                    log.warning("draining hosts: %s", error)
                    self._logged = str(error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def step(self) -> None:
        """Report the hosts that drain and have no runs. Nothing is known before the recovery."""
        await self._driver.recovered.wait()
        for hostname in await self._hostmgr.draining(WAIT_SECONDS):
            if not self._runs_on(hostname):
                await self._report(hostname)

    def _runs_on(self, hostname: str) -> bool:
        """Return whether Mesos has, or may have, a run on the host."""
        tasks = self._driver.scheduler.registry.on_host(hostname)
        return any(task.state in ON_HOST for task in tasks)

    async def _report(self, hostname: str) -> None:
        try:
            await self._hostmgr.mark_drained(hostname)
        except Refused as error:
            log.debug("host %s: %s", hostname, error)
            return
        log.info("host %s is drained", hostname)
