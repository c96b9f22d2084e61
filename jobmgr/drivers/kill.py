"""Kills runs in Mesos, shuts down executors and reconciles runs, in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.task.maintained import is_for_maintenance
from jobmgr.drivers.retry import Bucket
from jobmgr.engine.outbox import Queue
from jobmgr.ports.hostmgr import Holds, Kills
from peloton.errors import PelotonError
from peloton.model.ids import JobId, Run

KILLS_PER_CALL = 1000
RUNS_PER_RECONCILIATION = 1000
log = logging.getLogger(__name__)


FindJob = Callable[[JobId], CachedJob | None]
"""Returns an active job as it is stored."""


async def kill(hostmgr: Kills | Holds, runs: Collection[Run], job: FindJob) -> None:
    """Kill runs, and log what fails: the core repeats it.

    Whether a kill is for maintenance is read now: a task may have been stopped while its kill was queued.
    """
    maintained = [run for run in runs if is_for_maintenance(job(run.job_id), run)]
    kept = frozenset(maintained)
    await _kill(hostmgr, [run for run in runs if run not in kept], False)
    await _kill(hostmgr, maintained, True)


async def _kill(hostmgr: Kills | Holds, runs: Collection[Run], maintenance: bool) -> None:
    if not runs:
        return
    try:
        failed = await hostmgr.kill(runs, maintenance)
    except PelotonError as error:
        log.warning("%d kills: %s", len(runs), error)
        return
    if failed is not None:
        log.warning("%d of %d kills failed: %s", failed.runs, len(runs), failed.message)


class Killer:
    """Carries out Kill, ShutDown and Reconcile. The core repeats what fails until there is a status."""

    def __init__(self, hostmgr: Kills, job: FindJob, kills: Bucket, shut_downs: Bucket) -> None:
        self._hostmgr = hostmgr
        self._job = job
        self._kills = kills
        self._shut_downs = shut_downs

    async def kill(self, queue: Queue[Run]) -> None:
        """Kill runs; run for ever."""
        while True:
            runs = dict.fromkeys(await queue.take(self._kills.share(KILLS_PER_CALL)), True)
            await self._kills.pay(len(runs))
            await kill(self._hostmgr, runs, self._job)

    async def shut_down(self, queue: Queue[tuple[Run, str]]) -> None:
        """Shut down executors; run for ever."""
        while True:
            runs = await queue.take(self._shut_downs.share(KILLS_PER_CALL))
            await self._shut_downs.pay(len(runs))
            try:
                await self._hostmgr.shut_down(runs)
            except PelotonError as error:
                log.warning("%d executors not shut down: %s", len(runs), error)

    async def reconcile(self, queue: Queue[tuple[Run, str]]) -> None:
        """Reconcile runs; run for ever."""
        while True:
            runs = await queue.take(RUNS_PER_RECONCILIATION)
            try:
                await self._hostmgr.reconcile(runs)
            except PelotonError as error:
                log.warning("%d runs not reconciled: %s", len(runs), error)
