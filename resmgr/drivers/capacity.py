"""What the cluster has, asked of hostmgr."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from peloton.errors import PelotonError, Unavailable
from peloton.model.resources import ZERO, Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from resmgr.config import ResmgrSettings
from resmgr.drivers.loop import Driver
from resmgr.drivers.status_stream import Caller

_FRESH_SECONDS = 1.0
log = logging.getLogger(__name__)


class Capacity:
    def __init__(self, driver: Driver, client: Caller, settings: ResmgrSettings) -> None:
        self._driver = driver
        self._client = client
        self._settings = settings

    async def run(self) -> None:
        """Ask again soon while it is not known, or zero, or moving, and then from time to time. What is known
        stays while hostmgr cannot answer."""
        settings, told = self._settings, ""
        while True:
            settled = False
            try:
                settled = not await self.ask() and self._driver.scheduler.tree.capacity != ZERO
                told = ""
            except PelotonError as error:
                if str(error) != told:
                    log.warning("cluster capacity: %s", error)
                    told = str(error)
            await asyncio.sleep(settings.capacity_interval if settled else settings.capacity_first)

    async def fresh(self) -> None:
        """Ask now; where hostmgr cannot answer, what is known stays."""
        try:
            await self.ask(_FRESH_SECONDS)
        except PelotonError as error:
            log.warning("cluster capacity: %s", error)

    async def ask(self, timeout: float = 10.0) -> bool:
        """Whether it has changed. Raises the PelotonError that came in the way."""
        answer = await self._client.call("ClusterCapacity", pb.ClusterCapacityRequest(), timeout=timeout)
        assert isinstance(answer, pb.ClusterCapacityResponse)
        if answer.HasField("error"):
            raise Unavailable(f"hostmgr: {answer.error.clusterUnavailable.message}")
        tree = self._driver.scheduler.tree
        capacity, slack = _resources(answer.physicalResources), _resources(answer.physicalSlackResources)
        changed = (capacity, slack) != (tree.capacity, tree.slack_capacity)
        if changed:
            log.info("cluster capacity: %s; slack %s", capacity, slack)
            self._driver.scheduler.set_capacity(capacity, slack)
            self._driver.touched()
        return changed


def _resources(wires: Iterable[pb.Resource]) -> Resources:
    amounts = {wire.kind: wire.capacity for wire in wires}
    return Resources.of(*(amounts.get(kind, 0.0) for kind in ("cpu", "memory", "disk", "gpu")))
