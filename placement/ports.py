"""What a placement engine needs of its neighbours.

Calls raise PelotonError; Unavailable where the neighbour cannot be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from peloton.model.shortage import Shortage
from placement.core.events import HostsClaimed, Rejection, ReservationAnswer, ReservedClaimed
from placement.core.found_hosts import Find, HostsFound
from placement.core.instructions import Claim, ClaimReserved, ReservationReport
from placement.core.model import Gang, Host, HostPlacement, Shape, TasksOnHosts, Unplaced
from placement.core.plans import GroupPlan, PlanRequest


class Resmgr(Protocol):
    """The queue of gangs of one task type, and the plans for it, at the leading resmgr."""

    async def take(self, limit: int, wait: float) -> Sequence[Gang]:
        """Lease up to `limit` gangs to this engine; wait up to `wait` seconds for the first."""
        ...

    async def report(self, placements: Sequence[HostPlacement]) -> Sequence[Rejection]:
        """Report placements, all of a gang in one call; return the rejected runs."""
        ...

    async def give_back(self, unplaced: Sequence[Unplaced]) -> None:
        """Give gangs back."""
        ...

    async def show_life(self) -> None:
        """Show that the engine works."""
        ...

    async def labels_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        """Return the labels of the tasks that are placed or running on hosts."""
        ...

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        """Report gangs that wait for reserved hosts; return those that are gone."""
        ...

    async def take_plan(self, wait: float) -> PlanRequest | None:
        """Return the next request for a plan; None where there is none within `wait` seconds."""
        ...

    async def answer_plan(self, plan_id: str, groups: Sequence[GroupPlan]) -> None:
        """Answer a request for a plan."""
        ...


class Hostmgr(Protocol):
    """Hosts, claims on them and reservations, at the leading hostmgrs of all clusters."""

    async def claim(self, claim: Claim) -> HostsClaimed:
        """Claim hosts."""
        ...

    async def claim_reserved(self, claim: ClaimReserved) -> ReservedClaimed:
        """Claim hosts, also reserved ones where tasks of the run's job end in time."""
        ...

    async def release(self, hosts: Sequence[Host]) -> None:
        """Release claimed hosts."""
        ...

    async def find(self, find: Find) -> HostsFound:
        """Return hosts that could be claimed, without claiming them."""
        ...

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return for each shape why such a gang would not fit on empty hosts, as far as known."""
        ...

    async def reserve(self, wishes: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        """Make or renew reservations, each under an id; return how far each is."""
        ...

    async def cancel_reservations(self, ids: Sequence[str]) -> None:
        """End reservations."""
        ...
