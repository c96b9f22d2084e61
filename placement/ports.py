"""Ports of the engine: the queue of gangs at resmgr, and claims on hosts at hostmgr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from peloton.model.shortage import Shortage
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape, TasksOnHosts
from placement.core.reservation_reasons import Reserved


@dataclass(frozen=True, slots=True)
class Failure:
    """A gang that is given back, and why."""

    gang: Gang
    reason: str
    counts: Mapping[str, int] = field(default_factory=dict)
    """Hosts by the lower-case name of their match result."""
    shortage: Shortage | None = None
    """Set where the gang would not fit on empty hosts either."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A run whose placement resmgr rejects."""

    offer_id: str
    run_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Acquired:
    """Answer to a claim: the hosts that were claimed, and the match results of all."""

    hosts: Sequence[Host]
    counts: Mapping[str, int]
    """Hosts by the lower-case name of their match result."""


@dataclass(frozen=True, slots=True)
class ReservationReport:
    """A gang that waits for reserved hosts, and why."""

    gang: Gang
    reason: str
    start: float | None
    """Seconds until it is expected to start; None: not known."""


@dataclass(frozen=True, slots=True)
class ReservationAnswer:
    """How far a reservation is; with `hosts` it has ended, and they are claimed."""

    reserved: Reserved
    hosts: Sequence[Host] = ()


Desired = Mapping[str, Sequence[str]]
"""The ids of the tasks that are to be placed on each host, by hostname."""
NO_HOSTS: Desired = MappingProxyType({})


class GangQueue(Protocol):
    """Queue of gangs at resmgr. Calls raise PelotonError; Unavailable where resmgr cannot be reached."""

    async def dequeue(self, limit: int, wait: float) -> Sequence[Gang]:
        """Lease up to `limit` gangs to this engine; wait up to `wait` seconds for the first."""
        ...

    async def report(
        self, placements: Sequence[HostPlacement], failures: Sequence[Failure]
    ) -> Sequence[Rejection]:
        """Report placements and failures, those of one gang in one call; return the rejected runs."""
        ...

    async def tasks_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        """Return the labels of the tasks that are placed or running on hosts."""
        ...

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        """Report gangs that wait for reserved hosts; return those that are gone."""
        ...


class Claims(Protocol):
    """Claims on hosts at hostmgr. Calls raise PelotonError; Unavailable where hostmgr cannot be reached."""

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        """Claim up to `most` hosts that have room for one such task; of those with `names`, if given.

        Hosts that are held match only for the tasks that are given with them.
        """
        ...

    async def release(self, hosts: Sequence[Host]) -> None:
        """Release claimed hosts."""
        ...

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return for each shape why such a gang would not fit on empty hosts, if a reason is known."""
        ...


class Reservations(Protocol):
    """Reservations of hosts at hostmgr. Calls raise PelotonError."""

    async def reserve(self, gangs: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        """Make or renew reservations, each under an id; return how far each is."""
        ...

    async def cancel(self, ids: Sequence[str]) -> None:
        """End reservations."""
        ...

    async def backfill(self, run_id: str, needs: Needs, most: int) -> tuple[Sequence[Host], bool]:
        """Claim up to `most` hosts for tasks of a run's job, also reserved ones where those end in time.

        Return the hosts, and whether any reserved host is open to tasks that end in time.
        """
        ...
