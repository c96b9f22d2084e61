"""The known hosts of one term: stored, so that the next leader remembers which hosts are lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.agents.known_hosts import Change, KnownHosts
from hostmgr.core.agents.lost_hosts import LostHosts, check_lost_names
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.runs.on_agents import Runs
from hostmgr.drivers.history import HostHistory
from hostmgr.drivers.maintenance import Maintenance
from peloton.clock import Clock, rfc3339
from peloton.errors import Unavailable
from peloton.model.known_host import KnownHost
from peloton.model.plural import plural
from peloton.waking import tick
from storage import interface as storage

LOOK_SECONDS = 1.0
SHOWN_TASKS = 5
"""Runs of a lost host that the log names."""
LOST = Gauge("hostmgr_hosts_lost", "Hosts that were registered, and whose agents are gone.")
log = logging.getLogger(__name__)


class KnownHostKeeper:
    """Follow which hosts there are, and store it."""

    def __init__(
        self,
        framework: str,
        store: storage.KnownHosts,
        known: KnownHosts,
        sight: ClusterSight,
        maintenance: Maintenance,
        runs: Runs,
        clock: Clock,
        history: HostHistory | None = None,
    ) -> None:
        """Store hosts under the name of the framework, and note their losses in the history."""
        self._framework = framework
        self._store = store
        self._known = known
        self._hosts = LostHosts(known, sight, maintenance.hosts, runs)
        self._clock = clock
        self._history = history
        self._lock = asyncio.Lock()
        self._logged = ""
        maintenance.hosts.describe_missing = self.describe

    async def load(self) -> None:
        """Read what is stored. Raises Unavailable."""
        self._known.apply(Change(tuple(await self._store.all(self._framework))))
        LOST.set(self._hosts.count)

    def lost(self) -> list[KnownHost]:
        """Return the lost hosts, by name."""
        return self._hosts.lost(self._clock.monotonic())

    def describe(self, hostname: str) -> str:
        """Return since when a host is lost and why, for a message; empty for one that is not lost."""
        return next((_described(host) for host in self.lost() if host.hostname == hostname), "")

    async def forget(self, hostnames: Sequence[str]) -> None:
        """Forget lost hosts. Raises as `LostHosts.forget` does, and then forgets none; and Unavailable."""
        check_lost_names(hostnames)
        async with self._lock:
            change = self._hosts.forget(hostnames, self._clock.monotonic())
            await self._write(change)
            self._hosts.forgotten(change)
            LOST.set(self._hosts.count)
        log.info("forgotten: %s", ", ".join(hostnames))

    async def run(self) -> NoReturn:
        """Note for ever which hosts come and go."""
        while True:
            try:
                await self.look()
                self._logged = ""
            except Unavailable as error:
                if str(error) != self._logged:
                    log.warning("lost hosts are not noted: %s", error)
                    self._logged = str(error)
            await tick(LOOK_SECONDS)

    async def look(self) -> None:
        """Note what has changed, once the agents are known. Raises Unavailable."""
        async with self._lock:
            change = self._hosts.plan(self._clock.monotonic(), self._clock.wall())
            if change is None:
                return
            if change:
                await self._write(change)
            for host in self._hosts.carried_out(change, self._clock.monotonic()):
                _report(host)
                if self._history is not None:
                    self._history.note_presence(host)
            LOST.set(self._hosts.count)

    async def _write(self, change: Change) -> None:
        await self._store.write(self._framework, change.written, change.forgotten)


def _described(host: KnownHost) -> str:
    return f"LOST since {rfc3339(host.lost_since)}: {host.reason.text}"


def _report(host: KnownHost) -> None:
    """Log that a host is lost, or back."""
    if not host.lost:
        log.info("host %s is back", host.hostname)
        return
    named = ", ".join(host.tasks[:SHOWN_TASKS]) + (", …" if host.task_count > SHOWN_TASKS else "")
    ran = f"{plural(host.task_count, 'task')} ran there" + (f": {named}" if named else "")
    log.warning("host %s is lost: %s; %s", host.hostname, host.reason.text, ran)
