"""Pulls from hostmgr what runs use, and hands it to the lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jobmgr.core.state.events import Event, Sampled
from jobmgr.drivers.retry import for_ever
from jobmgr.ports.hostmgr import Readings

WAIT_SECONDS = 20.0
"""How long a call waits in hostmgr for a reading."""
PAUSE_SECONDS = 1.0
"""Time between two calls: readings that come in it come together."""


class RunReadings:
    """Hand what agents tell of runs to the lanes."""

    def __init__(self, hostmgr: Readings, post: Callable[[Event], None], cluster: str) -> None:
        """Pull from the `hostmgr` of a Mesos cluster."""
        self._hostmgr = hostmgr
        self._post = post
        self._cluster = cluster
        self._stream = ""
        self._next = 0

    async def run(self) -> None:
        """Pull for ever."""
        await for_ever(f"what tasks use {self._cluster}".rstrip(), self._step)

    async def _step(self) -> None:
        found = await self._hostmgr.readings(self._stream, self._next, WAIT_SECONDS)
        self._stream, self._next = found.stream, found.next
        if found.readings:
            self._post(Sampled(found.readings))
        await asyncio.sleep(PAUSE_SECONDS)
