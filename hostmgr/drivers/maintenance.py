"""Maintenance of hosts: requests, what is stored of them, and the steps with the master."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.columns import Agent
from hostmgr.core.maintenance import Occupancy, Plan, occupied, plan
from hostmgr.core.states import LIFE, LifeCause
from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.records import HostRecords
from peloton.clock import Clock
from peloton.errors import Conflict, InvalidArgument, NotFound, Refused, Unavailable
from peloton.model.host import HostInfo
from peloton.model.ids import MesosTaskId
from peloton.model.resources import total
from peloton.model.states import HostState

RETRY_SECONDS = 1.0
"""Time between two steps while the master is still to follow the records."""
LOOK_SECONDS = 0.2
"""How often a waiting call looks."""
RETURN_SECONDS = 600.0
"""How long a host that is UP again is listed before its agent has registered."""
IN_MAINTENANCE = Gauge("hostmgr_hosts_in_maintenance", "Hosts in maintenance, by state.", ["state"])
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """A host in maintenance, as it is after a request to start it."""

    record: HostInfo
    new: bool
    """False where it was in maintenance already."""


class Maintenance:
    """The hosts in maintenance, in one term. Records are stored before anything else happens."""

    def __init__(
        self, records: HostRecords, manager: HostManager, cluster: Cluster, clock: Clock, interval: float
    ) -> None:
        """Compare the records with the master every `interval` seconds, and whenever something changes."""
        self.records = records
        self._manager = manager
        self._cluster = cluster
        self._clock = clock
        self._interval = interval
        self._wake = asyncio.Event()
        self._stepping = asyncio.Lock()
        self._returning: dict[str, tuple[HostInfo, float]] = {}
        self._logged = ""
        for record in records.in_maintenance():
            manager.hosts.table.set_life(record.hostname, record.state)
        self._measure()

    # Requests.

    async def start(self, hostnames: Sequence[str], by: str = "") -> list[Begun]:
        """Begin the maintenance of hosts for `by`; nothing changes for those that are in maintenance already.

        Raises Conflict, and begins none, where one of them is unknown or is being brought up at the moment.
        """
        _check_names(hostnames)
        await self._look_for([name for name in hostnames if not self._in_maintenance(name)])
        agents = {name: self._agent(name) for name in hostnames if not self._in_maintenance(name)}
        for name in hostnames:
            self._check_not_returning(name)
        begun = []
        for name in hostnames:
            new = name in agents and not self._in_maintenance(name)
            record = await self._begin(agents[name], by) if new else self._record(name)
            begun.append(Begun(record, new))
        self._changed()
        return begun

    async def _look_for(self, hostnames: Sequence[str]) -> None:
        """Read the agents again where some hosts are not among them: they may have registered since."""
        here = {agent.hostname for agent in self._cluster.agents.values()}
        if self._cluster.known and not here.issuperset(hostnames):
            await self._cluster.read()

    async def _begin(self, agent: Agent, by: str) -> HostInfo:
        def draining(record: HostInfo) -> HostInfo:
            return replace(
                record,
                ip=agent.ip,
                labels=agent.labels,
                state=LIFE.next(record.state, LifeCause.START_MAINTENANCE, record.hostname),
                goal=HostState.DOWN,
                since=self._clock.wall(),
                begun_by=by,
            )

        record = await self.records.change(agent.hostname, draining)
        self._returning.pop(agent.hostname, None)
        self._manager.hosts.table.set_life(agent.hostname, record.state)
        ended = self._manager.hosts.end_claims_on(agent.hostname)
        whose = f" for {by}" if by else ""
        log.info("host %s is DRAINING%s; %d claims on it have ended", agent.hostname, whose, len(ended))
        return record

    async def complete(self, hostnames: Sequence[str]) -> None:
        """End the maintenance of hosts, which the master may carry out after the answer.

        Raises NotFound, and changes nothing, where one of them is not DOWN.
        """
        _check_names(hostnames)
        for name in hostnames:
            self._check_down(name)
        for name in hostnames:
            await self.records.change(name, self._rising)
        self._changed()
        await self._try_step()

    def _rising(self, record: HostInfo) -> HostInfo:
        return replace(record, goal=HostState.UP) if record.state is HostState.DOWN else record

    async def mark_drained(self, hostname: str) -> None:
        """Take a DRAINING host on which nothing is left to DRAINED, and on to DOWN.

        Nothing changes for one that is DRAINED or DOWN. Raises NotFound for one that is in no maintenance,
        and Refused where something is left on it.
        """
        record = self.records.get(hostname)
        if record is None or not record.in_maintenance:
            raise NotFound(f"host {hostname or '(empty)'} is not in maintenance")
        if record.state is not HostState.DRAINING:
            return
        left = self.occupied(hostname)
        if left:
            raise Refused(f"host {hostname} is not drained: {left}")
        await self._move(hostname, LifeCause.LAST_TASK_ENDED)
        self._changed()

    # Queries.

    def hosts_in(self, state: HostState, limit: int = 0) -> list[str]:
        """Return the names of hosts in a state of maintenance, those that came into it first coming first."""
        found = sorted(
            (record for record in self.records.in_maintenance() if record.state is state),
            key=lambda record: (record.since, record.hostname),
        )
        return [record.hostname for record in found][: limit or None]

    def runs_on(self, hostname: str) -> list[MesosTaskId]:
        """Return the runs on a host."""
        agents = self._manager.hosts.table.agents_on(hostname)
        return sorted(run for agent_id in agents for run in self._manager.runs.on(agent_id))

    def listed(self) -> list[HostInfo]:
        """Return the hosts in maintenance, and those that are UP again and have not registered yet."""
        now = self._clock.monotonic()
        here = {agent.hostname for agent in self._cluster.agents.values()}
        self._returning = {
            name: (record, until)
            for name, (record, until) in self._returning.items()
            if until > now and name not in here
        }
        return [*self.records.in_maintenance(), *(record for record, _ in self._returning.values())]

    def occupied(self, hostname: str) -> str:
        """Return what is left on a host, for a message; empty where nothing is."""
        here = [agent for agent in self._cluster.agents.values() if agent.hostname == hostname]
        current = self._cluster.read_began >= self._manager.connected_at
        known = current and (bool(here) or self._gone(hostname))
        return occupied(
            Occupancy(
                len(self.runs_on(hostname)),
                total(agent.allocated for agent in here),
                sum(agent.allocated_slack_cpu for agent in here),
                known,
            )
        )

    def _gone(self, hostname: str) -> bool:
        """Return whether the master lists all agents, and none of this host."""
        return self._cluster.complete and hostname not in self._cluster.disconnected

    async def wait_for(self, state: HostState, limit: int, seconds: float) -> list[str]:
        """Return hosts as `hosts_in`, as soon as there are any; none after so many seconds."""
        end = self._clock.monotonic() + seconds
        while True:
            found = self.hosts_in(state, limit)
            left = end - self._clock.monotonic()
            if found or left <= 0:
                return found
            await asyncio.sleep(min(LOOK_SECONDS, left))

    # The steps with the master.

    async def run(self) -> NoReturn:
        """Bring the master to the records for ever: at the beginning, after changes, and periodically."""
        while True:
            done = await self._try_step()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval if done else RETRY_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def _try_step(self) -> bool:
        """Make the steps that are possible now; return whether the master has followed the records."""
        async with self._stepping:
            if not self.records.in_maintenance():
                return True
            try:
                while decided := plan(
                    self.records.in_maintenance(), await self._manager.backend.maintenance()
                ):
                    await self._carry_out(decided)
            except Unavailable as error:
                if str(error) != self._logged:
                    log.warning("maintenance waits: %s", error)
                    self._logged = str(error)
                return False
            self._logged = ""
            return True

    async def _carry_out(self, decided: Plan) -> None:
        backend = self._manager.backend
        for hostname, cause in decided.confirmed:
            await self._move(hostname, cause)
        if decided.schedule or decided.unschedule:
            await backend.change_schedule(decided.schedule, decided.unschedule)
        if decided.take_down:
            await backend.take_down(decided.take_down)
        if decided.bring_up:
            await backend.bring_up(decided.bring_up)

    async def _move(self, hostname: str, cause: LifeCause) -> None:
        def moved(record: HostInfo) -> HostInfo:
            state = LIFE.next(record.state, cause, hostname)
            goal = HostState.UP if state is HostState.UP else record.goal
            by = "" if state is HostState.UP else record.begun_by
            return replace(record, state=state, goal=goal, since=self._clock.wall(), begun_by=by)

        record = await self.records.change(hostname, moved)
        self._manager.hosts.table.set_life(hostname, record.state)
        if record.state is HostState.UP:
            self._returning[hostname] = (record, self._clock.monotonic() + RETURN_SECONDS)
        self._measure()
        log.info("host %s is %s", hostname, record.state.name)

    # Checks.

    def _changed(self) -> None:
        self._measure()
        self._wake.set()

    def _measure(self) -> None:
        counts = Counter(record.state for record in self.records.in_maintenance())
        for state in (HostState.DRAINING, HostState.DRAINED, HostState.DOWN):
            IN_MAINTENANCE.labels(state.name).set(counts[state])

    def _in_maintenance(self, hostname: str) -> bool:
        record = self.records.get(hostname)
        return record is not None and record.in_maintenance

    def _record(self, hostname: str) -> HostInfo:
        record = self.records.get(hostname)
        assert record is not None, hostname
        return record

    def _check_not_returning(self, hostname: str) -> None:
        record = self.records.get(hostname)
        if record is not None and record.in_maintenance and record.goal is HostState.UP:
            raise Conflict(f"host {hostname} is being brought up at the moment; start again once it is UP")

    def _check_down(self, hostname: str) -> None:
        state = self._manager.hosts.table.life_of(hostname)
        if state is HostState.UNKNOWN:
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
        if not self._cluster.known:
            raise Unavailable(self._cluster.unhealthy)
        for agent in self._cluster.agents.values():
            if agent.hostname == hostname:
                return agent
        if hostname in self._cluster.disconnected:
            raise Conflict(
                f"host {hostname} is not connected to the Mesos master at the moment; "
                "start its maintenance when its agent is back, or when Mesos has given it up"
            )
        names = sorted({agent.hostname for agent in self._cluster.agents.values()})
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        hosts = f"{len(names)} hosts are" if len(names) != 1 else "1 host is"
        raise Conflict(
            f"host {hostname} is unknown: no agent of this name is registered; {hosts}"
            + (f", such as {some}" if some else "")
        )


def _check_names(hostnames: Sequence[str]) -> None:
    if not hostnames or not all(hostnames):
        raise InvalidArgument("hostname", "", "the name of a host")
