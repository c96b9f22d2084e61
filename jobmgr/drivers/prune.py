"""Deletes the oldest workflows of jobs."""

from __future__ import annotations

import logging
from typing import NoReturn

from jobmgr.core.state.instructions import Prune
from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from storage.interface import Store

WORKFLOWS_KEPT = 10
"""As many as a list of them shows unless told otherwise."""
log = logging.getLogger(__name__)


async def prune(store: Store, queue: Queue[Prune], keep: int = WORKFLOWS_KEPT) -> NoReturn:
    """Keep the last `keep` workflows of each job in which one begins; run for ever."""
    while True:
        for wanted in await queue.take(1):
            await _prune(store, wanted, keep)


async def _prune(store: Store, wanted: Prune, keep: int) -> None:
    delays = backoff()
    while True:
        try:
            await store.workflows.prune(wanted.job_id, keep, wanted.current)
            return
        except TRANSIENT as error:
            log.warning("cannot delete old workflows of job %s: %s", wanted.job_id, error)
        await delays.wait()
