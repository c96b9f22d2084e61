"""The hosts in maintenance: which requests are refused, and what follows from the changes of their records.

A change is stored before anything follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hostmgr.core.agents.draining import Occupancy, allows, occupied
from hostmgr.core.agents.maintenance_records import RecordChange, Records
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.claims.claim import Claim
from hostmgr.core.cluster_manager.connection import Connection
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.states import LIFE, LifeCause
from hostmgr.core.term import Term
from peloton.errors import Conflict, InvalidArgument, NotFound, Refused, Unavailable
from peloton.model.host import HostInfo
from peloton.model.ids import MesosTaskId
from peloton.model.plural import plural
from peloton.model.resources import total
from peloton.model.states import HostState

RETURN_SECONDS = 600.0
"""How long a host that is UP again is listed before its agent has registered."""
SHOWN_HOSTS = 3
"""Hosts that a message names as examples."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A host in maintenance, as it is after a request to start it."""

    record: HostInfo
    new: bool
    """False where it was in maintenance already."""
    ended: tuple[Claim, ...] = ()
    """The claims on it that have ended."""


# What becomes of a record. Another request may have changed it meanwhile: then it stays as it is.


def draining(record: HostInfo, agent: Agent, by: str, wall: int) -> HostInfo:
    """Return a host whose maintenance has begun for `by`, at `wall` nanoseconds since 1970."""
    if not allows(record, LifeCause.START_MAINTENANCE):
        return record
    return replace(
        record,
        ip=agent.ip,
        labels=agent.labels,
        state=LIFE.next(record.state, LifeCause.START_MAINTENANCE, record.hostname),
        goal=HostState.DOWN,
        since=wall,
        begun_by=by,
    )


def rising(record: HostInfo) -> HostInfo:
    """Return a DOWN host that is to be UP again."""
    return replace(record, goal=HostState.UP) if record.state is HostState.DOWN else record


def moved(record: HostInfo, cause: LifeCause, wall: int) -> HostInfo:
    """Return a host to which this has happened, at `wall` nanoseconds since 1970."""
    if not allows(record, cause):
        return record
    state = LIFE.next(record.state, cause, record.hostname)
    if state is HostState.UP:
        return replace(record, state=state, goal=state, since=wall, begun_by="")
    return replace(record, state=state, since=wall)


