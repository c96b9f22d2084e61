"""Asks agents what their runs use, and keeps it for the job manager and for those who look at hosts."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.agents.sampling import Sampling, SamplingLimits
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.state.columns import Agent
from peloton.clock import NANOSECONDS, Clock
from peloton.errors import Unavailable
from peloton.mesos.agent_usage import ContainerUsage
from peloton.model.course import Course
from peloton.model.ids import MesosTaskId
from peloton.model.usage import BYTES_PER_MB, Reading
from storage.histories.courses import Span, StoredCourses

FOLLOW_SECONDS = 5.0
"""Time between two looks which agents have runs."""
MOST_RUNS = 200_000
"""Readings that are kept for the job manager, the oldest agents' are dropped first."""
COLUMNS = ("cores", "MB")
"""What the history has of a host: what its tasks use."""
FINE_KEEP = 26 * 3600
"""Seconds for which means of five minutes are kept."""
RECENT_SECONDS = 25 * 3600
"""Seconds of a course."""
USED_CPU = Gauge("hostmgr_used_cores", "Cores that tasks used when their agents were last asked.")
USED_MEMORY = Gauge("hostmgr_used_memory_bytes", "Memory that tasks used when their agents were last asked.")
SILENT = Gauge("hostmgr_silent_agents", "Agents with tasks that do not tell what these use.")
log = logging.getLogger(__name__)
Read = Callable[[Agent], Awaitable[Mapping[MesosTaskId, ContainerUsage]]]
Readings = Sequence[tuple[MesosTaskId, Reading]]
"""Of the runs of one agent."""


@dataclass(frozen=True, slots=True)
class UsedOfHost:
    """What the tasks on a host use."""

    hostname: str
    at: int
    """Nanoseconds since 1970."""
    cores: float | None
    """CPU time per second since the reading before; None after the first."""
    memory: int
    """Bytes."""
    tasks: int
    course: Course
    """Cores and MB over time; it is shared by what is known of the host at different times."""


