"""Works that go on together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_first_ends(*works: Coroutine[Any, Any, Any]) -> None:
    """Run works together until one ends, and end the others. Raises what it raises."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
