"""What an engine does for gangs that found no place: have hosts reserved for them, or use reserved ones.

A gang that wants a reservation stays here until hostmgr has its hosts free; resmgr hears why it waits, and
says when the gang is gone. Other gangs may be placed on hosts that are reserved, where their tasks end before
those hosts are needed; hostmgr decides that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from peloton.errors import PelotonError
from peloton.model.shortage import Shortage
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape, TasksOnHosts
from placement.core.reservation_reasons import describe
from placement.core.strategy import Family
from placement.metrics import BACKFILLED, RESERVED
from placement.placing import Context, Placing
from placement.ports import (
    NO_HOSTS,
    Acquired,
    Claims,
    Desired,
    Failure,
    GangQueue,
    Rejection,
    ReservationReport,
    Reservations,
)

INTERVAL_SECONDS = 1.0
MAX_RESERVING = 200
"""Most gangs of an engine that wait for reserved hosts; further ones are tried again as others are."""
MAX_BACKFILLS = 20
"""Most jobs for which reserved hosts are tried after one pass."""
_STATUS = "mismatch_status"
log = logging.getLogger(__name__)


class LastResort:
    """Gangs of one engine that wait for reserved hosts."""

    def __init__(
        self, context: Context, reservations: Reservations, interval: float = INTERVAL_SECONDS
    ) -> None:
        """`interval`: seconds between two requests for the same reservation."""
        self._context = context
        self._reservations = reservations
        self._interval = interval
        self._gangs: dict[str, tuple[Family, Gang]] = {}
        """By the id of the reservation."""
        self._arrived = asyncio.Event()
        self._closed_until = 0.0
        self._last_failure = ""

    def __len__(self) -> int:
        return len(self._gangs)

    async def take(self, family: Family, failed: Sequence[Failure]) -> list[Failure]:
        """Place gangs on reserved hosts, or take them over; return the failures of those that go back."""
        left = []
        for failure in await self._backfill(family, failed):
            if self._reserves(family, failure):
                self._gangs[_id(failure.gang)] = (family, failure.gang)
                self._arrived.set()
            else:
                left.append(failure)
        return left

    def _reserves(self, family: Family, failure: Failure) -> bool:
        """Return whether hosts are reserved for a gang. One that is for a single host waits for that."""
        wanted = failure.gang.wants_reservation and failure.shortage is None and not family.to_desired_host
        return wanted and len(self._gangs) < MAX_RESERVING

    # Reservations.

    async def run(self) -> NoReturn:
        """Follow the reservations until cancelled."""
        while True:
            self._arrived.clear()
            if not self._gangs:
                await self._arrived.wait()
            try:
                await self._cycle()
                self._last_failure = ""
            except PelotonError as error:
                if str(error) != self._last_failure:
                    log.warning("hosts cannot be reserved: %s", error)
                self._last_failure = str(error)
            await asyncio.sleep(self._interval)

    async def _cycle(self) -> None:
        """Ask for all hosts again; place the gangs that have theirs, report the others.

        Those for which no hosts are reserved yet may use hosts that are reserved for others.
        """
        gangs = list(self._gangs.items())
        shapes = [(id, Shape(gang.shape, family.spread)) for id, (family, gang) in gangs]
        answers = await self._reservations.reserve(shapes)
        reports: list[ReservationReport] = []
        in_line: dict[Family, list[Failure]] = {}
        for (id, (family, gang)), answer in zip(gangs, answers, strict=True):
            if answer.hosts:
                try:
                    await self._place(family, gang, answer.hosts)
                finally:
                    del self._gangs[id]
            else:
                reason = describe(answer.reserved, len(gang.tasks))
                reports.append(ReservationReport(gang, reason, answer.reserved.start))
                if not answer.reserved.hosts:
                    in_line.setdefault(family, []).append(Failure(gang, reason, {_STATUS: 1}))
        for family, waiting in in_line.items():
            left = {failure.gang for failure in await self._backfill(family, waiting)}
            await self._drop([_id(each.gang) for each in waiting if each.gang not in left])
        reports = [report for report in reports if _id(report.gang) in self._gangs]
        if reports:
            gone = await self._context.queue.report_reservations(reports)
            await self._drop([_id(gang) for gang in gone])

    async def _drop(self, ids: Sequence[str]) -> None:
        """End the reservations of gangs that do not wait any more. One that cannot be reached ends later."""
        for id in ids:
            self._gangs.pop(id, None)
        if ids:
            await self._reservations.cancel(ids)

    async def _place(self, family: Family, gang: Gang, hosts: Sequence[Host]) -> None:
        given = _Given(self._context.claims, list(hosts))
        RESERVED.inc(len(gang.tasks))
        placing = Placing(family, replace(self._context, claims=given, last_resort=None))
        placing.add([gang])
        try:
            await placing.run()
        finally:
            await given.release_rest()

    # Backfill.

    async def _backfill(self, family: Family, failed: Sequence[Failure]) -> list[Failure]:
        """Place gangs on reserved hosts that are free until later; return the failures of the others."""
        jobs: dict[str, list[Failure]] = {}
        for each in failed:
            gang = each.gang
            if each.shortage is None and each.counts.get(_STATUS) and not gang.desired_host:
                jobs.setdefault(gang.job_id, []).append(each)
        placed: set[Gang] = set()
        for alike in list(jobs.values())[:MAX_BACKFILLS]:
            if self._context.clock.monotonic() < self._closed_until:
                break
            try:
                placed.update(await self._backfill_job(family, [each.gang for each in alike]))
            except PelotonError as error:
                log.warning("reserved hosts cannot be used: %s", error)
                break
        return [each for each in failed if each.gang not in placed]

    async def _backfill_job(self, family: Family, gangs: Sequence[Gang]) -> list[Gang]:
        """Place gangs of one job; return those that were placed."""
        queue = _Placements(self._context.queue)
        claims = _Open(self._context.claims, self._claim_open, gangs[0].tasks[0].run_id)
        placing = Placing(family, replace(self._context, claims=claims, queue=queue, last_resort=None))
        placing.add(gangs)
        await placing.run()
        failed = {failure.gang for failure in queue.failures}
        placed = [gang for gang in gangs if gang not in failed]
        BACKFILLED.inc(sum(len(gang.tasks) for gang in placed))
        return placed

    async def _claim_open(self, run_id: str, needs: Needs, most: int) -> Acquired:
        hosts, is_open = await self._reservations.backfill(run_id, needs, most)
        if not is_open:
            self._closed_until = self._context.clock.monotonic() + self._interval
        return Acquired(hosts, {})


def _id(gang: Gang) -> str:
    """Return the id of a gang's reservation, the same in every engine."""
    return gang.tasks[0].run_id


