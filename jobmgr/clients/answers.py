"""Calls that are repeated until there is an answer."""

from __future__ import annotations

import logging

from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.calls.rpc import Answer, Caller, Request, Rpc
from peloton.errors import PelotonError

CALL_SECONDS = 10.0
"""Longest time of one call."""
log = logging.getLogger(__name__)


async def until_answered(
    client: Caller,
    rpc: Rpc[Request, Answer],
    request: Request,
    transient: tuple[type[PelotonError], ...] = TRANSIENT,
) -> Answer:
    """Call until there is an answer; return it. Raises errors that are not transient.

    The request must be safe to repeat.
    """
    delays = backoff()
    while True:
        try:
            return await client.call(rpc, request, timeout=CALL_SECONDS)
        except transient as error:
            log.warning("%s: %s", rpc.name, error)
        await delays.wait()
