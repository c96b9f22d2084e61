"""Which hosts are lost now, by what the master shows and by what is in maintenance.

What is known of hosts is stored before it counts. They are compared when something may have changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hostmgr.core.agents.known_hosts import Change, KnownHosts, Sight, sighted
from hostmgr.core.agents.maintained_hosts import MaintainedHosts
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.runs.on_agents import Runs
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.known_host import KnownHost, LossReason

REPEAT_SECONDS = 10.0
"""Seconds after which hosts are compared again though nothing has changed: time has passed for some."""


class LostHosts:
    """The lost hosts of one term."""

    def __init__(
        self, known: KnownHosts, sight: ClusterSight, maintained: MaintainedHosts, runs: Runs
    ) -> None:
        self._known = known
        self._sight = sight
        self._maintained = maintained
        self._runs = runs
        self._looked: object = None
        """What was there at the last comparison."""
        self._looked_at = -math.inf

    # Comparisons.

    def plan(self, now: float, wall: int) -> Change | None:
        """Return the change to store; None: the agents are not known, or nothing can have changed.

        Answered by `carried_out`. `wall`: nanoseconds since 1970.
        """
        if not self._sight.known:
            return None
        for run, agent_id in self._runs.take_lost():
            self._known.note_ended(run, agent_id, wall)
        if now - self._looked_at < REPEAT_SECONDS and self._looked == self._seen(now):
            return None
        return self._known.plan(self._seen_now(now, wall), self._runs.on)

    def carried_out(self, change: Change, now: float) -> list[KnownHost]:
        """Take over a change that is stored; return the hosts that are lost now, or back."""
        news = list(self._news(change))
        self._known.apply(change)
        self._looked, self._looked_at = self._seen(now), now
        return news

    def _news(self, change: Change) -> Iterator[KnownHost]:
        for host in change.written:
            before = self._known.get(host.hostname)
            if host.lost != (before is not None and before.lost):
                yield host

    def _seen(self, now: float) -> tuple[object, ...]:
        """Return what is different where the master or an operator has changed something."""
        sight, maintained = self._sight, self._maintained
        hosts = [
            [record.hostname for record in records]
            for records in (maintained.records.in_maintenance(), maintained.returning(now))
        ]
        return id(sight.agents), sight.version, sight.settled(now), sight.gone, hosts

    def _seen_now(self, now: float, wall: int) -> Sight:
        sight, maintained = self._sight, self._maintained
        return Sight(
            agents=sighted(sight.agents.values()),
            disconnected=sight.disconnected,
            complete=sight.settled(now),
            now=wall,
            in_maintenance=frozenset(record.hostname for record in maintained.records.in_maintenance()),
            returning=frozenset(record.hostname for record in maintained.returning(now)),
            gone=sight.gone,
        )

    # Queries.

    def lost(self, now: float) -> list[KnownHost]:
        """Return the lost hosts, by name; without those that have registered or begun maintenance since."""
        here = self._sight.hostnames
        here.update(record.hostname for record in self._maintained.records.in_maintenance())
        found = {host.hostname: host for host in self._known.lost() if host.hostname not in here}
        for record in self._maintained.returning(now):
            if record.hostname not in found:  # its loss is about to be noted
                found[record.hostname] = KnownHost(
                    record.hostname, record.ip, record.labels, (), record.since, LossReason.NOT_BACK
                )
        return [found[name] for name in sorted(found)]

    @property
    def count(self) -> int:
        """Return how many hosts are stored as lost."""
        return len(self._known.lost())

    # Requests.

    def forget(self, names: Sequence[str], now: float) -> Change:
        """Return the change by which lost hosts are forgotten. Answered by `forgotten`.

        Raises InvalidArgument without names, Refused for a host that is not lost, and NotFound for one that
        is unknown.
        """
        lost = {host.hostname for host in self.lost(now)}
        for name in names:
            if name not in lost:
                self._refuse(name)
        return self._known.plan_forget(names)

    def forgotten(self, change: Change) -> None:
        """Take over that hosts are forgotten in the store."""
        self._known.apply(change)
        self._maintained.forget_returning(change.forgotten)

    def _refuse(self, name: str) -> None:
        if self._known.get(name) is None:
            raise NotFound(f"host {name} is unknown: no agent of this name was registered")
        raise Refused(f"host {name} is not lost: only a host whose agent is gone can be forgotten")


def check_lost_names(names: Sequence[str]) -> None:
    """Raise InvalidArgument for no names, or an empty one."""
    if not names or not all(names):
        raise InvalidArgument("hostnames", "", "the names of lost hosts")