class Sampler:
    """Interprets `Sampling`, and keeps what agents have told."""

    def __init__(
        self,
        read: Read,
        sight: ClusterSight,
        runs: Runs,
        limits: SamplingLimits,
        clock: Clock,
        stored: StoredCourses,
    ) -> None:
        """Ask an agent by `read`, and add what hosts use to `stored`."""
        self.stream_id = str(uuid.uuid4())
        self._read = read
        self._sight = sight
        self._runs = runs
        self._sampling = Sampling(limits)
        self._clock = clock
        self._now = clock.monotonic
        self._stored = stored
        self._changed = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._told: dict[int, Readings] = {}
        self._first = self._next = self._kept = 0
        self._arrived = asyncio.Event()
        self._last: dict[str, Mapping[MesosTaskId, Reading]] = {}
        self._hosts: dict[str, UsedOfHost] = {}
        self._silent: set[str] = set()
        USED_CPU.set_function(lambda: sum(each.cores or 0.0 for each in self._hosts.values()))
        USED_MEMORY.set_function(lambda: float(sum(each.memory for each in self._hosts.values())))
        SILENT.set_function(lambda: float(len(self._silent)))

    @property
    def silent(self) -> int:
        """Return how many agents with runs do not answer."""
        return len(self._silent)

    def hosts(self) -> list[UsedOfHost]:
        """Return what the tasks on hosts use, by hostname."""
        return sorted(self._hosts.values(), key=lambda each: each.hostname)

    async def course(self, hostname: str, days: int = 0) -> list[Span]:
        """Return the cores and MB that the tasks on a host have used over time. Raises PelotonError.

        In means of an hour of some days; or of the last day, and in shorter times as it is followed here.
        """
        now = self._clock.wall() / NANOSECONDS
        if days:
            return await self._stored.days(hostname, days, now)
        used = next((each for each in self._hosts.values() if each.hostname == hostname), None)
        begin = now if used is None else min(used.course.begin, now)
        spans = await self._stored.recent(hostname, now - RECENT_SECONDS, begin, before=used is not None)
        for until, (cores, memory) in () if used is None else used.course.points():
            spans.append(Span(begin, until, (cores, memory)))
            begin = until
        return spans

    async def keep_history(self, pause: float) -> NoReturn:
        """Store for ever what hosts use."""
        while True:
            await asyncio.sleep(pause)
            await self._stored.write(self._clock.wall() / NANOSECONDS)

    async def run(self) -> NoReturn:
        """Ask agents for ever."""
        followed = float("-inf")
        try:
            while True:
                now = self._now()
                if now >= followed + FOLLOW_SECONDS:
                    self._follow(now)
                    followed = now
                for agent_id in self._sampling.due(now):
                    task = asyncio.create_task(self._ask(agent_id))
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)
                rest = self._sampling.rest(now)
                await self._wait(min(FOLLOW_SECONDS, FOLLOW_SECONDS if rest is None else rest))
        finally:
            for task in self._asking:
                task.cancel()

    async def readings(
        self, stream_id: str, begin: int, limit: int, wait: float
    ) -> tuple[int, list[Readings]]:
        """Return the offset to begin with next, and what agents told from `begin` on; waits for some."""
        if stream_id != self.stream_id:
            begin = self._first
        begin = max(begin, self._first)
        if begin >= self._next:
            try:
                async with asyncio.timeout(wait):
                    await self._arrived.wait()
            except TimeoutError:
                return self._next, []
        found: list[Readings] = []
        count = 0
        while begin < self._next and count < limit:
            found.append(self._told[begin])
            count += len(self._told[begin])
            begin += 1
        return begin, found

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _follow(self, now: float) -> None:
        agents = self._sight.agents
        with_runs = [agent_id for agent_id in agents if self._runs.count(agent_id)]
        self._sampling.follow(with_runs, now)
        kept = set(with_runs)
        for gone in self._hosts.keys() - kept:
            del self._hosts[gone]
            del self._last[gone]
        self._silent &= kept

    async def _ask(self, agent_id: str) -> None:
        agent = self._sight.agents.get(agent_id)
        try:
            if agent is None:
                raise Unavailable(f"agent {agent_id} is gone")
            told = await self._read(agent)
        except Unavailable as error:
            level = logging.DEBUG if agent_id in self._silent else logging.WARNING
            log.log(level, "%s", error)
            self._silent.add(agent_id)
            self._sampling.failed(agent_id, self._now())
        else:
            self._silent.discard(agent_id)
            self._sampling.answered(agent_id, self._now())
            self._take(agent, told)
        self._changed.set()

    def _take(self, agent: Agent, told: Mapping[MesosTaskId, ContainerUsage]) -> None:
        """Keep the readings of the agent's own runs: those of other frameworks are nobody's here."""
        readings = [(run, each.reading) for run, each in told.items() if self._runs.agent(run) == agent.id]
        if not readings:
            return
        self._hosts[agent.id] = self._used(agent, readings)
        self._last[agent.id] = dict(readings)
        self._told[self._next] = readings
        self._next += 1
        self._kept += len(readings)
        while self._kept > MOST_RUNS and self._first < self._next - 1:
            self._kept -= len(self._told.pop(self._first))
            self._first += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    def _used(self, agent: Agent, readings: Readings) -> UsedOfHost:
        before = self._last.get(agent.id, {})
        cpu, span = 0, 0
        for run, reading in readings:
            last = before.get(run)
            cpu += max(reading.cpu - (last.cpu if last is not None else 0), 0)
            span = max(span, reading.at - last.at if last is not None else 0)
        memory = sum(reading.memory for _, reading in readings)
        at = max(reading.at for _, reading in readings)
        cores = cpu / span if span else None
        known = self._hosts.get(agent.id)
        course = Course(at / NANOSECONDS, 2) if known is None else known.course
        if cores is not None:
            amounts = cores, memory / BYTES_PER_MB
            course.add(at / NANOSECONDS, amounts)
            self._stored.add(agent.hostname, (at - span) / NANOSECONDS, at / NANOSECONDS, amounts)
        return UsedOfHost(agent.hostname, at, cores, memory, len(readings), course)
