"""The capacity of all Mesos clusters, and whether host pools are on, requested from their hostmgrs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from peloton.errors import PelotonError, Unavailable
from peloton.model.host_class import ANY_HOST
from peloton.model.resources import ZERO
from peloton.rpc.clusters import ALONE, LONGEST_CALL, described
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.classes import ClassCapacity, without_pools
from resmgr.drivers.loop import Driver
from resmgr.ports import Amount, ClusterCapacities

_FRESH_SECONDS = 1.0
KEPT_SECONDS = 300.0
log = logging.getLogger(__name__)


class Capacity:
    """Keep the scheduler's capacity up to date.

    A cluster that cannot be asked counts with its last capacity for a while. After that, and where none is
    known, it counts with what its tasks hold: they are part of the pools' allocations, and must not take from
    other clusters.
    """

    def __init__(
        self,
        driver: Driver,
        hostmgrs: ClusterCapacities,
        first: float,
        interval: float,
        kept: float = KEPT_SECONDS,
    ) -> None:
        """Request every `first` seconds until the capacity is known and stable, then every `interval`.

        `kept`: seconds for which the last capacity of one of several clusters counts without an answer.
        """
        self._driver = driver
        self._hostmgrs = hostmgrs
        self._first = first
        self._interval = interval
        self._kept = kept
        self._known: dict[str, tuple[Amount, float]] = {}
        """The last capacity of each cluster, and when it was requested."""
        self._logged = ""

    async def run(self) -> None:
        """Request periodically, sooner while the capacity is unknown, zero or changing.

        The known capacity stays while hostmgr cannot answer.
        """
        logged = ""
        while True:
            stable = False
            try:
                stable = not await self.update() and self._driver.scheduler.tree.capacity != ZERO
                logged = ""
            except PelotonError as error:
                if str(error) != logged:
                    log.warning("cluster capacity: %s", error)
                    logged = str(error)
            await asyncio.sleep(self._interval if stable else self._first)

    async def fresh(self) -> None:
        """Request now; the known capacity stays where hostmgr cannot answer."""
        try:
            await self.update(_FRESH_SECONDS)
        except PelotonError as error:
            log.warning("cluster capacity: %s", error)

    async def update(self, timeout: float = 10.0) -> bool:
        """Request once and return whether the capacity has changed. Raises PelotonError."""
        tree = self._driver.scheduler.tree
        capacity, slack, pooled, classes = await self._requested(timeout)
        scheduler = self._driver.scheduler
        turned_on = pooled and not scheduler.host_pools
        scheduler.host_pools = pooled
        if not pooled or scheduler.open_pools:
            classes = without_pools(classes)
        known = tree.classes.capacities if tree.classes is not None else {}
        several = dict(classes) if len(classes) > 1 else {}
        changed = (capacity, slack, several) != (tree.capacity, tree.slack_capacity, known)
        if changed:
            log.info("cluster capacity: %s; slack %s", capacity, slack)
            for of, has in sorted(several.items()):
                log.info("of it on %s: %s", of.named(several), has.normal)
            scheduler.set_capacity(capacity, slack, several)
            self._driver.wake()
        if turned_on:
            await self._report_pools(timeout)
        return changed

    async def _report_pools(self, timeout: float) -> None:
        """Log which tasks have no place now that they are confined to host pools."""
        try:
            filled = await self._hostmgrs.pools_with_hosts(timeout)
        except PelotonError as error:
            log.warning("host pools are in use now; it is not known which of them have hosts: %s", error)
            return
        scheduler = self._driver.scheduler
        for pool, (jobs, tasks) in tasks_by_pool(scheduler).items():
            if pool not in filled:
                text = "host pools are in use now, and %s has no host: tasks without a place: %d, of jobs: %d"
                log.warning(text, pool, tasks, jobs)

    async def _requested(self, timeout: float) -> Amount:
        """Return the sum over all clusters. Raises PelotonError where none answers and none is known."""
        names = self._hostmgrs.clusters()
        if tuple(names) == ALONE:
            return await self._hostmgrs.capacity(timeout)
        calls = (self._hostmgrs.of(name).capacity(min(timeout, LONGEST_CALL), retry=False) for name in names)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        failures = []
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, Amount):
                self._known[name] = answer, self._driver.now()
            elif isinstance(answer, PelotonError):
                failures.append(f"Mesos cluster {described(name)}: {answer}")
            else:
                raise answer
        if len(failures) == len(names) and not self._known:
            raise Unavailable("; ".join(failures))
        self._log(failures)
        # A cluster that has not been seen since this start may have tasks.
        return sum(map(self._counted, {*names, *self._driver.scheduler.registry.clusters()}), Amount())

    def _counted(self, cluster: str) -> Amount:
        """Return what a cluster counts with."""
        known, at = self._known.get(cluster, (None, 0.0))
        if known is not None and self._driver.now() - at <= self._kept:
            return known
        scheduler = self._driver.scheduler
        normal, slack = scheduler.registry.held_in(cluster)
        classes = scheduler.tree.classes
        if classes is None:
            return Amount(normal, slack, classes={ANY_HOST: ClassCapacity(normal, slack.cpu)})
        return Amount(normal, slack, classes=scheduler.registry.held_by_class(cluster, classes))

    def _log(self, failures: Sequence[str]) -> None:
        """Log which clusters do not answer, when they change."""
        text = "; ".join(failures)
        if text and text != self._logged:
            log.warning("cluster capacity without news: %s", text)
        self._logged = text


def tasks_by_pool(scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """Return the numbers of jobs and of tasks that are confined to each host pool."""
    found: dict[str, tuple[int, int]] = {}
    for job in scheduler.registry.jobs.values():
        counts = Counter(
            task.needs.host_pool
            for task in job.tasks.values()
            if task.needs.host_pool and scheduler.confines(task.needs.type)
        )
        for pool, count in counts.items():
            jobs, tasks = found.get(pool, (0, 0))
            found[pool] = jobs + 1, tasks + count
    return found
