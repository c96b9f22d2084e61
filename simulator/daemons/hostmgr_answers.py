"""What the simulated host manager answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostmgr.core.claims.claim import Claim
from hostmgr.core.reservations.queue import Progress
from peloton.model.host_class import HostClass
from peloton.model.resources import Resources


@dataclass(frozen=True, slots=True)
class FreeHost:
    """A claimed host, with what is free of it."""

    claim: Claim
    free: Resources
    labels: tuple[tuple[str, str], ...]
    launches: int


@dataclass(frozen=True, slots=True)
class Found:
    """Claimed hosts, and the others by result."""

    hosts: tuple[FreeHost, ...]
    counts: Mapping[str, int]
    is_open: bool = False
    """Whether any reserved host is open to tasks that end in time."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """How far a reservation is."""

    progress: Progress
    hosts: tuple[FreeHost, ...]
    hostnames: tuple[str, ...]
    start: float | None
    next: float | None
    free: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """What all hosts have."""

    total: Resources
    classes: Mapping[HostClass, tuple[Resources, int]]
