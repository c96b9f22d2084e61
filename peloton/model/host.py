"""Hosts as operators see them."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.cluster import cluster_of
from peloton.model.constraint import Label
from peloton.model.states import HostState

IN_MAINTENANCE = frozenset({HostState.DRAINING, HostState.DRAINED, HostState.DOWN})


@dataclass(frozen=True, slots=True)
class HostInfo:
    """The state and goal of a host, as the store keeps them."""

    hostname: str
    ip: str
    state: HostState
    goal: HostState
    labels: tuple[Label, ...] = ()
    current_pool: str = ""
    desired_pool: str = ""
    since: int = 0
    """When it came into its state, in nanoseconds since 1970; 0 where that is not known."""
    begun_by: str = ""
    """Who began the maintenance; empty where callers are not known."""

    @property
    def in_maintenance(self) -> bool:
        """Whether the host takes no tasks because of maintenance."""
        return self.state in IN_MAINTENANCE


@dataclass(frozen=True, slots=True)
class HostMatch:
    """The hosts that a daemon job runs on, by its constraint."""

    hosts: frozenset[str]
    """Names of the hosts that match."""
    disconnected: frozenset[str] = frozenset()
    """Names of the hosts whose agents are registered and not connected; they need not be among `hosts`."""
    complete: bool = True
    """Whether all other hosts do not match or are gone."""
    clusters: frozenset[str] | None = None
    """The Mesos clusters of which this is so; None: all."""

    def excludes(self, host: str) -> bool:
        """Return whether the host is known not to match, or to be gone."""
        listed = self.complete and (self.clusters is None or cluster_of(host) in self.clusters)
        return listed and host not in self.hosts and host not in self.disconnected
