"""Rules of an administrator's own (docs/policies.md); None: Peloton's own."""

from __future__ import annotations

from dataclasses import dataclass

from resmgr.core.state.entitlement_policy import EntitlementPolicy
from resmgr.core.state.queue_order import QueueOrder


@dataclass(frozen=True, slots=True)
class Policies:
    """How capacity is shared among pools, and in which order gangs of a queue are tried."""

    entitlement: EntitlementPolicy | None = None
    queue_order: QueueOrder | None = None


OWN = Policies()
