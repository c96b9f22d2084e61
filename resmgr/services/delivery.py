"""What an answer hands out must reach its caller, or go back at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_PASSES = 5
"""Turns of the event loop that gRPC takes to tell of a cancellation that came while something was handed
out: its socket wakes the loop, its own coroutine goes on, and this call's task is cancelled."""


async def delivered(context: Any, undo: Callable[[], None]) -> None:
    """To be awaited once something was handed out, right before the answer is returned. `undo` is called
    where the call ends before its answer is sent: the caller cancelled it, gave up waiting, or is gone.

    What is lost after gRPC has taken the answer is not seen here: it comes back with the lease.
    """
    context.add_done_callback(lambda ended: None if ended.done() else undo())
    for _ in range(_PASSES):
        await asyncio.sleep(0)
