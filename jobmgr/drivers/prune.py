"""Deletes the oldest workflows of jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn

from jobmgr.core.state.instructions import Prune
from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.model.ids import JobId
from storage.interface import Store

WORKFLOWS_KEPT = 10
"""As many as a list of them shows unless told otherwise."""
log = logging.getLogger(__name__)


async def prune(
    store: Store,
    queue: Queue[Prune],
    keep: int = WORKFLOWS_KEPT,
    holds: Callable[[JobId], bool] = lambda job_id: True,
) -> NoReturn:
    """Keep the last `keep` workflows of each job in which one begins and which it `holds`; run for ever."""
    while True:
        for wanted in await queue.take(1):
            await _prune(store, wanted, keep, holds)


async def _prune(store: Store, wanted: Prune, keep: int, holds: Callable[[JobId], bool]) -> None:
    delays = backoff()
    while True:
        try:
            await store.workflows.prune(wanted.job_id, keep, wanted.current)
            return
        except TRANSIENT as error:
            if not holds(wanted.job_id):
                return
            log.warning("cannot delete old workflows of job %s: %s", wanted.job_id, error)
        await delays.wait()
