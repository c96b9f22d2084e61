"""Hosts that were registered at some time: which of them are lost, since when, and what ran there.

A change is planned without effect; the driver stores it and then applies it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from hostmgr.core.state.columns import Agent
from peloton.model.ids import MesosTaskId
from peloton.model.known_host import KnownHost, LossReason

NANOSECONDS = 1_000_000_000
MOST_TASKS = 100
"""Runs of a lost host that are remembered by name."""
MOST_LOST = 10_000
"""Lost hosts that are remembered, those that were lost last."""
MOST_ENDED = 20_000
"""Runs that were reported as lost and may be those of a host that is found to be lost soon."""
RECENT_NANOSECONDS = 900 * NANOSECONDS
"""Age of such a report at most, in nanoseconds: Mesos gives up an agent after 10 minutes by default."""


ABSENT_NANOSECONDS = 60 * NANOSECONDS
"""How long an agent may be missing with a new master, with which agents register one after the other."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the master shows of hosts now."""

    agents: Mapping[str, tuple[Agent, ...]]
    """Connected agents by the name of their host."""
    disconnected: frozenset[str]
    """Names of hosts whose agents are registered and not connected."""
    complete: bool
    """Whether all other hosts have no agent: none is still to register with a new master."""
    now: int
    """Nanoseconds since 1970."""
    in_maintenance: frozenset[str] = frozenset()
    """Names of hosts that are in maintenance: they are no lost ones."""
    returning: frozenset[str] = frozenset()
    """Names of hosts whose maintenance has ended and whose agents have not registered since."""
    gone: frozenset[str] = frozenset()
    """Ids of agents that Mesos has said to be gone."""


@dataclass(frozen=True, slots=True)
class Change:
    """Hosts to be written, and names of those to be forgotten."""

    written: tuple[KnownHost, ...] = ()
    forgotten: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.written or self.forgotten)


class _Ended(NamedTuple):
    """A run that was reported as lost."""

    at: int
    agent_id: str
    run: MesosTaskId


class KnownHosts:
    """The known hosts of a Mesos cluster."""

    def __init__(self, keep_seconds: float) -> None:
        """Forget hosts that have been lost for `keep_seconds`."""
        self._keep = int(keep_seconds * NANOSECONDS)
        self._hosts: dict[str, KnownHost] = {}
        self._missing: dict[str, int] = {}
        """Since when hosts are missing that may still register with a new master."""
        self._ended: deque[_Ended] = deque(maxlen=MOST_ENDED)

    def get(self, hostname: str) -> KnownHost | None:
        """Return a host; None for one that is not known."""
        return self._hosts.get(hostname)

    def lost(self) -> list[KnownHost]:
        """Return the lost hosts, by name."""
        return sorted((host for host in self._hosts.values() if host.lost), key=lambda host: host.hostname)

    def note_ended(self, run: MesosTaskId, agent_id: str, now: int) -> None:
        """Note a run that was reported as lost: Mesos may report it before its agent is known to be gone."""
        self._ended.append(_Ended(now, agent_id, run))

    def apply(self, change: Change) -> None:
        """Carry out a change that is stored."""
        self._hosts.update({host.hostname: host for host in change.written})
        for hostname in change.forgotten:
            self._hosts.pop(hostname, None)

    # Changes.

    def plan(self, sight: Sight, runs_on: Callable[[str], Iterable[MesosTaskId]]) -> Change:
        """Plan what follows from what the master shows. `runs_on` returns the runs on an agent, by its id."""
        written = [*self._seen(sight), *self._missed(sight, runs_on)]
        return Change(tuple(written), tuple(self._outdated(sight, written)))

    def _seen(self, sight: Sight) -> Iterator[KnownHost]:
        """Iterate over registered hosts that are new, back, or changed."""
        for hostname, agents in sight.agents.items():
            before = self._hosts.get(hostname)
            if before is None or not _is_as(before, agents):
                ids = tuple(each.id for each in agents)
                yield KnownHost(hostname, agents[0].ip, agents[0].labels, ids)

    def _missed(self, sight: Sight, runs_on: Callable[[str], Iterable[MesosTaskId]]) -> Iterator[KnownHost]:
        """Iterate over hosts that are found to be lost, or whose loss has another reason now."""
        before, self._missing = self._missing, {}
        for hostname, host in self._hosts.items():
            if hostname in sight.agents or hostname in sight.in_maintenance:
                continue
            reason = self._reason(host, sight, before)
            if reason is None or (reason is host.reason and host.lost):
                continue
            if host.lost:
                yield replace(host, reason=reason)
            else:
                yield self._with_tasks(replace(host, lost_since=sight.now, reason=reason), sight.now, runs_on)

    def _reason(self, host: KnownHost, sight: Sight, missing: Mapping[str, int]) -> LossReason | None:
        """Return why a host without an agent is lost; None where that is not known yet."""
        name = host.hostname
        if name in sight.disconnected:
            return LossReason.DISCONNECTED
        if name in sight.returning or (host.lost and host.reason is LossReason.NOT_BACK):
            return LossReason.NOT_BACK
        if sight.complete or (host.agents and sight.gone.issuperset(host.agents)):
            return LossReason.REMOVED
        if host.lost:
            return host.reason
        since = self._missing[name] = missing.get(name, sight.now)
        return LossReason.ABSENT if sight.now - since >= ABSENT_NANOSECONDS else None

    def _with_tasks(
        self, host: KnownHost, now: int, runs_on: Callable[[str], Iterable[MesosTaskId]]
    ) -> KnownHost:
        agents = set(host.agents)
        runs = {run for agent_id in agents for run in runs_on(agent_id)}
        runs.update(
            each.run for each in self._ended if each.agent_id in agents and now - each.at < RECENT_NANOSECONDS
        )
        return replace(host, tasks=tuple(islice(sorted(runs), MOST_TASKS)), task_count=len(runs))

    def _outdated(self, sight: Sight, written: Iterable[KnownHost]) -> Iterator[str]:
        """Iterate over the hosts that have been lost for long enough, or are too many."""
        back = {host.hostname for host in written if not host.lost}
        left = sorted(
            (host for host in self._hosts.values() if host.lost and host.hostname not in back),
            key=lambda host: host.lost_since,
        )
        for at, host in enumerate(left):
            if host.lost_since + self._keep <= sight.now or at < len(left) - MOST_LOST:
                yield host.hostname

    def plan_forget(self, hostnames: Iterable[str]) -> Change:
        """Plan that lost hosts are forgotten."""
        return Change(forgotten=tuple(hostnames))


def _is_as(host: KnownHost, agents: tuple[Agent, ...]) -> bool:
    """Return whether a host is known as it is now. Thousands are compared at a time."""
    first = agents[0]
    return (
        not host.lost_since
        and host.labels == first.labels
        and host.ip == first.ip
        and len(host.agents) == len(agents)
        and all(agent.id == id_ for agent, id_ in zip(agents, host.agents, strict=True))
    )


def sighted(agents: Iterable[Agent]) -> dict[str, tuple[Agent, ...]]:
    """Return agents by the names of their hosts."""
    found: dict[str, tuple[Agent, ...]] = {}
    for agent in agents:
        found[agent.hostname] = (*found.get(agent.hostname, ()), agent)
    return found
