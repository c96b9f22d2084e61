"""Calls by a client of each kind, from an asyncio test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from peloton.client import AsyncPelotonClient, PelotonClient

Ask = Callable[..., Awaitable[Any]]


async def blocking(work: Callable[[PelotonClient], Any], **settings: Any) -> Any:
    def ask() -> Any:
        with PelotonClient("ann", **settings) as client:
            return work(client)

    return await asyncio.to_thread(ask)


async def awaiting(work: Callable[[AsyncPelotonClient], Any], **settings: Any) -> Any:
    async with AsyncPelotonClient("ann", **settings) as client:
        return await work(client)


KINDS = [blocking, awaiting]