@dataclass(slots=True)
class _Given:
    """Claims that hand out given hosts, each once."""

    claims: Claims
    hosts: list[Host]

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        """Hand out the hosts of that class."""
        found = [host for host in self.hosts if host.host_class == needs.host_class]
        self.hosts = [host for host in self.hosts if host.host_class != needs.host_class]
        return Acquired(found, {})

    async def release(self, hosts: Sequence[Host]) -> None:
        """Release claimed hosts."""
        await self.claims.release(hosts)

    async def release_rest(self) -> None:
        """Release the hosts that were not handed out. They are freed by themselves where that fails."""
        if not self.hosts:
            return
        try:
            await self.claims.release(self.hosts)
        except PelotonError as error:
            log.warning("%d claims cannot be released: %s", len(self.hosts), error)

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return no shortages: the gangs fit on the empty hosts."""
        return [None for _ in shapes]


@dataclass(slots=True)
class _Open:
    """Claims on hosts that are open to the tasks of a run's job."""

    claims: Claims
    claim: Callable[[str, Needs, int], Awaitable[Acquired]]
    run_id: str

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        """Claim hosts, also reserved ones."""
        return await self.claim(self.run_id, needs, most)

    async def release(self, hosts: Sequence[Host]) -> None:
        """Release claimed hosts."""
        await self.claims.release(hosts)

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return no shortages: they are known already."""
        return [None for _ in shapes]


@dataclass(slots=True)
class _Placements:
    """A queue that reports placements and keeps failures."""

    queue: GangQueue
    failures: list[Failure] = field(default_factory=list)

    async def dequeue(self, limit: int, wait: float) -> Sequence[Gang]:
        """Lease gangs."""
        return await self.queue.dequeue(limit, wait)

    async def report(
        self, placements: Sequence[HostPlacement], failures: Sequence[Failure]
    ) -> Sequence[Rejection]:
        """Report placements only."""
        self.failures += failures
        return await self.queue.report(placements, ()) if placements else ()

    async def tasks_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        """Return the labels of the tasks on hosts."""
        return await self.queue.tasks_on(hostnames)

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        """Report reservations."""
        return await self.queue.report_reservations(reports)
