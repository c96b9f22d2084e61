"""The hosts of a plan: those that could be claimed, less what the plan has put on them.

Needs that differ in amounts only share what is known of their hosts, so that a job of instances that are all
different is planned without a question to hostmgr for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from peloton.model.hostcounts import MATCH
from peloton.model.resources import Resources
from placement.core.events import HostsClaimed
from placement.core.instructions import Claim
from placement.core.model import UNBOUNDED, Host, HostClass, HostPlacement, Needs
from placement.core.table import capacity

PAGE = 1000
"""Hosts that are read at least with one question."""
ROOM = "insufficient_offer_resources"
"""The match result of hosts that the plan itself has filled."""


@dataclass(frozen=True, slots=True)
class Find:
    """Find up to `most` hosts that could be claimed, from `offset` on. Answered by HostsFound."""

    needs: Needs
    most: int
    offset: int


@dataclass(frozen=True, slots=True)
class HostsFound:
    """A page of the hosts that could be claimed, and the match results of all."""

    hosts: Sequence[Host]
    counts: Mapping[str, int]
    """Hosts by the lower-case name of their match result."""


class FoundHosts:
    """Answers claims with hosts that are not claimed."""

    def __init__(self) -> None:
        self._searches: dict[Needs, _Search] = {}
        self._known: dict[_Kind, dict[str, Host]] = {}
        """Hosts by agent, in the order in which they were found, less what the plan has put on them."""
        self._held: set[str] = set()
        """Hosts by agent that the plan holds at the moment."""
        self._used: dict[str, _Used] = {}
        self._chosen: list[Host] = []
        """Hosts for the claim that is not complete yet."""

    def claim(self, claim: Claim) -> HostsClaimed | Find:
        """Return hosts that have room, as a claim would; or what to find before the claim is made again."""
        needs = claim.needs
        known = self._known.setdefault(_kind(needs), {})
        search = self._searches.get(needs)
        if search is None:
            # Hosts that were found for others of the kind come first; the search begins behind these.
            search = self._searches[needs] = _Search(first=len(known))
        self._chosen += self._usable(search, known, needs, claim.most - len(self._chosen))
        missing = claim.most - len(self._chosen)
        if missing > 0 and not search.complete:
            return Find(needs, max(missing, PAGE), search.offset)
        chosen, self._chosen = self._chosen, []
        return HostsClaimed(chosen, search.refused(len(chosen)))

    def add(self, needs: Needs, found: HostsFound) -> None:
        """Add a page of hosts that was asked for."""
        self._searches[needs].read(found)
        known = self._known[_kind(needs)]
        for host in found.hosts:
            if host.agent_id not in known:
                used = self._used.get(host.agent_id)
                known[host.agent_id] = host if used is None else used.taken_from(host)

    def fail(self) -> None:
        """End the claim that is not complete: hosts cannot be found."""
        chosen, self._chosen = self._chosen, []
        self.release(chosen)

    def release(self, hosts: Iterable[Host]) -> None:
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

    def _usable(self, search: _Search, known: dict[str, Host], needs: Needs, most: int) -> list[Host]:
        """Return hosts with room. One without is not examined again: a plan only takes."""
        search.examine(known)
        chosen: list[Host] = []
        kept: list[str] = []
        candidates = iter(search.open)
        while len(chosen) < most and (agent := next(candidates, None)) is not None:
            left = known[agent]
            if capacity(left, needs):
                kept.append(agent)
                if agent not in self._held:
                    chosen.append(left)
        search.open = [*kept, *candidates]
        # Those that are chosen now are held when `_usable` is called again for the same claim.
        self._held.update(host.agent_id for host in chosen)
        return chosen


_Kind = tuple[HostClass, bool]


def _kind(needs: Needs) -> _Kind:
    """Return what needs have in common whose hosts are the same, apart from amounts.

    Hosts are described with their revocable resources only where these are asked for.
    """
    return needs.host_class, needs.revocable


@dataclass(slots=True)
class _Search:
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

    def read(self, found: HostsFound) -> None:
        """Take an answer."""
        before, self.matching = self.offset, found.counts.get(MATCH, 0)
        self.counts = found.counts
        if found.hosts:
            self.read_hosts += len(found.hosts)
        elif before < self.matching or not self.first:
            self.read_hosts = self.matching
        else:
            # The search began behind the last host that matches.
            self.first = 0

    def refused(self, chosen: int) -> dict[str, int]:
        """Return why the other hosts do not do; those that match are filled by the plan itself."""
        counts = {name: count for name, count in self.counts.items() if name != MATCH}
        filled = self.counts.get(MATCH, 0) - chosen
        if filled > 0:
            counts[ROOM] = counts.get(ROOM, 0) + filled
        return counts

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
