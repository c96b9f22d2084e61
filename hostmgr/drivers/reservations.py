"""Reservations of hosts: plans them periodically, and reads from the store when tasks end at the latest."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.claims.claim import Acquired
from hostmgr.core.reservations.queue import Progress
from hostmgr.core.reservations.replanning import Replanning
from hostmgr.core.runs.ends import info_of, to_read
from hostmgr.core.runs.run_info import RunInfo
from hostmgr.core.state.feasibility import GangShape
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.drivers.claim_ids import claim_ids
from hostmgr.drivers.manager import HostManager
from peloton.clock import Clock
from peloton.errors import InvalidArgument, NotFound, Unavailable
from peloton.model.ids import JobId, MesosTaskId, parse_mesos_task_id
from peloton.model.job import JobSpec
from peloton.waking import tick
from storage.interface import Store

CYCLE_SECONDS = 1.0
CONFIGS = 1000
"""Most versions of jobs' configs that are kept."""
RESERVATIONS = Gauge("hostmgr_reservations", "Reservations of hosts for tasks and gangs without a place.")
RESERVED_HOSTS = Gauge("hostmgr_reserved_hosts", "Hosts that are reserved.")
log = logging.getLogger(__name__)


class ReservationPlanner:
    """Keep the plans of reservations up to date, and answer what the services ask."""

    def __init__(self, manager: HostManager, store: Store, clock: Clock) -> None:
        self.reservations = manager.core.reservations
        self._manager = manager
        self._store = store
        self._clock = clock
        self._configs: OrderedDict[tuple[JobId, int], JobSpec] = OrderedDict()
        self._replanning = Replanning()
        RESERVATIONS.set_function(lambda: len(self.reservations))
        RESERVED_HOSTS.set_function(lambda: self.reservations.reserved_hosts)

    async def run(self) -> NoReturn:
        """Plan periodically while there are reservations."""
        while True:
            await tick(CYCLE_SECONDS)
            await self.cycle()

    async def cycle(self) -> None:
        """End reservations that nobody renews, learn about the tasks on the hosts, and plan."""
        for each in self.reservations.expire(self._clock.monotonic()):
            log.info("reservation %s was not renewed and has ended", each)
        if not len(self.reservations):
            return
        try:
            await self._learn()
        except Unavailable as error:
            log.warning("when tasks end is not known: %s", error)
        await self._replan()

    async def _replan(self) -> None:
        """Plan with other work between the steps, unless that is going on already."""
        now = self._clock.monotonic()
        if not self._replanning.begin(now):
            return
        try:
            for _ in self.reservations.replan_steps(now):
                await asyncio.sleep(0)
        finally:
            self._replanning.end()

    # Requests of the services.

    async def renew(self, wishes: Sequence[tuple[str, GangShape]], owner: str) -> list[Progress]:
        """Keep or make reservations; return how far each is. The hosts of one that is ready are claimed."""
        now = self._clock.monotonic()
        new = [id for id, shape in wishes if self.reservations.renew(id, shape, now, owner)]
        if self._replanning.is_due(bool(new), now):
            await self._replan()
        return [self._progress(id, owner) for id, _ in wishes]

    def _progress(self, id: str, owner: str) -> Progress:
        """Return how far a reservation is. One that was cancelled meanwhile has no hosts."""
        try:
            return self.reservations.progress(id, claim_ids(), self._clock.monotonic(), owner)
        except NotFound:
            return Progress()

    async def backfill(self, run: MesosTaskId, want: HostFilter, owner: str) -> tuple[Acquired, bool]:
        """Claim hosts, also reserved ones, for the tasks of a run's job.

        Return the claims, and whether any reserved host is open to tasks that end in time. A job whose tasks
        have no longest time gets none. Raises InvalidArgument, Unavailable.
        """
        nothing = Acquired((), {})
        if not self.reservations.open_for(0, self._clock.monotonic()):
            return nothing, False
        try:
            longest = await self._longest(run)
        except NotFound:
            return nothing, True
        opened = self.reservations.open_for(longest, self._clock.monotonic()) if longest else frozenset()
        if not opened:
            return nothing, True
        return self._manager.acquire(replace(want, opened=opened), owner, longest), True

    def now(self) -> float:
        """Return seconds on the monotonic clock."""
        return self._clock.monotonic()

    # When tasks end.

    async def _longest(self, run: MesosTaskId) -> int:
        """Return the longest time of the run's job in seconds; 0: it has none. Raises NotFound."""
        parsed = parse_mesos_task_id(run)
        runtime = await self._store.tasks.get(parsed.job_id, parsed.instance)
        return (await self._config(parsed.job_id, runtime.config_version)).sla.max_running_time

    async def _learn(self) -> None:
        """Read what the tasks on the hosts to be compared use, and when they end at the latest."""
        runs = self._manager.runs
        for run in to_read(self.reservations.candidates(), runs):
            info = await self._info(run)
            if info is not None:
                runs.learn(run, info)

    async def _info(self, text: MesosTaskId) -> RunInfo | None:
        """Return what is stored of a run; None where it is not, or has not begun to run."""
        try:
            run = parse_mesos_task_id(text)
            runtime = await self._store.tasks.get(run.job_id, run.instance)
            spec = await self._config(run.job_id, runtime.config_version)
        except (InvalidArgument, NotFound):
            return None
        return info_of(run, runtime, spec, self._clock.monotonic(), self._clock.wall())

    async def _config(self, job_id: JobId, version: int) -> JobSpec:
        known = self._configs.get((job_id, version))
        if known is None:
            known = await self._store.jobs.config(job_id, version)
            self._configs[job_id, version] = known
            while len(self._configs) > CONFIGS:
                self._configs.popitem(last=False)
        return known
