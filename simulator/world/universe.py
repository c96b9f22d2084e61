"""All there is around the daemons, as each of them knows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, Protocol

from simulator.world.cluster import Cluster
from simulator.world.kernel import Kernel
from simulator.world.network import Network
from simulator.world.store import Store


class Elections(Protocol):
    """Who leads, and who is there."""

    def leads(self, server: Any) -> bool:
        """Return whether this instance leads its role, as far as it knows."""
        ...

    def present(self, role: str) -> Collection[str]:
        """Return the names of the live processes of a role."""
        ...


class Universe:
    """What a daemon is given."""

    def __init__(
        self, kernel: Kernel, network: Network, store: Store, cluster: Cluster, elections: Elections
    ) -> None:
        self.kernel = kernel
        self.network = network
        self.store = store
        self.cluster = cluster
        self.framework_id = ""
        """Stored by hostmgr."""
        self.quiet = not network.lossy
        """Whether nothing fails, so that periodic work is left out that would find nothing to do."""
        self.ring = 100_000
        """Capacity of the stream of statuses."""
        self.shorten: Callable[[float, float], float] = _longest
        """Shortens a pause, given in seconds, by up to a share of it."""
        self.on_room: list[Callable[[], None]] = []
        """Called when a gang may find a place that it did not find before: hosts have more room."""
        self._elections = elections

    def more_room(self) -> None:
        """Tell that hosts have more room."""
        for call in self.on_room:
            call()

    def patience(self, seconds: float) -> float:
        """Return how long a caller waits for news, in seconds: without end where no answer is lost."""
        return math.inf if self.quiet else seconds

    def leads(self, server: Any) -> bool:
        """Return whether this instance leads its role, as far as it knows."""
        return self._elections.leads(server)

    def present(self, role: str) -> Collection[str]:
        """Return the names of the live processes of a role."""
        return self._elections.present(role)


def _longest(seconds: float, share: float) -> float:
    return seconds
