"""Plans for gangs that are not enqueued: the engine's decisions, over ports that claim and report nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NoReturn

from peloton.backoff import Backoff
from peloton.errors import PelotonError
from peloton.model.constraint import Label
from peloton.model.resources import Resources
from peloton.model.shortage import Shortage
from placement.core.host_estimates import HostEstimates
from placement.core.model import UNBOUNDED, Gang, Host, HostPlacement, Needs, Shape, TasksOnHosts
from placement.core.table import capacity
from placement.engine import families
from placement.placing import Context, Placing
from placement.plans import Finder, GroupPlan, PlannedGroup, PlannedHosts, PlanQueue, PlanRequest
from placement.ports import (
    NO_HOSTS,
    Acquired,
    Claims,
    Desired,
    Failure,
    GangQueue,
    Rejection,
    ReservationReport,
)

GANGS_AT_ONCE = 1000
"""Gangs that are planned before other work runs."""
NAMES = 5
"""Hosts of a group that are named."""
ROWS = 50
"""Groups of hosts that an answer lists."""
ROOM = "insufficient_offer_resources"
"""The match result of hosts that the plan itself has filled."""
ANSWER_EARLIER = 2.0
"""Seconds of the time for an answer that are left for its way."""
log = logging.getLogger(__name__)


class Planner:
    """Answers requests one after the other, beside the engine."""

    def __init__(self, context: Context, plans: PlanQueue, finder: Finder, wait: float) -> None:
        """Plan by the strategy of `context`. Wait `wait` seconds at most in one question for requests."""
        self._context = context
        self._plans = plans
        self._finder = finder
        self._wait = wait
        self._backoff = Backoff(0.1, 5.0, jitter=0.5)

    async def run(self) -> NoReturn:
        """Answer requests. Resmgr and hostmgr may come and go."""
        while True:
            try:
                request = await self._plans.take(self._wait)
                self._backoff.reset()
                if request is not None:
                    await self._plans.answer(request.id, await self.plan(request))
            except PelotonError as error:
                log.debug("no plan is made: %s", error)
                await self._backoff.wait()

    async def plan(self, request: PlanRequest) -> list[GroupPlan]:
        """Return where the gangs of each group would go now."""
        claims = PlannedClaims(self._finder, self._context.claims)
        labels: dict[str, Counter[Label]] = {}
        found: list[GroupPlan] = []
        end = asyncio.get_running_loop().time() + request.seconds - ANSWER_EARLIER
        for group in request.groups:
            record = Record(self._context.queue, claims, labels)
            context = replace(
                self._context,
                queue=record,
                claims=claims,
                patience=0.0,
                desired_host_patience=0.0,
                slots=asyncio.Semaphore(1),
                estimates=HostEstimates(),
                unreported=deque(),
            )
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await _place(context, group, record)
            found.append(record.plan(group, request.seconds))
        return found


async def _place(context: Context, group: PlannedGroup, record: Record) -> None:
    """Place gangs some at a time; those after one without a place are alike and get none either."""
    gangs = group.gangs()
    while not record.failures and (some := list(islice(gangs, GANGS_AT_ONCE))):
        waiting = families(context, some)
        while waiting:
            family, members = waiting.pop()
            undesired: list[Gang] = []
            placing = Placing(family, context, on_undesired=undesired.extend)
            placing.add(members)
            await placing.run()
            waiting += families(context, undesired)
        await asyncio.sleep(0)


@dataclass(slots=True)
class Record:
    """The queue of a plan: keeps what is reported in place of sending it."""

    queue: GangQueue
    """For questions that change nothing."""
    claims: PlannedClaims
    labels: dict[str, Counter[Label]]
    """Labels of the tasks that the whole plan has placed, by host."""
    tasks: Counter[str] = field(default_factory=Counter)
    """Placed tasks by host."""
    failures: list[Failure] = field(default_factory=list)

    async def dequeue(self, limit: int, wait: float) -> Sequence[Gang]:
        """Return nothing: a plan has its gangs."""
        return ()

    async def report(
        self, placements: Sequence[HostPlacement], failures: Sequence[Failure]
    ) -> Sequence[Rejection]:
        """Note placements and failures."""
        self.failures += failures
        for placement in placements:
            self.tasks[placement.host.hostname] += len(placement.tasks)
            self.labels.setdefault(placement.host.hostname, Counter()).update(
                label for task in placement.tasks for label in task.labels
            )
            self.claims.use(placement)
        return ()

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        """Return nothing: a plan reserves no hosts."""
        return ()

    async def tasks_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        """Return the labels of the tasks on hosts, with those that the plan has put there."""
        known = await self.queue.tasks_on(hostnames)
        planned = ((name, self.labels.get(name, Counter())) for name in hostnames)
        return {name: Counter(known.get(name, {})) + more for name, more in planned}

    def plan(self, group: PlannedGroup, seconds: float) -> GroupPlan:
        """Return what was reported of a group."""
        placed = sum(self.tasks.values()) // len(group.gang.tasks)
        reason = self.failures[0].reason if self.failures else ""
        if placed < group.count and not reason:
            reason = f"the plan was not complete after {seconds:g} s"
        return GroupPlan(placed, group.count - placed, summary(self.tasks), reason)


def summary(tasks: Mapping[str, int]) -> tuple[PlannedHosts, ...]:
    """Group hosts by their number of tasks, those with the most tasks first; ROWS groups at most."""
    hosts: dict[int, list[str]] = {}
    for name, count in tasks.items():
        hosts.setdefault(count, []).append(name)
    rows = [PlannedHosts(len(names), count, tuple(sorted(names)[:NAMES])) for count, names in hosts.items()]
    return tuple(sorted(rows, key=lambda row: -row.tasks)[:ROWS])


class PlannedClaims:
    """Claims of a plan: hosts that could be claimed, less what the plan has put on them."""

    def __init__(self, finder: Finder, claims: Claims) -> None:
        """`claims` is used for comparisons with empty hosts only."""
        self._finder = finder
        self._claims = claims
        self._found: dict[Needs, _Found] = {}
        self._held: set[str] = set()
        """Hosts by agent that the plan holds at the moment."""
        self._used: dict[str, _Used] = {}

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        """Return up to `most` hosts that have room, as a claim would."""
        found = self._found.setdefault(needs, _Found())
        chosen = self._usable(found.hosts, needs, most)
        while len(chosen) < most and not found.complete:
            answer = await self._finder.find(needs, most - len(chosen), found.offset)
            found.add(answer)
            chosen += self._usable(answer.hosts, needs, most - len(chosen))
        self._held.update(host.agent_id for host in chosen)
        counts = {name: count for name, count in found.counts.items() if name != "match"}
        filled = len(found.hosts) - len(chosen)
        if filled:
            counts[ROOM] = counts.get(ROOM, 0) + filled
        return Acquired(chosen, counts)

    def _usable(self, hosts: Sequence[Host], needs: Needs, most: int) -> list[Host]:
        chosen: list[Host] = []
        for host in hosts:
            if len(chosen) == most:
                break
            if host.agent_id in self._held:
                continue
            used = self._used.get(host.agent_id)
            left = host if used is None else used.taken_from(host)
            if capacity(left, needs):
                chosen.append(left)
        return chosen

    async def release(self, hosts: Sequence[Host]) -> None:
        """End what the plan holds."""
        self._held.difference_update(host.agent_id for host in hosts)

    def use(self, placement: HostPlacement) -> None:
        """Note what the plan has put on a host."""
        agent = placement.host.agent_id
        self._used.setdefault(agent, _Used()).add(placement)
        self._held.discard(agent)

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return why gangs would not fit on empty hosts."""
        return await self._claims.compare(shapes)


