"""The drivers of each Mesos cluster: one that does not answer delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from resmgr.drivers.claims import AbandonedClaims
from resmgr.drivers.draining import Draining
from resmgr.drivers.loop import Driver
from resmgr.drivers.status_stream import PullOptions, StatusStream
from resmgr.ports import Hostmgr


class ClusterDrivers:
    """Pulls statuses and draining hosts from the hostmgr of each cluster."""

    def __init__(
        self,
        driver: Driver,
        hostmgr: Callable[[str], Hostmgr],
        claims: AbandonedClaims,
        options: PullOptions,
        resync: Callable[[], Awaitable[None]],
    ) -> None:
        """Get the host manager of a cluster by `hostmgr`. `resync` reads the store after missed events."""
        self._driver = driver
        self._hostmgr = hostmgr
        self._claims = claims
        self._options = options
        self._resync = resync
        self._resyncing = asyncio.Lock()
        self._streams: dict[str, StatusStream] = {}

    async def open(self, clusters: Iterable[str]) -> None:
        """Open the event streams before the store is read, as far as their hostmgrs answer."""
        await asyncio.gather(*(self._stream(cluster).open() for cluster in clusters))

    async def run(self, cluster: str) -> None:
        """Follow a cluster; run for ever."""
        async with asyncio.TaskGroup() as group:
            for name, work in {
                "events": self._stream(cluster).run(),
                "earlier claims": self._claims.shorten_earlier(self._hostmgr(cluster)),
                "draining": Draining(self._driver, self._hostmgr(cluster)).run(),
            }.items():
                group.create_task(work, name=f"{name} {cluster}".rstrip())

    def _stream(self, cluster: str) -> StatusStream:
        stream = self._streams.get(cluster)
        if stream is None:
            stream = StatusStream(self._driver, self._hostmgr(cluster), self._options, self._resync_once)
            self._streams[cluster] = stream
        return stream

    async def _resync_once(self) -> None:
        """Read the store, one reading at a time."""
        async with self._resyncing:
            await self._resync()
