"""Placements as values: one is one host, its offer and the runs that share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from peloton.fast_init import fast_init
from peloton.model.ids import Run
from peloton.model.shortage import Shortage
from peloton.model.states import TaskType

NO_HOSTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A placement that an engine proposes."""

    host: str
    agent_id: str
    offer_id: str
    type: TaskType
    runs: tuple[Run, ...]
    ports: tuple[int, ...] = ()
    """Flat: each task's dynamic ports in the order of `runs`."""


fast_init(Proposal)


@dataclass(frozen=True, slots=True)
class PlacementFailure:
    """A gang for which an engine found no host."""

    runs: tuple[Run, ...]
    reason: str
    hosts: Mapping[str, int] = field(default_factory=lambda: NO_HOSTS)
    """Examined hosts by finding."""
    shortage: Shortage | None = None
    """Set where the gang would not fit on empty hosts either."""


@dataclass(frozen=True, slots=True)
class ReservedGang:
    """A gang that waits for hosts which are reserved for it."""

    runs: tuple[Run, ...]
    reason: str
    """How far the reservation is."""
    start: float | None = None
    """Seconds until it is expected to start; None: not known."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A run of a proposal that was not accepted."""

    proposal: Proposal
    run: Run
    message: str


@dataclass(frozen=True, slots=True)
class Handover:
    """A placement as jobmgr receives it."""

    host: str
    agent_id: str
    offer_id: str
    type: TaskType
    runs: tuple[Run, ...]
    ports: tuple[int, ...]
    """Flat, as in `Proposal`."""
    port_counts: tuple[int, ...]
    """The number of `ports` of each run, in the order of `runs`."""


fast_init(Handover)
