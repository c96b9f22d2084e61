"""What a fault is, and what it has to work with."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from tests.faults.testbed import Testbed
from tests.faults.workload import Workload

NOTHING: frozenset[str] = frozenset()
ZOOKEEPER = frozenset({"zookeeper"})
CASSANDRA = frozenset({"cassandra"})
SHARED = frozenset({"shared"})
SIMULATED = frozenset({"simulated"})
MASTERS = frozenset({"zookeeper", "masters"})


@dataclass(slots=True)
class FaultContext:
    """What a fault has to work with."""

    testbed: Testbed
    random: random.Random
    quick: bool
    """Shortened outages."""
    workload: Workload
    takeovers: dict[str, float] = field(default_factory=dict)
    """Seconds from the end of a role's leader until another answered, the longest."""

    others: list[float] = field(default_factory=list)
    """Seconds that calls took about jobs of owners that the fault did not concern."""

    failed: Counter[str] = field(default_factory=Counter)
    """How many of these failed, by what they were told."""

    def wait(self, least: float, most: float) -> None:
        time.sleep(self.random.uniform(least, most))

    def outage(self, whole: float, quick: float) -> float:
        return quick if self.quick else whole

    def took_over(self, role: str, seconds: float) -> None:
        self.takeovers[role] = max(seconds, self.takeovers.get(role, 0.0))


class Fault(Protocol):
    @property
    def needs(self) -> frozenset[str]:
        """Of zookeeper, cassandra, masters (of Mesos, several), shared (job managers), simulated (agents)."""
        ...

    @property
    def long(self) -> bool:
        """Played less often."""
        ...

    def strike(self, at: FaultContext) -> None: ...


@dataclass(frozen=True, slots=True)
class FaultWithin:
    """A fault that strikes in the middle of something else, which `strike` of a subclass does."""

    fault: Fault
    needs: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", self.fault.needs)

    @property
    def long(self) -> bool:
        return self.fault.long
