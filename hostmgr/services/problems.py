"""What a host manager sees that is wrong with its hosts, as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hostmgr.core.agents.maintenance_records import Records
from hostmgr.core.claims.claim import Claim
from hostmgr.core.claims.holds import Hold
from hostmgr.core.hosts.all_hosts import Hosts
from peloton.clock import NANOSECONDS, Clock
from peloton.model.amounts import elapsed
from peloton.model.host import HostInfo
from peloton.model.ids import parse_task_id
from peloton.model.plural import plural
from peloton.model.problems import NAMED, Problem
from peloton.model.states import HostState

HELD_SECONDS = 1800.0
"""An instance that comes back to its host does so within minutes."""
CLAIMED_SECONDS = 120.0
"""A placement engine launches on a claimed host, or gives it back, within seconds."""
DRAINING_SECONDS = 3600.0
AWAY_SECONDS = 24 * 3600.0
"""Hosts are drained, and come back, within these; what is told then may be meant."""
Thing = TypeVar("Thing")


class HostProblems:
    """Looks at the holds, claims and maintenance of one cluster's hosts, and at what it refuses."""

    def __init__(
        self,
        hosts: Hosts,
        records: Records,
        clock: Clock,
        refused: Callable[[], Sequence[Problem]] = lambda: (),
    ) -> None:
        """`refused` returns what the cluster manager does not do."""
        self._hosts = hosts
        self._records = records
        self._clock = clock
        self._refused = refused

    async def now(self) -> list[Problem]:
        """Return what is wrong with them."""
        now, wall = self._clock.monotonic(), self._clock.wall()
        return [
            *self._refused(),
            *_named(self._hosts.holds.made_before(now - HELD_SECONDS), "hold", lambda hold: _hold(hold, now)),
            *_named(
                self._hosts.claims.acquired_before(now - CLAIMED_SECONDS),
                "claim",
                lambda claim: _claim(claim, now),
            ),
            *_named(self._late(wall), "host", lambda host: _away(host, wall)),
        ]

    def _late(self, wall: int) -> Sequence[HostInfo]:
        """Return the hosts whose maintenance takes long, those that began first at the beginning."""
        found = (each for each in self._records.in_maintenance() if each.since)
        late = [each for each in found if wall - each.since > _usual(each) * NANOSECONDS]
        return sorted(late, key=lambda each: each.since)


def _named(things: Sequence[Thing], what: str, problem: Callable[[Thing], Problem]) -> Iterator[Problem]:
    """Return the problems of the first things, and how many more of them there are."""
    yield from map(problem, things[:NAMED])
    if len(things) > NAMED:
        yield Problem("note", f"{plural(len(things) - NAMED, f'further {what}')} as old")


def _hold(hold: Hold, now: float) -> Problem:
    job_id, instance = parse_task_id(hold.task_id)
    return Problem(
        "warn",
        f"Room of {hold.hostname} has been held for {hold.task_id} for {elapsed(now - hold.since)}",
        f"/hosts/{hold.hostname}",
        f"`peloton task why {job_id} {instance}` tells what keeps it from coming back",
    )


def _claim(claim: Claim, now: float) -> Problem:
    owner = f" by {claim.owner}" if claim.owner else ""
    return Problem(
        "warn",
        f"{claim.hostname} has been claimed{owner} for {elapsed(now - claim.since)} without a launch",
        f"/hosts/{claim.hostname}",
        "see the log of the placement engine; the claim ends by itself "
        f"in {elapsed(max(claim.until - now, 0.0))}",
    )


def _usual(host: HostInfo) -> float:
    return DRAINING_SECONDS if host.state is HostState.DRAINING else AWAY_SECONDS


def _away(host: HostInfo, wall: int) -> Problem:
    by = f", begun by {host.begun_by}" if host.begun_by else ""
    draining = host.state is HostState.DRAINING
    remedy = f"`peloton host maintenance complete {host.hostname}` brings it back"
    if draining:
        remedy = "its page tells what still runs there"
    seconds = (wall - host.since) / NANOSECONDS
    text = f"{host.hostname} has been {host.state.name} for {elapsed(seconds)}{by}"
    return Problem("warn" if draining else "note", text, f"/hosts/{host.hostname}", remedy)
