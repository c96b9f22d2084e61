"""Maintenance of hosts: store what requests change, and make the calls by which the master follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.agents.draining import Plan, plan
from hostmgr.core.agents.maintained_hosts import Begun, MaintainedHosts, check_names, draining, moved, rising
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.states import LifeCause
from hostmgr.drivers.agents import FollowedAgents
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.records import HostRecords
from peloton.clock import Clock
from peloton.errors import Unavailable
from peloton.model.host import HostInfo
from peloton.model.plural import plural
from peloton.model.states import HostState
from peloton.waking import until_tick

RETRY_SECONDS = 1.0
"""Time between two steps while the master is still to follow the records."""
LOOK_SECONDS = 1.0
"""How often a waiting call looks again, where no host changes its state."""
IN_MAINTENANCE = Gauge("hostmgr_hosts_in_maintenance", "Hosts in maintenance, by state.", ["state"])
log = logging.getLogger(__name__)


class Maintenance:
    """The hosts in maintenance, in one term. Records are stored before anything else happens."""

    def __init__(
        self,
        records: HostRecords,
        manager: HostManager,
        cluster: FollowedAgents,
        clock: Clock,
        interval: float,
    ) -> None:
        """Compare the records with the master every `interval` seconds, and whenever something changes."""
        self.hosts = MaintainedHosts(records.records, manager.core, cluster.sight)
        self._records = records
        self._backend = manager.backend
        self._cluster = cluster
        self._clock = clock
        self._interval = interval
        self._wake = asyncio.Event()
        self._states = manager.host_states
        self._stepping = asyncio.Lock()
        self._logged = ""
        self.hosts.show()
        self._measure()

    # Requests.

    async def start(self, hostnames: Sequence[str], by: str = "") -> list[Begun]:
        """Begin the maintenance of hosts for `by`; nothing changes for those that are in maintenance already.

        Raises Conflict, and begins none, where one of them is unknown or is being brought up at the moment.
        """
        check_names(hostnames)
        if self.hosts.are_unseen(hostnames):
            await self._cluster.read()
        agents = self.hosts.to_start(hostnames)
        begun = [await self._begin(name, agents.get(name), by) for name in hostnames]
        self._changed()
        return begun

    async def _begin(self, hostname: str, agent: Agent | None, by: str) -> Begun:
        """Begin the maintenance of a host, unless it has begun already."""
        if agent is None:
            return self.hosts.already(hostname)
        change = await self._records.change(
            hostname, lambda record: draining(record, agent, by, self._clock.wall())
        )
        begun = self.hosts.begun(change)
        if begun.new:
            whose = f" for {by}" if by else ""
            ended = plural(len(begun.ended), "claim on it has", "claims on it have")
            log.info("host %s is DRAINING%s; %s ended", hostname, whose, ended)
        return begun

    async def complete(self, hostnames: Sequence[str]) -> None:
        """End the maintenance of hosts, which the master may carry out after the answer.

        Raises NotFound, and changes nothing, where one of them is not DOWN.
        """
        self.hosts.check_complete(hostnames)
        for name in hostnames:
            await self._records.change(name, rising)
        self._changed()
        await self._try_step()

    async def mark_drained(self, hostname: str) -> None:
        """Take a DRAINING host on which nothing is left to DRAINED, and on to DOWN.

        Nothing changes for one that is DRAINED or DOWN. Raises NotFound for one that is in no maintenance,
        and Refused where something is left on it.
        """
        if self.hosts.check_drained(hostname):
            await self._move(hostname, LifeCause.LAST_TASK_ENDED)
            self._changed()

    async def wait_for(self, state: HostState, limit: int, seconds: float) -> list[str]:
        """Return hosts as `hosts_in`, as soon as there are any; none after `seconds`."""
        end = self._clock.monotonic() + seconds
        while True:
            found = self.hosts.hosts_in(state, limit)
            left = end - self._clock.monotonic()
            if found or left <= 0:
                return found
            await self._states.wait(min(until_tick(LOOK_SECONDS), left))

    def listed(self) -> list[HostInfo]:
        """Return the hosts in maintenance, and those that are UP again and have not registered yet."""
        return self.hosts.listed(self._clock.monotonic())

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
        records = self.hosts.records
        async with self._stepping:
            if not records.in_maintenance():
                return True
            try:
                while decided := plan(records.in_maintenance(), await self._backend.maintenance()):
                    await self._carry_out(decided)
            except Unavailable as error:
                if str(error) != self._logged:
                    log.warning("maintenance waits: %s", error)
                    self._logged = str(error)
                return False
            self._logged = ""
            return True

    async def _carry_out(self, decided: Plan) -> None:
        for hostname, cause in decided.confirmed:
            await self._move(hostname, cause)
        if decided.schedule or decided.unschedule:
            await self._backend.change_schedule(decided.schedule, decided.unschedule)
        if decided.take_down:
            await self._backend.take_down(decided.take_down)
        if decided.bring_up:
            await self._backend.bring_up(decided.bring_up)

    async def _move(self, hostname: str, cause: LifeCause) -> None:
        """Change the state of a host, unless another request has changed it meanwhile."""
        change = await self._records.change(hostname, lambda record: moved(record, cause, self._clock.wall()))
        self.hosts.moved(change.after, self._clock.monotonic())
        self._measure()
        self._states.fire()
        log.info("host %s is %s", hostname, change.after.state.name)

    def _changed(self) -> None:
        self._measure()
        self._states.fire()
        self._wake.set()

    def _measure(self) -> None:
        counts = self.hosts.counts()
        for state in (HostState.DRAINING, HostState.DRAINED, HostState.DOWN):
            IN_MAINTENANCE.labels(state.name).set(counts.get(state, 0))
