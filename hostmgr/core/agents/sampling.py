"""Which agents are asked next what their runs use.

Each agent with runs is asked once in an interval, spread evenly over it. Where more than `most` would be
asked a second, the interval is longer. One that does not answer is asked again after a longer pause.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass
from zlib import crc32

LONGEST_PAUSE = 10
"""Most intervals between two requests to an agent that does not answer."""


@dataclass(frozen=True, slots=True)
class SamplingLimits:
    """How often agents are asked."""

    interval: float = 30.0
    """Seconds between two requests to an agent."""
    most: float = 200.0
    """Most requests a second."""
    concurrent: int = 16
    """Most requests under way at a time."""


class Sampling:
    """The agents, by when each is due. Times are seconds on the monotonic clock."""

    def __init__(self, limits: SamplingLimits) -> None:
        self._limits = limits
        self._failures: dict[str, int] = {}
        """Failed requests in a row of each agent that is followed."""
        self._heap: list[tuple[float, str]] = []
        self._under_way: set[str] = set()

    @property
    def interval(self) -> float:
        """Return the seconds between two requests to an agent."""
        return max(self._limits.interval, len(self._failures) / self._limits.most)

    def follow(self, agents: Collection[str], now: float) -> None:
        """Follow these agents, and no others. New ones are asked within an interval, by their ids."""
        wanted = set(agents)
        for gone in self._failures.keys() - wanted:
            del self._failures[gone]
        fresh = wanted - self._failures.keys()
        self._failures.update(dict.fromkeys(fresh, 0))
        for agent in fresh - self._under_way:
            heapq.heappush(self._heap, (now + self.interval * _phase(agent), agent))

    def due(self, now: float) -> list[str]:
        """Return the agents to ask now; each is under way until `answered` or `failed` names it."""
        due: list[str] = []
        while self._heap and self._heap[0][0] <= now and self._room:
            _, agent = heapq.heappop(self._heap)
            if agent in self._failures and agent not in self._under_way:
                self._under_way.add(agent)
                due.append(agent)
        return due

    def rest(self, now: float) -> float | None:
        """Return the seconds until an agent is due; None: until an answer comes, or others are followed."""
        if not self._heap or not self._room:
            return None
        return max(self._heap[0][0] - now, 0.0)

    def answered(self, agent: str, now: float) -> None:
        """Take the end of a request that was answered."""
        if agent in self._failures:
            self._failures[agent] = 0
        self._again(agent, now + self.interval)

    def failed(self, agent: str, now: float) -> None:
        """Take the end of a request that has failed."""
        failures = self._failures.get(agent, 0) + 1
        if agent in self._failures:
            self._failures[agent] = failures
        self._again(agent, now + self.interval * min(2**failures, LONGEST_PAUSE))

    @property
    def _room(self) -> bool:
        return len(self._under_way) < self._limits.concurrent

    def _again(self, agent: str, at: float) -> None:
        assert agent in self._under_way, f"agent {agent} was not asked"
        self._under_way.remove(agent)
        if agent in self._failures:
            heapq.heappush(self._heap, (at, agent))


def _phase(agent: str) -> float:
    """Return a place in the interval, from 0 to 1, the same each time."""
    return crc32(agent.encode()) / 2**32
