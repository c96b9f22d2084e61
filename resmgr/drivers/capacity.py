"""The cluster's capacity, and whether host pools are on, requested from hostmgr."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from peloton.errors import PelotonError, Refused, Unavailable
from peloton.model.resources import ZERO, Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.rpc.client import Caller
from resmgr.drivers.loop import Driver

_FRESH_SECONDS = 1.0
log = logging.getLogger(__name__)


class Capacity:
    """Keep the scheduler's capacity up to date."""

    def __init__(self, driver: Driver, client: Caller, first: float, interval: float) -> None:
        """Request every `first` seconds until the capacity is known and stable, then every `interval`."""
        self._driver = driver
        self._client = client
        self._first = first
        self._interval = interval

    async def run(self) -> None:
        """Request periodically, sooner while the capacity is unknown, zero or changing.

        The known capacity stays while hostmgr cannot answer.
        """
        logged = ""
        while True:
            stable = False
            try:
                stable = not await self.update() and self._driver.scheduler.tree.capacity != ZERO
                logged = ""
            except PelotonError as error:
                if str(error) != logged:
                    log.warning("cluster capacity: %s", error)
                    logged = str(error)
            await asyncio.sleep(self._interval if stable else self._first)

    async def fresh(self) -> None:
        """Request now; the known capacity stays where hostmgr cannot answer."""
        try:
            await self.update(_FRESH_SECONDS)
        except PelotonError as error:
            log.warning("cluster capacity: %s", error)

    async def update(self, timeout: float = 10.0) -> bool:
        """Request once and return whether the capacity has changed. Raises PelotonError."""
        answer: pb.ClusterCapacityResponse = await self._client.call(
            "ClusterCapacity", pb.ClusterCapacityRequest(), timeout=timeout
        )
        if answer.HasField("error"):
            raise Unavailable(f"hostmgr: {answer.error.clusterUnavailable.message}")
        self._driver.scheduler.host_pools = await self._pooled(timeout)
        tree = self._driver.scheduler.tree
        capacity, slack = _resources(answer.physicalResources), _resources(answer.physicalSlackResources)
        changed = (capacity, slack) != (tree.capacity, tree.slack_capacity)
        if changed:
            log.info("cluster capacity: %s; slack %s", capacity, slack)
            self._driver.scheduler.set_capacity(capacity, slack)
            self._driver.wake()
        return changed

    async def _pooled(self, timeout: float) -> bool:
        """Return whether host pools are on. Raises PelotonError where hostmgr does not answer."""
        try:
            await self._client.call("GetHostPoolCapacity", pb.GetHostPoolCapacityRequest(), timeout=timeout)
        except Refused:
            return False
        return True


def _resources(wires: Iterable[pb.Resource]) -> Resources:
    amounts = {wire.kind: wire.capacity for wire in wires}
    return Resources.of(*(amounts.get(kind, 0.0) for kind in ("cpu", "memory", "disk", "gpu")))
