"""Ends of jobs in the store: finished ones are retired, deleted ones removed, unconfirmed ones adopted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from jobmgr.engine.accounts import Accounts
from jobmgr.engine.engine import ADOPTION_DELAYS, Engine
from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.errors import NotFound
from peloton.model.ids import JobId
from storage.interface import Store

RETIREMENTS_AT_ONCE = 100
log = logging.getLogger(__name__)


Holds = Callable[[JobId], bool]
"""Returns whether this instance owns the shard of a job: else the job is left to its owner."""


async def retire(
    store: Store, queue: Queue[JobId], accounts: Accounts, holds: Holds = lambda job_id: True
) -> None:
    """Take finished jobs out of the active set, once their accounts are stored; run for ever."""
    while True:
        jobs = dict.fromkeys(await queue.take(RETIREMENTS_AT_ONCE), True)
        await accounts.settle(list(jobs))
        await asyncio.gather(*(_retire(store, job_id, holds) for job_id in jobs))


async def _retire(store: Store, job_id: JobId, holds: Holds) -> None:
    delays = backoff()
    while True:
        try:
            await store.jobs.retire(job_id)
            return
        except TRANSIENT as error:
            if not holds(job_id):
                return
            log.warning("cannot retire job %s: %s", job_id, error)
        await delays.wait()


async def delete(engine: Engine, queue: Queue[JobId]) -> None:
    """Delete services that were stopped to be deleted; run for ever."""
    while True:
        for job_id in await queue.take(RETIREMENTS_AT_ONCE):
            pause = backoff()
            while True:
                try:
                    await engine.remove(job_id)
                    break
                except TRANSIENT as error:
                    if not engine.shards.holds(job_id):
                        break
                    log.warning("cannot delete job %s: %s", job_id, error)
                await pause.wait()


async def adopt(engine: Engine, delays: Sequence[float] = ADOPTION_DELAYS) -> None:
    """Adopt jobs that are stored although their creation failed; run for ever."""
    while True:
        for job_id in await engine.unconfirmed.take(1):
            for delay in delays:
                await asyncio.sleep(delay)
                if await _adopted(engine, job_id):
                    break


async def _adopted(engine: Engine, job_id: JobId) -> bool:
    """Adopt a job; return whether it is stored."""
    delays = backoff()
    while True:
        try:
            await engine.find(job_id)
            return True
        except NotFound:
            return False
        except TRANSIENT as error:
            if not engine.shards.holds(job_id):
                return True  # its owner finds it among the active jobs
            log.warning("it is unknown whether job %s is stored: %s", job_id, error)
        await delays.wait()
