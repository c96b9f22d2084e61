"""Kills runs in Mesos, shuts down executors and reconciles runs, in batches."""

from __future__ import annotations

import logging
from collections.abc import Collection

from jobmgr.drivers.retry import Bucket
from jobmgr.engine.outbox import Queue
from jobmgr.ports.hostmgr import Holds, Kills
from peloton.errors import PelotonError
from peloton.model.ids import Run

KILLS_PER_CALL = 1000
RUNS_PER_RECONCILIATION = 1000
log = logging.getLogger(__name__)


async def kill(hostmgr: Kills | Holds, runs: Collection[Run]) -> None:
    """Kill runs, and log what fails: the core repeats it."""
    if not runs:
        return
    try:
        failed = await hostmgr.kill(runs)
    except PelotonError as error:
        log.warning("%d kills: %s", len(runs), error)
        return
    if failed is not None:
        log.warning("%d of %d kills failed: %s", failed.runs, len(runs), failed.message)


class Killer:
    """Carries out Kill, ShutDown and Reconcile. The core repeats what fails until there is a status."""

    def __init__(self, hostmgr: Kills, kills: Bucket, shut_downs: Bucket) -> None:
        self._hostmgr = hostmgr
        self._kills = kills
        self._shut_downs = shut_downs

    async def kill(self, queue: Queue[Run]) -> None:
        """Kill runs; run for ever."""
        while True:
            runs = dict.fromkeys(await queue.take(self._kills.share(KILLS_PER_CALL)), True)
            await self._kills.pay(len(runs))
            await kill(self._hostmgr, runs)

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