class MaintainedHosts:
    """The hosts in maintenance, as the table shows them, and those whose agents are still to return."""

    def __init__(self, records: Records, term: Term, sight: ClusterSight) -> None:
        self.records = records
        self._hosts: Hosts = term.hosts
        self._runs: Runs = term.runs
        self._connection: Connection = term.connection
        self._sight = sight
        self._returning: dict[str, tuple[HostInfo, float]] = {}
        self.describe_missing: Callable[[str], str] = lambda hostname: ""
        """Returns what is known of a host without an agent, for a message."""

    def show(self) -> None:
        """Show the stored records in the table, once they are loaded."""
        for record in self.records.in_maintenance():
            self._hosts.table.set_life(record.hostname, record.state)

    # The start of maintenance.

    def are_unseen(self, names: Iterable[str]) -> bool:
        """Return whether some hosts are not among the agents, which may have registered since."""
        wanted = {name for name in names if not self._is_in_maintenance(name)}
        return self._sight.known and not self._sight.hostnames.issuperset(wanted)

    def to_start(self, names: Sequence[str]) -> Mapping[str, Agent]:
        """Return an agent of each of these hosts that is not in maintenance.

        Raises InvalidArgument, Unavailable, and Conflict where one of them is unknown or is being brought up.
        """
        check_names(names)
        agents = {name: self._agent(name) for name in names if not self._is_in_maintenance(name)}
        for name in names:
            self._check_not_returning(name)
        return agents

    def begun(self, change: RecordChange) -> Begun:
        """Take over that a maintenance is stored as begun, or was before: claims on the host end."""
        record = change.after
        if not change:
            return Begun(record, False)
        self._returning.pop(record.hostname, None)
        self._hosts.table.set_life(record.hostname, record.state)
        return Begun(record, True, tuple(self._hosts.claims.end_on([record.hostname])))

    def already(self, hostname: str) -> Begun:
        """Return a host that was in maintenance already."""
        record = self.records.get(hostname)
        assert record is not None, hostname
        return Begun(record, False)

    # Its steps.

    def check_complete(self, names: Sequence[str]) -> None:
        """Raise NotFound where one of these hosts is not DOWN, and InvalidArgument without names."""
        check_names(names)
        for name in names:
            self._check_down(name)

    def check_drained(self, hostname: str) -> bool:
        """Return whether a host goes on to DRAINED, and False where it is that already.

        Raises NotFound for one that is in no maintenance, and Refused where something is left on it.
        """
        record = self.records.get(hostname)
        if record is None or not record.in_maintenance:
            raise NotFound(f"host {hostname or '(empty)'} is not in maintenance")
        if record.state is not HostState.DRAINING:
            return False
        if left := self.occupied(hostname):
            raise Refused(f"host {hostname} is not drained: {left}")
        return True

    def moved(self, record: HostInfo, now: float) -> None:
        """Take over that a host is in another state of its life."""
        self._hosts.table.set_life(record.hostname, record.state)
        if record.state is HostState.UP:
            self._returning[record.hostname] = (record, now + RETURN_SECONDS)

    # Queries.

    def hosts_in(self, state: HostState, limit: int = 0) -> list[str]:
        """Return the names of hosts in a state of maintenance, those that came into it first coming first."""
        found = sorted(
            (record for record in self.records.in_maintenance() if record.state is state),
            key=lambda record: (record.since, record.hostname),
        )
        return [record.hostname for record in found][: limit or None]

    def counts(self) -> Mapping[HostState, int]:
        """Return how many hosts are in each state of maintenance."""
        return Counter(record.state for record in self.records.in_maintenance())

    def runs_on(self, hostname: str) -> list[MesosTaskId]:
        """Return the runs on a host."""
        return sorted(
            run for agent_id in self._hosts.table.agents_on(hostname) for run in self._runs.on(agent_id)
        )

    def listed(self, now: float) -> list[HostInfo]:
        """Return the hosts in maintenance, and those that are UP again and have not registered yet."""
        return [*self.records.in_maintenance(), *self.returning(now)]

    def returning(self, now: float) -> list[HostInfo]:
        """Return the hosts whose maintenance has ended and whose agents have not registered yet."""
        if not self._returning:
            return []
        here = self._sight.hostnames
        self._returning = {
            name: (record, until)
            for name, (record, until) in self._returning.items()
            if until > now and name not in here
        }
        return [record for record, _ in self._returning.values()]

    def forget_returning(self, names: Iterable[str]) -> None:
        """List hosts no longer whose agents have not registered since their maintenance."""
        for name in names:
            self._returning.pop(name, None)

    def occupied(self, hostname: str) -> str:
        """Return what is left on a host, for a message; empty where nothing is."""
        here = [agent for agent in self._sight.agents.values() if agent.hostname == hostname]
        current = self._sight.read_began >= self._connection.since
        known = current and (bool(here) or self._is_gone(hostname))
        return occupied(
            Occupancy(
                len(self.runs_on(hostname)),
                total(agent.allocated for agent in here),
                sum(agent.allocated_slack_cpu for agent in here),
                known,
            )
        )

    def _is_gone(self, hostname: str) -> bool:
        """Return whether the master lists all agents, and none of this host."""
        return self._sight.complete and hostname not in self._sight.disconnected

    # Checks.

    def _is_in_maintenance(self, hostname: str) -> bool:
        record = self.records.get(hostname)
        return record is not None and record.in_maintenance

    def _check_not_returning(self, hostname: str) -> None:
        record = self.records.get(hostname)
        if record is not None and record.in_maintenance and record.goal is HostState.UP:
            raise Conflict(f"host {hostname} is being brought up at the moment; start again once it is UP")

    def _check_down(self, hostname: str) -> None:
        state = self._hosts.table.life_of(hostname)
        if state is HostState.UNKNOWN:
            if lost := self.describe_missing(hostname):
                raise NotFound(f"host {hostname} is {lost}; it has no maintenance to complete")
            raise NotFound(
                f"host {hostname} is unknown: no agent of this name is registered or in maintenance"
            )
        if state is HostState.DRAINING:
            left = self.occupied(hostname) or "it is about to be DRAINED"
            raise NotFound(f"host {hostname} is DRAINING, not DOWN: {left}; maintenance ends once it is DOWN")
        if state is not HostState.DOWN:
            raise NotFound(f"host {hostname} is {state.name}, not DOWN: it has no maintenance to complete")

    def _agent(self, hostname: str) -> Agent:
        """Return an agent of a host. Raises Conflict where there is none, Unavailable before it is known."""
        if not self._sight.known:
            raise Unavailable(self._sight.unhealthy)
        for agent in self._sight.agents.values():
            if agent.hostname == hostname:
                return agent
        raise Conflict(self._why_none(hostname))

    def _why_none(self, hostname: str) -> str:
        """Return why the maintenance of a host without an agent cannot begin."""
        if hostname in self._sight.disconnected:
            return (
                f"host {hostname} is not connected to the Mesos master at the moment; "
                "start its maintenance when its agent is back, or when Mesos has given it up"
            )
        if lost := self.describe_missing(hostname):
            return (
                f"host {hostname} is {lost}; start its maintenance when its agent is back, or forget it with "
                "`peloton host forget`"
            )
        names = sorted(self._sight.hostnames)
        some = ", ".join(names[:SHOWN_HOSTS]) + (", …" if len(names) > SHOWN_HOSTS else "")
        return (
            f"host {hostname} is unknown: no agent of this name is registered; "
            + plural(len(names), "host is", "hosts are")
            + (f", such as {some}" if some else "")
        )


def check_names(names: Sequence[str]) -> None:
    """Raise InvalidArgument for no names, or an empty one."""
    if not names or not all(names):
        raise InvalidArgument("hostname", "", "the name of a host")
