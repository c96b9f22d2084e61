"""Pulls the runs on draining hosts from hostmgr."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jobmgr.core.state.events import Draining, Event
from jobmgr.drivers.retry import for_ever
from jobmgr.engine.lockdown import Gate
from jobmgr.ports.hostmgr import DrainingRuns, Maintenance
from peloton.errors import PelotonError
from peloton.model.cluster import UNNAMED

WAIT_SECONDS = 10.0
"""How long a call waits in hostmgr for runs on draining hosts."""
PAUSE_SECONDS = 1.0
"""Time between two looks at the same runs."""
log = logging.getLogger(__name__)


class DrainingHosts:
    """Hand the runs on draining hosts to the lanes, again and again until they have ended."""

    def __init__(
        self,
        hostmgr: DrainingRuns,
        post: Callable[[Event], None],
        gate: Gate,
        cluster: str = UNNAMED,
    ) -> None:
        """Pull from the `hostmgr` of a Mesos cluster while `gate` is open."""
        self._hostmgr = hostmgr
        self._post = post
        self._gate = gate
        self._cluster = cluster

    async def run(self) -> None:
        """Pull for ever."""
        await for_ever("draining hosts", self._step)

    async def _step(self) -> None:
        await self._gate.opened()
        runs = await self._hostmgr.draining_runs(WAIT_SECONDS)
        if runs:
            self._post(Draining(runs, self._cluster, await self._maintenances()))
        await asyncio.sleep(PAUSE_SECONDS)

    async def _maintenances(self) -> dict[str, str]:
        """Return who began the maintenance of each host, and when; nothing where that cannot be known now."""
        try:
            found = await self._hostmgr.maintenances()
        except PelotonError as error:
            log.warning("who began the maintenance of hosts: %s", error)
            return {}
        return {host: begun_text(each) for host, each in found.items()}


def begun_text(maintenance: Maintenance) -> str:
    """Return who began a maintenance, and when, to the second."""
    whose = f" by {maintenance.begun_by}" if maintenance.begun_by else ""
    second, dot, _ = maintenance.since.partition(".")
    return f"begun{whose} at {second}{'Z' * bool(dot)}"
