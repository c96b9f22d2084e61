"""What an answer hands out must reach its caller, or go back at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


async def delivered(context: Any, undo: Callable[[], None]) -> None:
    """To be awaited once something was handed out, right before the answer is returned. `undo` is called
    where the call ends before its answer is sent: the caller cancelled it, gave up waiting, or is gone.

    The answer's head is sent ahead: gRPC refuses it for a call that was cancelled before, and tells of the
    cancellation and of the head in the order in which they happened. So a call that ended before this returns
    is known to have ended. What is lost after that is not seen here: it comes back with the lease.
    """
    context.add_done_callback(lambda ended: None if ended.done() else undo())
    await context.send_initial_metadata(())
