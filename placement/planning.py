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
from peloton.model.hostcounts import MATCH
from peloton.model.resources import Resources
from peloton.model.shortage import Shortage
from placement.core.host_estimates import HostEstimates
from placement.core.model import UNBOUNDED, Gang, Host, HostClass, HostPlacement, Needs, Shape, TasksOnHosts
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
PAGE = 1000
"""Hosts that are read at least with one question."""
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
    """Claims of a plan: hosts that could be claimed, less what the plan has put on them.

    Needs that differ in amounts only share what is known of their hosts, so that a job of instances that are
    all different is planned without a question to hostmgr for each.
    """

    def __init__(self, finder: Finder, claims: Claims) -> None:
        """`claims` is used for comparisons with empty hosts only."""
        self._finder = finder
        self._claims = claims
        self._found: dict[Needs, _Found] = {}
        self._known: dict[_Kind, dict[str, Host]] = {}
        """Hosts by agent, in the order in which they were found, less what the plan has put on them."""
        self._held: set[str] = set()
        """Hosts by agent that the plan holds at the moment."""
        self._used: dict[str, _Used] = {}

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        """Return up to `most` hosts that have room, as a claim would."""
        known = self._known.setdefault(_kind(needs), {})
        found = self._found.get(needs)
        if found is None:
            # Hosts that were found for others of the kind come first; the search begins behind these.
            found = self._found[needs] = _Found(first=len(known))
        chosen = self._usable(found, known, needs, most)
        while len(chosen) < most and not found.complete:
            answer = await self._finder.find(needs, max(most - len(chosen), PAGE), found.offset)
            found.read(answer)
            self._add(known, answer.hosts)
            chosen += self._usable(found, known, needs, most - len(chosen))
        counts = {name: count for name, count in found.counts.items() if name != MATCH}
        filled = found.counts.get(MATCH, 0) - len(chosen)
        if filled > 0:
            counts[ROOM] = counts.get(ROOM, 0) + filled
        return Acquired(chosen, counts)

    def _add(self, known: dict[str, Host], hosts: Sequence[Host]) -> None:
        """Add hosts that are not known yet."""
        for host in hosts:
            if host.agent_id not in known:
                used = self._used.get(host.agent_id)
                known[host.agent_id] = host if used is None else used.taken_from(host)

    def _usable(self, found: _Found, known: dict[str, Host], needs: Needs, most: int) -> list[Host]:
        """Return hosts with room. One without is not examined again: a plan only takes."""
        found.examine(known)
        chosen: list[Host] = []
        kept: list[str] = []
        candidates = iter(found.open)
        while len(chosen) < most and (agent := next(candidates, None)) is not None:
            left = known[agent]
            if capacity(left, needs):
                kept.append(agent)
                if agent not in self._held:
                    chosen.append(left)
        found.open = [*kept, *candidates]
        # Those that are chosen now are held when `_usable` is called again for the same claim.
        self._held.update(host.agent_id for host in chosen)
        return chosen

    async def release(self, hosts: Sequence[Host]) -> None:
        """End what the plan holds."""
        self._held.difference_update(host.agent_id for host in hosts)

    def use(self, placement: HostPlacement) -> None:
        """Note what the plan has put on a host."""
        agent = placement.host.agent_id
        part = _Used()
        part.add(placement)
        self._used.setdefault(agent, _Used()).add(placement)
        for known in self._known.values():
            if agent in known:
                known[agent] = part.taken_from(known[agent])
        self._held.discard(agent)

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return why gangs would not fit on empty hosts."""
        return await self._claims.compare(shapes)


_Kind = tuple[HostClass, bool]


def _kind(needs: Needs) -> _Kind:
    """Return what needs have in common whose hosts are the same, apart from amounts.

    Hosts are described with their revocable resources only where these are asked for.
    """
    return needs.host_class, needs.revocable


@dataclass(slots=True)
class _Found:
    """The hosts that match some needs, read page by page from `first` on, and then from the beginning."""

    first: int
    read_hosts: int = 0
    matching: int | None = None
    """Number of all; None: not known yet."""
    counts: Mapping[str, int] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    """Agents that may have room."""
    examined: int = 0
    """How many of the known hosts were added to `open`."""

    @property
    def offset(self) -> int:
        """Return where the next page begins."""
        return (self.first + self.read_hosts) % self.matching if self.matching else self.first

    @property
    def complete(self) -> bool:
        """Return whether all were read."""
        return self.matching is not None and self.read_hosts >= self.matching

    def read(self, answer: Acquired) -> None:
        """Take an answer."""
        before, self.matching = self.offset, answer.counts.get(MATCH, 0)
        self.counts = answer.counts
        if answer.hosts:
            self.read_hosts += len(answer.hosts)
        elif before < self.matching or not self.first:
            self.read_hosts = self.matching
        else:
            # The search began behind the last host that matches.
            self.first = 0

    def examine(self, known: Mapping[str, Host]) -> None:
        """Add the known hosts that were not looked at."""
        if self.examined < len(known):
            self.open += islice(known, self.examined, None)
            self.examined = len(known)


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