@dataclass(slots=True)
class _Found:
    """Hosts that match some needs."""

    hosts: list[Host] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)
    offset: int = 0
    complete: bool = False

    def add(self, answer: Acquired) -> None:
        self.hosts += answer.hosts
        self.offset += len(answer.hosts)
        self.counts = answer.counts
        self.complete = not answer.hosts or self.offset >= answer.counts.get("match", 0)


@dataclass(slots=True)
class _Used:
    """What a plan has put on a host."""

    resources: Resources = field(default_factory=Resources)
    slack_cpu: int = 0
    ports: set[int] = field(default_factory=set)
    tasks: int = 0

    def add(self, placement: HostPlacement) -> None:
        for task in placement.tasks:
            needs = task.needs.resources
            if task.needs.revocable:
                self.slack_cpu += needs.cpu
                needs = replace(needs, cpu=0)
            self.resources += needs
        self.ports.update(placement.ports)
        self.tasks += len(placement.tasks)

    def taken_from(self, host: Host) -> Host:
        """Return the host with what is left of it."""
        return replace(
            host,
            free=host.free - self.resources,
            slack_cpu=host.slack_cpu - self.slack_cpu,
            ports=_without(host.ports, self.ports),
            launches=host.launches if host.launches == UNBOUNDED else max(0, host.launches - self.tasks),
        )


def _without(ranges: Sequence[tuple[int, int]], ports: set[int]) -> tuple[tuple[int, int], ...]:
    """Return port ranges, both ends inside, without some ports."""
    left: list[tuple[int, int]] = []
    for first, last in ranges:
        for port in sorted(port for port in ports if first <= port <= last):
            if port > first:
                left.append((first, port - 1))
            first = port + 1
        if first <= last:
            left.append((first, last))
    return tuple(left)
