"""Delivery of answers that hand out work: undo it at once where the answer does not arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


async def delivered(context: object, undo: Callable[[], None]) -> None:
    """Call `undo` if the call ends before its answer is sent.

    Await this after work was handed out, right before the answer is returned. A call ends early where its
    caller cancelled it, exceeded its deadline, or disconnected.

    The initial metadata is sent first: gRPC refuses it for a call that was cancelled before, and reports the
    cancellation and the metadata in the order in which they happened. So a call that ended before this
    returns is known to have ended. A later loss is not visible here: the caller's next call tells of it, or
    the lease brings the work back.
    """
    call: Any = context
    call.add_done_callback(lambda ended: None if ended.done() else undo())
    await call.send_initial_metadata(())
