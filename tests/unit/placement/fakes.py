"""A resmgr and a hostmgr in memory, with the engine's ports."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from peloton.clock import SystemClock
from peloton.errors import PelotonError
from peloton.model.constraint import Label
from peloton.model.shortage import Shortage
from placement.core.batch import Batch
from placement.core.daemon import OnePerHost
from placement.core.events import HostsClaimed, Rejection, ReservationAnswer, ReservedClaimed
from placement.core.found_hosts import Find, HostsFound
from placement.core.giving_up import Rules
from placement.core.instructions import Claim, ClaimReserved, ReservationReport
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape, TasksOnHosts, Unplaced
from placement.core.plans import GroupPlan, PlanRequest
from placement.core.reservation_reasons import Reserved
from placement.core.rounds import Rounds
from placement.core.service import Service
from placement.core.strategy import Strategy
from placement.core.table import capacity
from placement.engine import Engine

DEADLINE = 60.0
"""Seconds. On a busy machine the largest of these tests takes more than ten."""


@dataclass
class FakeResmgr:
    ready: deque[Gang] = field(default_factory=deque)
    placements: list[HostPlacement] = field(default_factory=list)
    failures: dict[Gang, str] = field(default_factory=dict)
    shortages: dict[Gang, Shortage | None] = field(default_factory=dict)
    reservations: dict[Gang, str] = field(default_factory=dict)
    """Why gangs wait that have hosts reserved."""
    gone: set[str] = field(default_factory=set)
    """Runs that are not placed any more."""
    dequeue_errors: list[PelotonError] = field(default_factory=list)
    report_errors: list[PelotonError] = field(default_factory=list)
    dequeued: list[int] = field(default_factory=list)
    calls: int = 0
    asked: list[str] = field(default_factory=list)
    """Hosts whose tasks were asked for."""
    empty_calls: int = 0
    """Calls that report nothing: signs of life."""

    async def take(self, limit: int, wait: float) -> Sequence[Gang]:
        if self.dequeue_errors:
            raise self.dequeue_errors.pop()
        if not self.ready:
            await asyncio.sleep(0.01)
        some = [self.ready.popleft() for _ in range(min(limit, len(self.ready)))]
        if some:
            self.dequeued.append(len(some))
        return some

    async def report(self, placements: Sequence[HostPlacement]) -> Sequence[Rejection]:
        self._called()
        self.placements += placements
        return [
            Rejection(placement.host.offer_id, task.run_id, "the run is not known")
            for placement in placements
            for task in placement.tasks
            if task.run_id in self.gone
        ]

    async def give_back(self, unplaced: Sequence[Unplaced]) -> None:
        self._called()
        self.failures.update({each.gang: each.reason for each in unplaced})
        self.shortages.update({each.gang: each.shortage for each in unplaced})

    async def show_life(self) -> None:
        self.empty_calls += 1
        self._called()

    def _called(self) -> None:
        self.calls += 1
        if self.report_errors:
            raise self.report_errors.pop()

    async def take_plan(self, wait: float) -> PlanRequest | None:
        raise AssertionError("an engine makes no plans")

    async def answer_plan(self, plan_id: str, groups: Sequence[GroupPlan]) -> None:
        raise AssertionError("an engine makes no plans")

    async def labels_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        self.asked += hostnames
        found: dict[str, Counter[Label]] = {}
        for placement in self.placements:
            if placement.host.hostname in hostnames:
                labels = found.setdefault(placement.host.hostname, Counter())
                labels.update(label for task in placement.tasks for label in task.labels)
        return found

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        self.reservations.update({report.gang: report.reason for report in reports})
        return [report.gang for report in reports if report.gang.tasks[0].run_id in self.gone]

    def placed(self) -> set[str]:
        return {task.run_id for placement in self.placements for task in placement.tasks}

    def hosts(self) -> list[tuple[str, int]]:
        return sorted((placement.host.hostname, len(placement.tasks)) for placement in self.placements)


@dataclass
class FakeHostmgr:
    free: list[Host]
    claimed: dict[str, Host] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    requested: list[tuple[Needs, int]] = field(default_factory=list)
    errors: list[PelotonError] = field(default_factory=list)
    release_errors: list[Exception] = field(default_factory=list)
    busy: int = 0
    """Hosts that fit and are claimed by somebody else."""
    hold: asyncio.Event | None = None
    """Answers wait for it."""
    most: int = 1000
    """Hosts that one answer has."""
    counts: dict[str, int] | None = None
    """Told instead of what was found."""
    held: tuple[str, ...] = ()
    """For whom hosts are held."""
    shortage: Shortage | None = None
    """Of every shape."""
    compared: list[Shape] = field(default_factory=list)
    reservations: FakeReservations = field(init=False)

    def __post_init__(self) -> None:
        self.reservations = FakeReservations(self)

    async def claim(self, claim: Claim) -> HostsClaimed:
        needs, most, names = claim.needs, claim.most, claim.names
        if self.errors:
            raise self.errors.pop()
        self.requested.append((needs, most))
        hosts = [
            replace(host, host_class=needs.host_class)
            for host in self.free
            if not names or host.hostname in names
        ]
        fitting = [host for host in hosts if capacity(host, needs)][: min(most, self.most)]
        for host in fitting:
            self.claimed[host.offer_id] = host
        self.free = [host for host in self.free if host.offer_id not in self.claimed]
        counts = {
            "match": len(fitting),
            "insufficient_offer_resources": len(hosts) - len(fitting),
            "mismatch_status": self.busy,
        }
        if self.hold is not None:
            await self.hold.wait()
        return HostsClaimed(fitting, counts if self.counts is None else self.counts, self.held)

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        self.compared += shapes
        return [self.shortage for _ in shapes]

    async def release(self, hosts: Sequence[Host]) -> None:
        if self.release_errors:
            raise self.release_errors.pop()
        for host in hosts:
            self.released.append(host.hostname)
            self.free.append(self.claimed.pop(host.offer_id))

    async def find(self, find: Find) -> HostsFound:
        raise AssertionError("an engine makes no plans")

    async def claim_reserved(self, claim: ClaimReserved) -> ReservedClaimed:
        return self.reservations.backfill(claim)

    async def reserve(self, wishes: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        return self.reservations.reserve(wishes)

    async def cancel_reservations(self, ids: Sequence[str]) -> None:
        self.reservations.cancel(ids)


@dataclass
class FakeReservations:
    """Reservations that have no hosts until some are given."""

    hostmgr: FakeHostmgr
    reserved: dict[str, Shape] = field(default_factory=dict)
    progress: Reserved = field(default_factory=lambda: Reserved(2, 1, ("host-0", "host-1")))
    given: dict[str, Sequence[Host]] = field(default_factory=dict)
    """Hosts for a reservation."""
    open: list[Host] = field(default_factory=list)
    """Reserved hosts that tasks may use which end in time."""
    in_time: set[str] = field(default_factory=set)
    """The jobs of such tasks."""
    backfills: list[str] = field(default_factory=list)
    errors: list[PelotonError] = field(default_factory=list)

    def reserve(self, gangs: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        if self.errors:
            raise self.errors.pop()
        self.reserved.update(gangs)
        return [ReservationAnswer(self.progress, self._claimed(id)) for id, _ in gangs]

    def _claimed(self, id: str) -> Sequence[Host]:
        hosts = self.given.pop(id, ())
        self.hostmgr.claimed.update({host.offer_id: host for host in hosts})
        if hosts:
            del self.reserved[id]
        return hosts

    def cancel(self, ids: Sequence[str]) -> None:
        for id in ids:
            self.reserved.pop(id, None)

    def backfill(self, claim: ClaimReserved) -> ReservedClaimed:
        self.backfills.append(claim.run_id)
        if not self.open or claim.run_id[:36] not in self.in_time:
            return ReservedClaimed((), bool(self.open))
        hosts = [replace(host, host_class=claim.needs.host_class) for host in self.open[: claim.most]]
        del self.open[: claim.most]
        self.hostmgr.claimed.update({host.offer_id: host for host in hosts})
        return ReservedClaimed(hosts, True)


@dataclass
class World:
    resmgr: FakeResmgr
    hostmgr: FakeHostmgr
    engine: Engine
    reservations: FakeReservations

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():  # noqa: ASYNC110 - what it waits for is no event of one place
                await asyncio.sleep(0.005)

    async def idle(self) -> None:
        """Until every gang was placed or given back, and what follows from it is done."""
        await self.until(lambda: not self.resmgr.ready and not self.engine.rounds.waiting)


@asynccontextmanager
async def running(
    gangs: Sequence[Gang],
    hosts: Sequence[Host],
    *,
    patience: float = 0.0,
    longest: float = 240.0,
    services: bool = False,
    daemons: bool = False,
    strategy: Strategy | None = None,
    desired_host_patience: float = 100.0,
    max_waiting: int = 4000,
    keep_alive: float = 10.0,
    prepare: Callable[[World], None] = lambda world: None,
) -> AsyncIterator[World]:
    """An engine at work, of batch tasks, of `services`, of `daemons` or with a `strategy`, until the end."""
    resmgr, hostmgr = FakeResmgr(deque(gangs)), FakeHostmgr(list(hosts))
    rules = Rules(
        strategy or _strategy(services, daemons, longest),
        patience=patience,
        desired_host_patience=desired_host_patience,
    )
    rounds = Rounds(rules, max_waiting=max_waiting, keep_alive=keep_alive, reserving_interval=0.01)
    engine = Engine(rounds, resmgr, hostmgr, SystemClock(), asyncio.Semaphore(4))
    world = World(resmgr, hostmgr, engine, hostmgr.reservations)
    prepare(world)
    task = asyncio.create_task(world.engine.run())
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _strategy(services: bool, daemons: bool, longest: float) -> Strategy:
    if daemons:
        return OnePerHost(longest=longest)
    return Service(longest=longest) if services else Batch(longest=longest)
