"""Launches under way on each host, and hosts whose launches fail because of the host.

An agent starts a few executors a second; further launches fail when their executors do not register in time.
A host on which nothing starts, with a full disk or a broken container runtime, stays free and would attract
more.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

from hostmgr.core.state.table import HostTable
from peloton.model.backoff import exponential
from peloton.model.ids import MesosTaskId
from peloton.model.states import TaskState

HOST_FAILURES = frozenset({"CONTAINER_LAUNCH_FAILED", "EXECUTOR_REGISTRATION_TIMEOUT"})
"""Reasons of Mesos for a launch that failed before the task itself began."""
STARTING = frozenset({TaskState.LAUNCHED, TaskState.STARTING})
MAX_JOBS = 10_000
"""Most jobs whose failed launches are remembered."""


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """How many launches a host takes at a time, and when it is passed over."""

    concurrent: int = 100
    """Runs of one host that may be LAUNCHED or STARTING."""
    failures: int = 3
    """Consecutive launches that fail on a host before it is passed over."""
    first_pause: float = 30.0
    """Seconds for which it is passed over; doubled each time until a run starts there."""
    longest_pause: float = 600.0


@dataclass(slots=True)
class _Failing:
    """A host on which no run has started since its first failure."""

    failures: int = 0
    pauses: int = 0
    until: float = 0.0
    """End of the pause, in seconds on the monotonic clock; 0: the host is not passed over."""


class Launches:
    """Follow runs from their launch, and keep the table's columns about launches."""

    def __init__(self, table: HostTable, limits: LaunchLimits) -> None:
        self._table = table
        self._limits = limits
        self._agent: dict[MesosTaskId, str] = {}
        """Agents of the runs that are starting."""
        self._failing: dict[str, _Failing] = {}
        self._failed_on: OrderedDict[str, set[str]] = OrderedDict()
        """By job, the agents on which launches failed since one of its runs started."""
        self._pauses: list[tuple[float, str]] = []

    def begin(self, run: MesosTaskId, agent_id: str) -> None:
        """Count a run as starting: it was launched, or a status says so."""
        if run not in self._agent:
            self._agent[run] = agent_id
            self._table.add_starting(agent_id, 1)

    def room(self, agent_id: str) -> int:
        """Return how many more runs may be launched on an agent now."""
        return max(0, self._limits.concurrent - self._table.starting(agent_id))

    def observe(self, run: MesosTaskId, agent_id: str, state: TaskState, reason: str, now: float) -> None:
        """Follow a status of the run; `reason` is as in `TaskStatus`."""
        if state in STARTING:
            if agent_id:
                self.begin(run, agent_id)
            return
        held = self._agent.pop(run, None)
        if held is not None:
            self._table.add_starting(held, -1)
        if state is TaskState.RUNNING:
            self._started(run, agent_id)
        elif state.terminal and reason in HOST_FAILURES and agent_id:
            self._failed(run, agent_id, now)

    def expire(self, now: float) -> list[str]:
        """End the pauses that are over; return their agents. The next failure there begins another pause."""
        over = []
        while self._pauses and self._pauses[0][0] <= now:
            until, agent_id = heapq.heappop(self._pauses)
            failing = self._failing.get(agent_id)
            if failing is not None and failing.until == until:
                failing.until = 0.0
                self._table.set_failing(agent_id, False)
                over.append(agent_id)
        return over

    def _started(self, run: MesosTaskId, agent_id: str) -> None:
        if self._failed_on:
            self._failed_on.pop(_job(run), None)
        if self._failing.pop(agent_id, None) is not None:
            self._table.set_failing(agent_id, False)

    def _failed(self, run: MesosTaskId, agent_id: str, now: float) -> None:
        """Count a failure against the host, unless the job fails on several hosts."""
        hosts = self._failed_on.setdefault(_job(run), set())
        self._failed_on.move_to_end(_job(run))
        if len(self._failed_on) > MAX_JOBS:
            self._failed_on.popitem(last=False)
        hosts.add(agent_id)
        failing = self._failing.get(agent_id)
        if len(hosts) > 1 or (failing is not None and failing.until):
            return
        failing = self._failing.setdefault(agent_id, _Failing())
        failing.failures += 1
        if failing.failures >= self._limits.failures:
            self._pass_over(agent_id, failing, now)

    def _pass_over(self, agent_id: str, failing: _Failing, now: float) -> None:
        limits = self._limits
        failing.pauses += 1
        failing.until = now + exponential(failing.pauses, limits.first_pause, limits.longest_pause)
        heapq.heappush(self._pauses, (failing.until, agent_id))
        self._table.set_failing(agent_id, True)


def _job(run: MesosTaskId) -> str:
    """Return the job's part of `<job UUID>-<instance>-<run>`."""
    return run.rsplit("-", 2)[0]
