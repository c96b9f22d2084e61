"""What an engine needs of the others: resmgr's queue of gangs, and hostmgr's claims on hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from peloton.model.shortage import Shortage
from placement.core.model import Gang, Host, Needs, Shape, Use


@dataclass(frozen=True, slots=True)
class Failure:
    """A gang that goes back, and why."""

    gang: Gang
    reason: str
    counts: Mapping[str, int] = field(default_factory=dict)
    """Hosts by the lower-case name of what was found about them."""
    shortage: Shortage | None = None
    """Set where it would not fit on empty hosts either."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A run whose placement was not taken."""

    offer_id: str
    run_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Acquired:
    hosts: Sequence[Host]
    counts: Mapping[str, int]
    """Hosts by the lower-case name of what was found about them."""


class GangQueue(Protocol):
    """Resmgr. Calls raise PelotonError; Unavailable where it cannot be reached."""

    async def dequeue(self, limit: int, wait: float) -> Sequence[Gang]:
        """Up to `limit` gangs, leased to this engine; none after `wait` seconds."""
        ...

    async def settle(self, uses: Sequence[Use], failures: Sequence[Failure]) -> Sequence[Rejection]:
        """Hand in what became of gangs. Those of one gang go in one call."""
        ...


class Claims(Protocol):
    """Hostmgr. Calls raise PelotonError; Unavailable where it cannot be reached."""

    async def acquire(self, needs: Needs, most: int) -> Acquired:
        """Claim up to `most` hosts that have room for one such task."""
        ...

    async def release(self, hosts: Sequence[Host]) -> None: ...

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """For each, why such a gang would not fit on empty hosts; None where no reason is known."""
        ...
