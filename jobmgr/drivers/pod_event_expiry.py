"""Expiry of pod events: those of ended runs are kept for `event_days` (90 by default)."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from jobmgr.engine.transient import TRANSIENT
from peloton.clock import NANOSECONDS, Clock
from storage.interface import Store

FIRST_EXPIRY_SECONDS = 600.0
"""Delay of the first expiry after a leader's start, as some leaders lead only for a short time."""
DAY_NANOSECONDS = 86400 * NANOSECONDS
log = logging.getLogger(__name__)


async def expire_pod_events(
    store: Store, clock: Clock, days: float, every: float, first: float = FIRST_EXPIRY_SECONDS
) -> NoReturn:
    """Drop events of ended runs that are older than `days`, every `every` seconds; run for ever."""
    delay = first
    while True:
        await asyncio.sleep(delay)
        delay = every
        try:
            gone = await store.pod_events.expire(clock.wall() - round(days * DAY_NANOSECONDS))
        except TRANSIENT as error:
            log.warning("old events are not dropped yet: %s", error)
            continue
        if gone:
            log.info("dropped %d events of ended runs, older than %g days", gone, days)
