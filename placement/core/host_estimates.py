"""How many hosts to ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from placement.core.fill import capacity
from placement.core.model import Gang, Host, HostClass, Needs

FIRST_GUESS = 8
"""Tasks that a host is thought to take before one was seen."""


class Sizes:
    """What the hosts of each class were like that came last. Guesses: nothing relies on them."""

    def __init__(self, most_remembered: int = 1000) -> None:
        self._seen: dict[HostClass, Host] = {}
        self._most = most_remembered

    def learn(self, hosts: Sequence[Host]) -> None:
        """The middle one of an answer, by CPU, stands for the class."""
        if hosts:
            middle = sorted(hosts, key=lambda host: host.free.cpu)[len(hosts) // 2]
            if len(self._seen) >= self._most:
                self._seen.clear()
            self._seen[middle.host_class] = middle

    def hosts_for(self, needs: Needs, count: int) -> float:
        """How many hosts so many tasks fill. Not rounded."""
        host = self._seen.get(needs.host_class)
        return count / max(1, capacity(host, needs) if host else FIRST_GUESS)


def wanted(
    sizes: Sizes, needs: Needs, missing: Iterable[tuple[Needs, int]], gangs: Iterable[Gang], most: int
) -> int:
    """Hosts to ask for now, for tasks with `needs` and all others of its class that wait: what the first gang
    still misses, and all of the gangs behind it. From 1 to `most`."""
    counts: dict[Needs, int] = {}
    for shape in (missing, *(gang.shape for gang in gangs)):
        for other, count in shape:
            if other.host_class == needs.host_class:
                counts[other] = counts.get(other, 0) + count
    hosts = sum(sizes.hosts_for(other, count) for other, count in counts.items())
    return max(1, min(most, math.ceil(hosts)))
