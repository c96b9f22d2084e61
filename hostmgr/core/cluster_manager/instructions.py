"""What the core wants done. A driver does it, and reports back where the core has to know."""

from __future__ import annotations

from dataclasses import dataclass

from hostmgr.core.claims.claim import Claim
from hostmgr.core.claims.holds import Hold
from hostmgr.core.cluster_manager.events import Acknowledgement, StatusUpdate
from hostmgr.core.state.offers import OfferedVolume
from peloton.fast_init import fast_init
from peloton.model.ids import MesosTaskId

RunOnAgent = tuple[MesosTaskId, str]
"""A run with the id of its agent, empty where that is not known."""


@dataclass(frozen=True, slots=True)
class StoreFrameworkId:
    """Store the id of the framework before anything is launched under it; empty: forget it."""

    framework_id: str


@dataclass(frozen=True, slots=True)
class Decline:
    """Decline offers. Answered by `Term.declined`."""

    offer_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill runs. Answered by `Kills.sent`."""

    runs: tuple[RunOnAgent, ...]
    maintenance: bool = False
    """Whether it is for the maintenance of their hosts, and may wait where the cluster manager says so."""


@dataclass(frozen=True, slots=True)
class RequestStates:
    """Request the states of runs; without runs, of all. Answered by `Term.requested`."""

    runs: tuple[RunOnAgent, ...]


@dataclass(frozen=True, slots=True)
class DestroyVolume:
    """Destroy a persistent volume on the offer that holds it. Answered by `Volumes.destroyed`."""

    volume: OfferedVolume


@dataclass(frozen=True, slots=True)
class HandleStatuses:
    """What becomes of a batch of statuses."""

    publish: tuple[StatusUpdate, ...]
    """To append to the event stream, in this order. Those that it does not take: `StatusRules.missed`."""
    second_launches: tuple[MesosTaskId, ...]
    """To report: their second launches were refused, and the first ones still run."""
    skip: tuple[Acknowledgement, ...]
    """To acknowledge at once: the cluster manager holds back what follows a status that nobody can read."""
    requested_again: int
    """How many answers do not count: their states are requested again."""


fast_init(HandleStatuses)


@dataclass(frozen=True, slots=True)
class Expired:
    """What has ended by itself, to be reported."""

    claims: tuple[Claim, ...]
    holds: tuple[Hold, ...]
    paused_agents: tuple[str, ...]
    """Agents that take launches again."""
