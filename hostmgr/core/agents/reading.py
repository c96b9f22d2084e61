"""When the map of agents is read."""

from __future__ import annotations

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.hosts.all_hosts import Hosts
from peloton.model.backoff import exponential

RETRY_SECONDS = 1.0
SECONDS_PER_AGENT = 0.001
"""Least time between two reads, by agent: each read costs the master and this process CPU for every agent."""


class AgentReading:
    """The pauses between reads of the map of agents.

    A map of many agents is work for the master: one that does not keep up is not asked without a pause, and a
    large map is read less often.
    """

    def __init__(self, sight: ClusterSight, hosts: Hosts, interval: float) -> None:
        """Read every `interval` seconds."""
        self._sight = sight
        self._hosts = hosts
        self._interval = interval
        self._failures = 0

    def succeeded(self) -> float:
        """Return the seconds until the next read after one that succeeded."""
        self._failures = 0
        return max(self._interval, self._shortest)

    def failed(self) -> float:
        """Return the seconds until the next read after one that failed; they grow up to the interval."""
        self._failures += 1
        return exponential(self._failures, min(RETRY_SECONDS, self._interval), self._interval)

    def rest(self, rested: float, pause: float) -> float:
        """Return how long to sleep before asking again, in a pause of which so much is over; 0: read now.

        It ends early where an offer has come from an agent that the map lacks.
        """
        if rested >= pause or (self._hosts.unlisted and rested >= self._shortest):
            return 0.0
        return min(RETRY_SECONDS, pause - rested)

    @property
    def _shortest(self) -> float:
        """Seconds between two reads at least."""
        return max(RETRY_SECONDS, len(self._sight.agents) * SECONDS_PER_AGENT)
