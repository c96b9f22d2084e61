"""Estimate how many hosts a number of tasks needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from placement.core.model import Gang, Host, HostClass, Needs
from placement.core.table import capacity

FIRST_GUESS = 8
"""Tasks that an unknown host is expected to take."""


class HostEstimates:
    """Remembers a typical host of each class. Estimates only: correctness does not depend on them."""

    def __init__(self, most_remembered: int = 1000) -> None:
        self._typical: dict[HostClass, Host] = {}
        self._most = most_remembered

    def learn(self, hosts: Sequence[Host]) -> None:
        """Take the host with the median CPU of an answer as typical for its class."""
        if hosts:
            middle = sorted(hosts, key=lambda host: host.free.cpu)[len(hosts) // 2]
            if len(self._typical) >= self._most:
                self._typical.clear()
            if middle.host_class is not None:
                self._typical[middle.host_class] = middle

    def hosts_for(self, needs: Needs, count: int) -> float:
        """Return the number of hosts, not rounded, that `count` tasks fill."""
        host = self._typical.get(needs.host_class)
        return count / max(1, capacity(host, needs) if host else FIRST_GUESS)


def hosts_to_request(
    estimates: HostEstimates,
    needs: Needs,
    missing: Iterable[tuple[Needs, int]],
    gangs: Iterable[Gang],
    most: int,
    even: bool = False,
) -> int:
    """Return how many hosts to request, from 1 to `most`.

    Count what the first gang still misses and all tasks of the gangs behind it, as far as they are of the
    host class of `needs`; with `even` a host for each.
    """
    counts: dict[Needs, int] = {}
    for shape in (missing, *(gang.shape for gang in gangs)):
        for other, count in shape:
            if other.host_class == needs.host_class:
                counts[other] = counts.get(other, 0) + count
    hosts = sum(count if even else estimates.hosts_for(other, count) for other, count in counts.items())
    return max(1, min(most, math.ceil(hosts)))
