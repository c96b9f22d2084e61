"""Follows the hosts of daemon jobs: hostmgr reports them whenever they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

from jobmgr.core.state.events import HostsMatched
from jobmgr.drivers.retry import for_ever
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.outbox import Queue
from jobmgr.ports.hostmgr import HostMatches, HostNeeds
from peloton.model.cluster import UNNAMED
from peloton.model.host import HostMatch
from peloton.model.ids import JobId
from peloton.model.job import JobSpec

WAIT_SECONDS = 30.0
"""How long a call waits in hostmgr for a change."""
PAUSE_SECONDS = 0.25
"""Time between two calls. Where many agents register in a row, it bounds the number of answers."""
JOBS_AT_ONCE = 1000


class HostFollower:
    """Hands the hosts that match to the lanes of the jobs. Without daemon jobs it makes no calls."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._jobs: dict[JobId, None] = {}
        self._found: dict[str, dict[JobId, HostsMatched]] = {}
        """The hosts of each Mesos cluster, as last reported."""
        self._sent: dict[JobId, HostsMatched] = {}
        self._changes: dict[str, asyncio.Event] = {}
        """By cluster; set when jobs come or change."""

    async def take(self, queue: Queue[JobId]) -> NoReturn:
        """Take jobs to follow, new ones and those with a new config; run for ever."""
        while True:
            for job_id in await queue.take(JOBS_AT_ONCE):
                self._jobs[job_id] = None
                self._sent.pop(job_id, None)
            for changed in self._changes.values():
                changed.set()

    async def follow(self, cluster: str, hostmgr: HostMatches) -> None:
        """Follow the hosts of a Mesos cluster, by its host manager; run for ever."""
        changed = self._changes.setdefault(cluster, asyncio.Event())
        found = self._found.setdefault(cluster, {})
        hosts = ClusterHosts(hostmgr, self.specs, changed)

        def take(events: list[HostsMatched]) -> None:
            found.update((event.job_id, event) for event in events)
            for event in events:
                self._send(event.job_id, event.version)

        await for_ever(f"hosts of daemon jobs {cluster}".rstrip(), partial(hosts.step, take))

    def specs(self) -> dict[JobId, JobSpec]:
        """Return the newest specs of the jobs, without jobs that are gone."""
        found = {job_id: job.spec for job_id in self._jobs if (job := self._lanes.job(job_id)) is not None}
        self._jobs = dict.fromkeys(found)
        self._sent = {job_id: event for job_id, event in self._sent.items() if job_id in found}
        return found

    def _send(self, job_id: JobId, version: int) -> None:
        """Hand over the hosts of all clusters, unless they are those of the last time."""
        found = {
            cluster: event.match
            for cluster, events in self._found.items()
            if (event := events.get(job_id)) is not None and event.version == version
        }
        event = HostsMatched(
            job_id, version, found[UNNAMED] if set(self._found) == {UNNAMED} else _all(found)
        )
        if self._sent.get(job_id) != event:
            self._sent[job_id] = event
            self._lanes.post(event)


class ClusterHosts:
    """The hosts of one Mesos cluster that match daemon jobs."""

    def __init__(
        self, hostmgr: HostMatches, specs: Callable[[], Mapping[JobId, JobSpec]], changed: asyncio.Event
    ) -> None:
        """Match the jobs of `specs`, anew when `changed` is set."""
        self._hostmgr = hostmgr
        self._specs = specs
        self._changed = changed
        self._asked: Mapping[JobId, int] = {}
        """The version of each job's config that the last answer was about."""
        self._version = ""

    async def step(self, take: Callable[[list[HostsMatched]], None]) -> None:
        """Wait for another answer, and hand it over."""
        self._changed.clear()
        specs = self._specs()
        if not specs:
            await self._changed.wait()
            return
        versions = {job_id: spec.version for job_id, spec in specs.items()}
        known = self._version if versions == self._asked else ""
        call = asyncio.ensure_future(self._match(specs, known))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({call, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                return
            self._version, found = call.result()
        finally:
            call.cancel()
            changed.cancel()
        self._asked = versions
        take(found)
        await asyncio.sleep(PAUSE_SECONDS)

    async def _match(self, specs: Mapping[JobId, JobSpec], known: str) -> tuple[str, list[HostsMatched]]:
        """Return the version of the hosts, and the hosts of each job; none where the version is `known`."""
        needs = {job_id: _needs(spec) for job_id, spec in specs.items()}
        distinct = list(dict.fromkeys(needs.values(), True))
        answer = await self._hostmgr.matches(distinct, known, WAIT_SECONDS)
        if answer is None:
            return known, []
        version, found = answer
        matches = dict(zip(distinct, found, strict=True))
        return version, [
            HostsMatched(job_id, spec.version, matches[needs[job_id]]) for job_id, spec in specs.items()
        ]


def _all(found: Mapping[str, HostMatch]) -> HostMatch:
    """Return the hosts of several clusters. Those of clusters that are missing here are not known as gone."""
    return HostMatch(
        frozenset().union(*(match.hosts for match in found.values())),
        frozenset().union(*(match.disconnected for match in found.values())),
        clusters=frozenset(cluster for cluster, match in found.items() if match.complete),
    )


def _needs(spec: JobSpec) -> HostNeeds:
    """Return what a daemon job, whose instances all have the same config, asks of a host."""
    task = spec.default
    return HostNeeds(task.resources, task.dynamic_ports, False, task.constraint)
