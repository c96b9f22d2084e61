"""The capacity of all Mesos clusters, and whether host pools are on, requested from their hostmgrs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from peloton.errors import PelotonError, Refused, Unavailable
from peloton.model.resources import ZERO, Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.rpc.client import Caller
from peloton.rpc.clusters import ALONE, LONGEST_CALL, ClusterClient, described
from resmgr.drivers.loop import Driver

_FRESH_SECONDS = 1.0
KEPT_SECONDS = 300.0
log = logging.getLogger(__name__)


class Amount(NamedTuple):
    """The capacity of a cluster."""

    normal: Resources = ZERO
    slack: Resources = ZERO
    pooled: bool = False
    """Whether its hosts are in host pools."""

    def __add__(self, other: tuple[object, ...]) -> Amount:
        """Return the sum."""
        assert isinstance(other, Amount)
        return Amount(self.normal + other.normal, self.slack + other.slack, self.pooled or other.pooled)


class Capacity:
    """Keep the scheduler's capacity up to date.

    A cluster that cannot be asked counts with its last capacity for a while. After that, and where none is
    known, it counts with what its tasks hold: they are part of the pools' allocations, and must not take from
    other clusters.
    """

    def __init__(
        self,
        driver: Driver,
        client: Caller | ClusterClient,
        first: float,
        interval: float,
        kept: float = KEPT_SECONDS,
    ) -> None:
        """Request every `first` seconds until the capacity is known and stable, then every `interval`.

        `kept`: seconds for which the last capacity of one of several clusters counts without an answer.
        """
        self._driver = driver
        self._client = client
        self._first = first
        self._interval = interval
        self._kept = kept
        self._known: dict[str, tuple[Amount, float]] = {}
        """The last capacity of each cluster, and when it was requested."""
        self._logged = ""

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
        tree = self._driver.scheduler.tree
        capacity, slack, self._driver.scheduler.host_pools = await self._requested(timeout)
        changed = (capacity, slack) != (tree.capacity, tree.slack_capacity)
        if changed:
            log.info("cluster capacity: %s; slack %s", capacity, slack)
            self._driver.scheduler.set_capacity(capacity, slack)
            self._driver.wake()
        return changed

    async def _requested(self, timeout: float) -> Amount:
        """Return the sum over all clusters. Raises PelotonError where none answers and none is known."""
        client = self._client
        names = client.clusters.names() if isinstance(client, ClusterClient) else ALONE
        if names == ALONE or not isinstance(client, ClusterClient):
            return await _of(client, timeout)
        calls = (_of(client.of(name), min(timeout, LONGEST_CALL), retry=False) for name in names)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        failures = []
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, Amount):
                self._known[name] = answer, self._driver.now()
            elif isinstance(answer, PelotonError):
                failures.append(f"Mesos cluster {described(name)}: {answer}")
            else:
                raise answer
        if len(failures) == len(names) and not self._known:
            raise Unavailable("; ".join(failures))
        self._log(failures)
        # A cluster that has not been seen since this start may have tasks.
        return sum(map(self._counted, {*names, *self._driver.scheduler.registry.clusters()}), Amount())

    def _counted(self, cluster: str) -> Amount:
        """Return what a cluster counts with."""
        known, at = self._known.get(cluster, (None, 0.0))
        if known is not None and self._driver.now() - at <= self._kept:
            return known
        return Amount(*self._driver.scheduler.registry.held_in(cluster))

    def _log(self, failures: Sequence[str]) -> None:
        """Log which clusters do not answer, when they change."""
        text = "; ".join(failures)
        if text and text != self._logged:
            log.warning("cluster capacity without news: %s", text)
        self._logged = text


async def _of(client: Caller, timeout: float, retry: bool = True) -> Amount:
    """Request the capacity of a cluster. Raises PelotonError."""
    answer: pb.ClusterCapacityResponse = await client.call(
        "ClusterCapacity", pb.ClusterCapacityRequest(), timeout=timeout, retry=retry
    )
    if answer.HasField("error"):
        raise Unavailable(f"hostmgr: {answer.error.clusterUnavailable.message}")
    normal, slack = _resources(answer.physicalResources), _resources(answer.physicalSlackResources)
    return Amount(normal, slack, await _pooled(client, timeout, retry))


async def _pooled(client: Caller, timeout: float, retry: bool) -> bool:
    """Return whether the host pools of a cluster are on. Raises PelotonError where it does not answer."""
    try:
        await client.call(
            "GetHostPoolCapacity", pb.GetHostPoolCapacityRequest(), timeout=timeout, retry=retry
        )
    except Refused:
        return False
    return True


def _resources(wires: Iterable[pb.Resource]) -> Resources:
    amounts = {wire.kind: wire.capacity for wire in wires}
    return Resources.of(*(amounts.get(kind, 0.0) for kind in ("cpu", "memory", "disk", "gpu")))
