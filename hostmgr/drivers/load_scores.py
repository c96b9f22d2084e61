"""Load scores of hosts, 0 to 100, read periodically."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.agents.load_scores import Loads, Scores
from hostmgr.core.state.table import HostTable
from peloton.errors import Unavailable
from peloton.model.cluster import UNNAMED

Source = Callable[[], Awaitable[Scores]]
KNOWN = Gauge("hostmgr_load_scores", "Hosts with a known load score.")
log = logging.getLogger(__name__)


class LoadScores:
    """Keep the scores in the table of hosts up to date."""

    def __init__(
        self,
        table: HostTable,
        source: Source,
        interval: float,
        keep: float,
        now: Callable[[], float],
        cluster: str = UNNAMED,
    ) -> None:
        """Read every `interval` seconds; forget scores that are older than `keep` seconds.

        The source names hosts as Mesos does, or as Peloton does in `cluster`.
        """
        self._loads = Loads(table, interval, keep, now(), cluster)
        self._source = source
        self._now = now

    async def follow(self) -> NoReturn:
        """Read periodically."""
        while True:
            pause = await self.read()
            await asyncio.sleep(pause)

    async def read(self) -> float:
        """Read the scores; return the seconds until the next read. Where it fails the last ones stay."""
        try:
            pause = self._loads.take(await self._source(), self._now())
        except Unavailable as error:
            log.warning("load scores cannot be read: %s", error)
            pause = self._loads.failed(self._now())
        KNOWN.set(self._loads.known)
        return pause
