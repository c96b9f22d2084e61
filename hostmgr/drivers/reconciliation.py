"""The loop of reconciliation: request the states of stored runs in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NoReturn

from prometheus_client import Counter

from hostmgr.core.cluster_manager.reconciliation import ReconcileKind, Reconciler
from hostmgr.core.runs.stored import agent_of, of_cluster
from hostmgr.drivers.manager import HostManager
from peloton.clock import Clock
from peloton.errors import InvalidArgument, NotFound, Unavailable
from peloton.model.cluster import UNNAMED
from peloton.model.ids import MesosTaskId, parse_mesos_task_id
from peloton.waking import tick
from storage.interface import Store

CYCLE_SECONDS = 0.5
PAUSE_SECONDS = 0.1
"""Pause after each call, so that its answers are in the ring before the next call."""
RECONCILED = Counter("hostmgr_reconciled", "Runs whose states were requested from Mesos.")
log = logging.getLogger(__name__)
Runs = list[tuple[MesosTaskId, str]]


class Reconciliation:
    """Carry out the decisions of the reconciler."""

    def __init__(
        self,
        manager: HostManager,
        reconciler: Reconciler,
        store: Store,
        clock: Clock,
        batch: int,
        cluster: str = UNNAMED,
    ) -> None:
        """Request at most `batch` runs of this cluster in one call."""
        self._manager = manager
        self._reconciler = reconciler
        self._store = store
        self._clock = clock
        self._batch = batch
        self._cluster = cluster
        self._unnamed: set[MesosTaskId] = set()
        """Runs known here that the store did not have at the last explicit reconciliation."""

    async def run(self) -> NoReturn:
        """Reconcile whenever there is a connection."""
        while True:
            await tick(CYCLE_SECONDS)
            if not self._manager.core.connection.up:
                continue
            try:
                await self._cycle()
            except Unavailable as error:
                log.warning("reconciliation waits: %s", error)
                self._reconciler.reconcile_soon(self._clock.monotonic())

    async def _cycle(self) -> None:
        now = self._clock.monotonic()
        again = self._reconciler.due_retries(now)
        for start in range(0, len(again), self._batch):
            await self._reconcile(again[start : start + self._batch])
        kind = self._reconciler.next_reconciliation(now)
        if kind is ReconcileKind.EXPLICIT:
            await self._manager.repeat_kills()
            await self._explicit()
        elif kind is ReconcileKind.IMPLICIT:
            self._manager.reconcile([])

    async def _explicit(self) -> None:
        """Request the states of all runs of active jobs that Mesos may have.

        Also of those which only this host manager takes for running, also the time before: where the report
        of an end was lost with a connection, and jobmgr has learnt of the end otherwise, nobody else asks.
        """
        requested, due = 0, Runs()
        unnamed = self._manager.runs.confirmed()
        for job_id in await self._store.jobs.active():
            async for page in self._store.tasks.list(job_id):
                now, wall = self._clock.monotonic(), self._clock.wall()
                own = of_cluster(page, self._cluster)
                named = self._reconciler.to_reconcile(job_id, own, now, wall)
                unnamed.difference_update(run for run, _ in named)
                due += named
                while len(due) >= self._batch:
                    requested += await self._reconcile(due[: self._batch])
                    del due[: self._batch]
        again = unnamed & self._unnamed
        self._unnamed = unnamed - again
        due += [(run, agent_id) for run in again if (agent_id := self._manager.runs.agent(run))]
        for start in range(0, len(due), self._batch):
            requested += await self._reconcile(due[start : start + self._batch])
        log.info("requested the states of %d runs", requested)

    async def _reconcile(self, runs: Sequence[tuple[MesosTaskId, str]]) -> int:
        """Request states once the ring has room: Mesos does not repeat these answers.

        Nothing is requested without runs: that would be an implicit reconciliation.
        """
        if not runs:
            return 0
        await self._manager.status_updates.uncrowded()
        self._manager.reconcile(runs)
        RECONCILED.inc(len(runs))
        await self._manager.room()
        await asyncio.sleep(PAUSE_SECONDS)
        return len(runs)

    async def locate(self, runs: Iterable[MesosTaskId]) -> None:
        """Read the agents of runs that are not known here from the store.

        Without the agent Mesos may answer TASK_UNKNOWN for a run that is active. One that has ended, while
        the store does not know it yet, is not taken for one on its host again: nothing would end it then.
        """
        for text in runs:
            if self._manager.runs.agent(text) or self._manager.runs.has_ended(text):
                continue
            try:
                run = parse_mesos_task_id(text)
                runtime = await self._store.tasks.get(run.job_id, run.instance)
            except (InvalidArgument, NotFound, Unavailable) as error:
                log.debug("no agent is known of %s: %s", text, error)
                continue
            if agent_id := agent_of(runtime, run.run, self._cluster):
                self._manager.runs.put(text, agent_id)
