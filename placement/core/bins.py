"""The free resources of a claimed host while tasks are placed on it."""

from __future__ import annotations

from peloton.model.resources import Resources
from placement.core.model import UNBOUNDED, Host, HostPlacement, Needs, Task


def capacity(host: Host, needs: Needs) -> int:
    """Return how many such tasks the host takes while nothing is placed on it."""
    return Bin(host).count(needs, alone=True) if host.host_class == needs.host_class else 0


class Bin:
    """The free resources of a host during placement."""

    __slots__ = ("free", "host", "ports", "slack_cpu", "tasks", "used")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.free = host.free
        self.slack_cpu = host.slack_cpu
        self.ports = sum(last - first + 1 for first, last in host.ports)
        self.used = 0
        self.tasks: list[Task] = []

    def count(self, needs: Needs, alone: bool) -> int:
        """Return how many such tasks have room; with `alone` each is a gang of its own."""
        want, free = needs.resources, self.free
        cpu = self.slack_cpu if needs.revocable else free.cpu
        return min(
            _times(cpu, want.cpu),
            _times(free.memory, want.memory),
            _times(free.disk, want.disk),
            _times(free.gpu, want.gpu),
            _times(self.ports, needs.ports),
            max(0, self.host.launches - self.used) if alone else UNBOUNDED,
        )

    def take(self, needs: Needs, count: int) -> None:
        """Take resources for `count` tasks; return them if it is negative."""
        want = needs.resources.times(count)
        if needs.revocable:
            self.slack_cpu -= want.cpu
            want = Resources(0, want.memory, want.disk, want.gpu)
        self.free -= want
        self.ports -= needs.ports * count
        self.used += count

    def placement(self) -> HostPlacement:
        """Return what was placed on the host."""
        wanted = sum(task.needs.ports for task in self.tasks)
        free = (port for first, last in self.host.ports for port in range(first, last + 1))
        ports = tuple(port for port, _ in zip(free, range(wanted), strict=False))
        return HostPlacement(self.host, tuple(self.tasks), ports)


def _times(free: int, want: int) -> int:
    if want <= 0:
        return UNBOUNDED
    return max(0, free // want)
