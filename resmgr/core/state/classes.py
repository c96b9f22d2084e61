"""The classes of hosts of the cluster (docs/behaviour/pools.md, Classes of hosts)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from peloton.model.host_class import HostClass, class_for
from peloton.model.resources import ZERO, Resources


class ClassCapacity(NamedTuple):
    """What the hosts of a class have."""

    normal: Resources = ZERO
    slack_cpu: int = 0
    """Revocable CPU, in thousandths."""


ClassCapacities = Mapping[HostClass, ClassCapacity]


def added(one: ClassCapacities, other: ClassCapacities) -> dict[HostClass, ClassCapacity]:
    """Return the sums by class."""
    found = dict(one)
    for of, has in other.items():
        before = found.get(of, ClassCapacity())
        found[of] = ClassCapacity(before.normal + has.normal, before.slack_cpu + has.slack_cpu)
    return found


def without_pools(classes: ClassCapacities) -> dict[HostClass, ClassCapacity]:
    """Return the classes as they are where tasks are not confined to host pools."""
    found: dict[HostClass, ClassCapacity] = {}
    for of, has in classes.items():
        found = added(found, {of._replace(pool=""): has})
    return found


class Classes:
    """Which classes there are, and the one in which each task counts. An answer, once given, stays."""

    def __init__(self, capacities: ClassCapacities) -> None:
        self.capacities = dict(capacities)
        self._found: dict[HostClass, HostClass] = {}
        """By what tasks ask for."""

    def copy(self) -> Classes:
        """Return a copy: an answer of one is none of the other's."""
        made = Classes(self.capacities)
        made._found = dict(self._found)
        return made

    def __iter__(self) -> Iterator[HostClass]:
        return iter(self.capacities)

    def of(self, asked: HostClass) -> HostClass:
        """Return the class in which tasks that ask for such hosts count."""
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = self._class_for(asked)
        return found

    def _class_for(self, asked: HostClass) -> HostClass:
        return class_for(asked, ((each, has.normal.cpu) for each, has in self.capacities.items()))

    def capacity(self, of: HostClass) -> ClassCapacity:
        """Return what a class has."""
        return self.capacities[of]

    def name(self, of: HostClass) -> str:
        """Return words for a class."""
        return of.named(self.capacities)

    def take_over(self, capacities: ClassCapacities) -> bool:
        """Set what the classes have; return False, having changed nothing, where tasks would change class."""
        for asked, found in self._found.items():
            # Of several that would do, the one where it counts already is kept.
            if class_for(asked, ((each, each == found) for each in capacities)) != found:
                return False
        self.capacities = dict(capacities)
        return True
