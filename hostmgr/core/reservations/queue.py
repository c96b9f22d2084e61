"""Reservations of hosts for tasks and gangs that find no place (docs/behaviour/placement.md).

Reservations are served strictly in the order of their age: an older one may take any host, a younger one
only hosts that no older one has. Each has hosts for its whole gang or none, so that no two can wait for each
other. A reservation lasts as long as it is renewed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hostmgr.core.claims.claim import Claim
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.reservations.plan import Demand, Part, Plan, earlier, plan
from hostmgr.core.reservations.views import Views
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.runs.run_info import vector
from hostmgr.core.state.columns import Mask
from hostmgr.core.state.feasibility import GangShape, Members
from hostmgr.core.state.host_filter import HostFilter
from peloton.errors import AlreadyExists, NotFound, Refused
from peloton.model.payload import Opaque
from peloton.model.plural import plural

LEASE_SECONDS = 15.0
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReservationLimits:
    """How many hosts are reserved, and who may use them meanwhile. Times are in seconds."""

    concurrent: int = 10
    """Most reservations that have hosts at a time; younger ones wait for them."""
    share: float = 0.5
    """Most of all hosts that are reserved at a time; the oldest reservation may have more."""
    candidates: int = 500
    """Most hosts that one plan compares."""
    lease: float = LEASE_SECONDS
    """A reservation ends when it has not been renewed for so long."""
    longest: float = 1800.0
    """A reservation by ReserveHosts, which is not renewed, ends after so long."""
    backfill_margin: float = 30.0
    """How long before the expected start another task must have ended at the latest."""


@dataclass(slots=True, eq=False)
class Reservation:
    """Hosts for one gang, or the wish for them."""

    id: str
    shape: GangShape
    since: float
    until: float
    owner: str = ""
    """The process that asked last."""
    named: frozenset[str] = frozenset()
    """Agents that it is for; empty: any."""
    fixed: bool = False
    """Whether it keeps the host that it got first."""
    plan: Plan | None = None
    claims: tuple[Claim, ...] = ()
    """Claims that were handed out."""
    groups: tuple[int, ...] = ()
    """For each claim the members of the gang that the host is for: the first of those with its constraint."""
    payload: Opaque = field(default=None, repr=False)
    """What the caller wants back with the result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reservation is."""

    claims: tuple[Claim, ...] = ()
    """The hosts, claimed: the gang can be placed."""
    groups: tuple[int, ...] = ()
    """For each claim the members of the gang that it is for: the first of those with its constraint."""
    parts: tuple[Part, ...] = ()
    """The hosts that are reserved."""
    start: float | None = None
    """When the gang is expected to start, on the monotonic clock."""
    ahead: int = 0
    """Older reservations, where it has no hosts."""


class Reservations:
    """All reservations, in the order of their age."""

    def __init__(self, hosts: Hosts, runs: Runs, limits: ReservationLimits | None = None) -> None:
        self._hosts = hosts
        self._runs = runs
        self._limits = limits or ReservationLimits()
        self._all: dict[str, Reservation] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def reserved_hosts(self) -> int:
        """Return how many hosts are reserved."""
        return sum(len(each.plan.parts) for each in self._all.values() if each.plan and not each.claims)

    def renew(self, id: str, shape: GangShape, now: float, owner: str = "") -> bool:
        """Ask for hosts for a gang, or keep what was asked for under that id; return whether it is new."""
        until = now + self._limits.lease
        known = self._all.get(id)
        if known is None:
            self._all[id] = Reservation(id, shape, now, until, owner)
            return True
        known.until, known.owner = until, owner
        if known.shape != shape:
            known.shape, known.plan = shape, None
        return False

    def reserve_one(
        self, id: str, want: HostFilter, agent_ids: Iterable[str], now: float, payload: object = None
    ) -> str:
        """Reserve the host with the fewest tasks among these for a task; return its agent's id.

        Raises AlreadyExists where the task has a reservation, Refused where all matching hosts are reserved
        for others, and NotFound where none matches.
        """
        if id in self._all:
            raise AlreadyExists(f"{id} has a reserved host already")
        mask = self._lasting(want)
        table, named = self._hosts.table, frozenset(agent_ids)
        rows = [row for each in named if (row := table.row(each)) is not None and mask[row]]
        if not rows:
            raise NotFound(
                f"none of the {plural(len(named), 'host')} is in service and meets the needs of {id}"
            )
        reserved = self._hosts.reserved
        found = [table.agent_ids[row] for row in rows if table.agent_ids[row] not in reserved]
        if not found:
            raise Refused(
                f"reserved for others: {plural(len(rows), 'host')}, and no other meets the needs of {id}"
            )
        best = min(found, key=lambda each: (self._runs.count(each), each))
        shape = GangShape((Members(want, 1),))
        made = Reservation(id, shape, now, now + self._limits.longest, "", frozenset({best}), True)
        made.plan, made.payload = Plan((Part(best, None),), None), payload
        self._all[id] = made
        self._hosts.reserved.reserve(id, (best,))
        return best

    def cancel(self, ids: Iterable[str]) -> None:
        """End reservations and free their hosts at once. One that is not known is no error."""
        for each in ids:
            if self._all.pop(each, None) is not None:
                self._hosts.reserved.reserve(each, ())

    def expire(self, now: float) -> list[str]:
        """End the reservations that were not renewed in time; return their ids."""
        over = [each.id for each in self._all.values() if each.until <= now]
        self.cancel(over)
        return over

    def candidates(self) -> frozenset[str]:
        """Return the agents whose tasks the next plans compare."""
        found: set[str] = set()
        tasks = self._task_counts()
        for each in self._waiting():
            found.update(self._candidates(each, self._masks(each), tasks))
        return frozenset(found)

    def replan(self, now: float) -> None:
        """Plan all reservations anew, and reserve their hosts."""
        for _ in self._steps(now, alone=True):
            pass

    def replan_steps(self, now: float) -> Iterator[None]:
        """Plan as `replan` does, the oldest reservation first, one in each step.

        Other work may run between the steps: each step leaves the reservations consistent.
        """
        return self._steps(now, alone=False)

    def _steps(self, now: float, alone: bool) -> Iterator[None]:
        """Plan in steps. `alone`: nothing else runs between them, so that all compare the same hosts."""
        views = Views(self._hosts, self._runs, now)
        taken: set[str] = set()
        tasks = self._task_counts()
        yield
        for each in self._waiting():
            if each.id in self._all and not each.claims:
                if not alone:
                    views = Views(self._hosts, self._runs, now)
                found = self._planned(each, taken, tasks, views, now)
                if taken and len(taken) + len(_agents(found)) > self._limits.share * len(self._hosts.table):
                    found = None
                self._assign(each, found)
                taken.update(_agents(found))
            yield

    def _assign(self, it: Reservation, found: Plan | None) -> None:
        """Reserve the hosts of a plan, also those of younger reservations, which lose all of theirs."""
        losers = {self._hosts.reserved.holder(agent_id) for agent_id in _agents(found)} - {"", it.id}
        for loser in losers:
            self._hosts.reserved.reserve(loser, ())
            self._all[loser].plan = None
        it.plan = found
        self._hosts.reserved.reserve(it.id, _agents(found))

    def progress(self, id: str, ids: Iterator[str], now: float, owner: str = "") -> Progress:
        """Return how far a reservation is; claim its hosts where the gang can start.

        A repeated call returns the same claims as long as they last. Raises NotFound.
        """
        it = self._all.get(id)
        if it is None:
            raise NotFound(f"there is no reservation {id}")
        if not it.claims and it.plan is not None and it.plan.ready:
            self._claim(it, it.plan, ids, now, owner)
        if it.claims:
            return Progress(it.claims, it.groups)
        ahead = 0
        if it.plan is None:
            ahead = sum(1 for other in self._waiting() if other.since < it.since)
            return Progress(ahead=ahead)
        return Progress(parts=it.plan.parts, start=it.plan.start)

    def _claim(self, it: Reservation, ready: Plan, ids: Iterator[str], now: float, owner: str) -> None:
        """Claim the hosts of a plan; where one is gone since it was made, none: the gang is placed whole."""
        self._hosts.reserved.reserve(it.id, ())
        if any(self._hosts.table.row(agent_id) is None for agent_id in ready.agent_ids):
            it.plan = None
            return
        it.claims = self._hosts.claims.acquire_these(ready.agent_ids, ids, now, owner)
        it.groups = tuple(part.group for part in ready.parts)
        assert len(it.claims) == len(it.groups) > 0, it

    def completed(self, ids: Iterator[str], now: float) -> list[tuple[Reservation, Claim]]:
        """Return the reservations by `reserve_one` whose host can be used now, each once, with a claim."""
        found: list[tuple[Reservation, Claim]] = []
        for each in [each for each in self._all.values() if each.fixed]:
            if each.plan is not None and each.plan.ready:
                for claim in self.progress(each.id, ids, now).claims:  # one, or none where its host is gone
                    del self._all[each.id]
                    found.append((each, claim))
        return found

    def open_for(self, seconds: float, now: float) -> frozenset[str]:
        """Return the reserved hosts that a task may use which ends within `seconds`."""
        end = now + seconds + self._limits.backfill_margin
        return frozenset(
            agent_id
            for each in self._all.values()
            if each.plan is not None and each.plan.start is not None and end <= each.plan.start
            for agent_id in each.plan.agent_ids
        )

    # Planning.

    def _waiting(self) -> list[Reservation]:
        """Return the reservations without claims, the oldest first; forget those whose claims have ended."""
        for each in list(self._all.values()):
            if each.claims and not any(self._hosts.claims.get(claim.id) for claim in each.claims):
                del self._all[each.id]
        waiting = [each for each in self._all.values() if not each.claims]
        asked = sorted((each for each in waiting if not each.fixed), key=_since)[: self._limits.concurrent]
        return sorted((*asked, *(each for each in waiting if each.fixed)), key=_since)

    def _masks(self, it: Reservation) -> list[Mask]:
        return [self._lasting(members.want) for members in it.shape.members]

    def _lasting(self, want: HostFilter) -> Mask:
        """Return which rows are in service, and could take such a task when empty."""
        mask, _ = self._hosts.table.match(want, offers_needed=False)
        return mask & self._hosts.table.eligible(want)

    def _task_counts(self) -> Counts:
        """Return the number of tasks of each row."""
        agent_ids = self._hosts.table.agent_ids
        return np.fromiter(map(self._runs.count, agent_ids), dtype=np.int64, count=len(agent_ids))

    def _candidates(self, it: Reservation, masks: Sequence[Mask], tasks: Counts) -> list[str]:
        """Return the agents to compare: those it has, then those with the fewest tasks."""
        table, most = self._hosts.table, self._limits.candidates
        if it.named:
            rows = [row for each in it.named if (row := table.row(each)) is not None]
            return [table.agent_ids[row] for row in rows if any(mask[row] for mask in masks)]
        fitting = np.flatnonzero(np.logical_or.reduce(masks))
        if len(fitting) > most:
            kept = [row for each in _agents(it.plan) if (row := table.row(each)) is not None]
            order = np.where(np.isin(fitting, kept), -1, tasks[fitting])
            fitting = np.sort(fitting[np.argpartition(order, most)[:most]])
        return [table.agent_ids[row] for row in fitting]

    def _planned(
        self, it: Reservation, taken: set[str], tasks: Counts, views: Views, now: float
    ) -> Plan | None:
        """Return the plan to follow: the present one, unless it is void or another one is earlier."""
        masks = self._masks(it)
        agent_ids = [each for each in self._candidates(it, masks, tasks) if each not in taken]
        compared = [views.of(agent_id, it.id) for agent_id in agent_ids]
        groups: dict[object, int] = {}
        demands = [
            self._demand(members, mask, it, agent_ids, groups.setdefault(_class(members.want), number))
            for number, (members, mask) in enumerate(zip(it.shape.members, masks, strict=True))
        ]
        new = plan(demands, it.shape.spread, compared, now)
        old = it.plan
        if old is None or new is None or new.ready or not set(old.agent_ids) <= set(agent_ids):
            return new
        mine = [view for view in compared if view.held]
        same = plan(demands, it.shape.spread, mine, now)
        return new if same is None or earlier(new, same) else same

    def _demand(
        self, members: Members, mask: Mask, it: Reservation, agent_ids: Iterable[str], group: int
    ) -> Demand:
        table, want = self._hosts.table, members.want
        opened = frozenset(_agents(it.plan))
        now, _ = table.match(replace(want, opened=opened, closed=self._hosts.holds.closed(())))
        rows = {agent_id: table.row(agent_id) for agent_id in agent_ids}
        beside = table.most_beside(want.constraint, members.own_labels) if members.own_labels else None
        return Demand(
            vector(want.minimum, want.revocable, want.ports),
            members.count,
            frozenset(agent_id for agent_id, row in rows.items() if row is not None and mask[row]),
            frozenset(agent_id for agent_id, row in rows.items() if row is not None and now[row]),
            group,
            {}
            if beside is None
            else {agent_id: int(beside[row]) for agent_id, row in rows.items() if row is not None},
        )


def _class(want: HostFilter) -> object:
    """Return what tasks must have in common to be placed on the same host (placement's HostClass)."""
    return want.constraint, bool(want.minimum.gpu)


def _since(it: Reservation) -> float:
    return it.since


def _agents(found: Plan | None) -> tuple[str, ...]:
    return found.agent_ids if found is not None else ()
