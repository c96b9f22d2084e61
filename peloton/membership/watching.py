"""Following nodes of ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from peloton.errors import Unavailable
from peloton.membership.connection import Connection, Watch
from peloton.membership.kept_lease import PAUSE


async def follow(
    read: Callable[[Watch], Awaitable[None]], seen: asyncio.Event, connection: Connection
) -> None:
    """Call a function now, and again after each change."""
    while True:
        touched = asyncio.Event()
        try:
            await read(touched.set)
        except Unavailable:
            await asyncio.sleep(PAUSE)
            await connection.connected()
            continue
        seen.set()
        await touched.wait()
