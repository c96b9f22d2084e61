"""Reads of all pools, which jobmgr makes for each new job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from peloton.model.pool import PoolConfig
from storage.codec import POOL
from storage.shared_read import SharedRead


class PoolReads:
    """All pools, as they are at a time after each call.

    Calls share reads, and what has not changed is not decoded again.
    """

    def __init__(self, read: Callable[[], Awaitable[Sequence[Sequence[str]]]]) -> None:
        """Read the stored texts of all pools by a function, each in a row of its own."""
        self._read = read
        self._shared = SharedRead(self._again)
        self._known: Mapping[str, PoolConfig] = {}
        """By the stored text."""
        self._pools: Sequence[PoolConfig] = ()

    async def all(self) -> Sequence[PoolConfig]:
        """Return all pools. Raises what the read raises."""
        await self._shared.made()
        return self._pools

    async def _again(self) -> None:
        texts = [row[0] for row in await self._read()]
        if texts != list(self._known):
            self._known = {text: self._known.get(text) or POOL.decode(text) for text in texts}
            self._pools = tuple(self._known.values())
