"""The host manager's core: the state of one term of leadership, with what happens to all of it.

What the cluster manager reports and what the time brings are methods here; requests go to the part that they
concern. Nothing is done: instructions come back, which the drivers carry out.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hostmgr.core.claims.claim import Acquired
from hostmgr.core.cluster_manager.connection import MESOS, Connection
from hostmgr.core.cluster_manager.events import (
    AgentLost,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    StatusEvent,
)
from hostmgr.core.cluster_manager.instructions import (
    Decline,
    Expired,
    RequestStates,
    RunOnAgent,
    StoreFrameworkId,
)
from hostmgr.core.cluster_manager.kills import Kills
from hostmgr.core.cluster_manager.launching import CLAIM_GRACE_SECONDS, Launching
from hostmgr.core.cluster_manager.reconciliation import Reconciler, ReconciliationLimits
from hostmgr.core.cluster_manager.status_rules import StatusRules
from hostmgr.core.cluster_manager.volumes import Volumes
from hostmgr.core.hosts.all_hosts import HostLimits, Hosts
from hostmgr.core.reservations.queue import ReservationLimits, Reservations
from hostmgr.core.runs.launches import Launches, LaunchLimits
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import Offer
from hostmgr.core.state.table import HostTable
from peloton.errors import Unavailable
from peloton.model.amounts import duration


@dataclass(frozen=True, slots=True)
class TermLimits:
    """The limits and times of a term."""

    hosts: HostLimits = field(default_factory=HostLimits)
    launches: LaunchLimits = field(default_factory=LaunchLimits)
    reconcile: ReconciliationLimits = field(default_factory=ReconciliationLimits)
    reservations: ReservationLimits = field(default_factory=ReservationLimits)
    claim_grace: float = CLAIM_GRACE_SECONDS
    """Seconds after a connection begins in which a launch waits for its host's new offers."""


class Term:
    """The parts of the core. `now` is seconds on the monotonic clock."""

    def __init__(
        self, table: HostTable, limits: TermLimits | None = None, framework_id: str = "", peer: str = MESOS
    ) -> None:
        """Start without hosts. `framework_id` is the stored one; empty: there is none.

        `peer` is what messages call the other end of the connection.
        """
        limits = limits or TermLimits()
        self.framework_id = framework_id
        self.connection = Connection(peer)
        self.hosts = Hosts(table, limits.hosts)
        self.runs = Runs()
        self.launches = Launches(table, limits.launches)
        self.reconciler = Reconciler(limits.reconcile)
        self.reservations = Reservations(self.hosts, self.runs, limits.reservations)
        self.statuses = StatusRules(self.runs, self.launches, self.reconciler, self.hosts.holds)
        self.launching = Launching(
            self.hosts, self.runs, self.launches, self.reconciler, self.connection, limits.claim_grace
        )
        self.kills = Kills(self.hosts, self.runs)
        self.volumes = Volumes(self.hosts)
        self._claims_from = -math.inf
        """When the first claims are made."""

    # What the cluster manager reports.

    def connecting(self, registration: Registration) -> StoreFrameworkId | None:
        """Return what to do before a connection counts; None: nothing. Answered by `framework_stored`."""
        if registration.framework_id == self.framework_id:
            return None
        return StoreFrameworkId(registration.framework_id)

    def framework_stored(self, framework_id: str) -> None:
        """Take over the id of the framework that is stored now; empty: none."""
        self.framework_id = framework_id

    def connected(self, registration: Registration, now: float) -> None:
        """Begin a connection: the offers of the last one are void, and runs may have changed their states."""
        assert registration.framework_id == self.framework_id, "the id of the framework is not stored"
        self.connection.begin(registration, now)
        self.hosts.offers.drop()
        self.reconciler.subscribed(registration.master_id, now, self.runs.unconfirmed())

    def disconnected(self, reason: str) -> None:
        """End the connection: its offers are void."""
        self.connection.end(reason)
        self.reconciler.disconnected()
        self.hosts.offers.drop()

    def on_events(self, events: Iterable[BackendEvent], now: float) -> list[StatusEvent]:
        """Handle events in order; return the statuses, which are judged together after the others."""
        statuses: list[StatusEvent] = []
        for event in events:
            if isinstance(event, OffersMade):
                self._on_offers(event.offers, now)
            elif isinstance(event, OfferRescinded):
                self.hosts.offers.remove(event.offer_id)
            elif isinstance(event, AgentLost):
                self.reconciler.agent_gone(event.agent_id)
                self.hosts.remove_agent(event.agent_id)
            else:
                statuses.append(event)
        return statuses

    def _on_offers(self, offers: Iterable[Offer], now: float) -> None:
        for offer in offers:
            self.reconciler.agent_seen(offer.agent_id)
            self.hosts.add_offer(offer, now)

    # Claims.

    def postpone_claims(self, until: float) -> None:
        """Make no claims before then.

        A new leader does not know which hosts were reserved until the placement engines have renewed their
        reservations.
        """
        self._claims_from = until

    def acquire(
        self, want: HostFilter, ids: Iterator[str], now: float, owner: str, longest: float | None = None
    ) -> Acquired:
        """Claim hosts for `owner`, the calling process; empty where it is no daemon.

        `longest`: seconds that the tasks to be placed run at most, where that is known. Raises Unavailable
        while claims are postponed.
        """
        if now < self._claims_from:
            left = self._claims_from - now
            raise Unavailable(f"hosts are claimed in {duration(left)}: reserved ones are not all known yet")
        return self.hosts.claims.acquire(want, ids, now, owner, None if longest is None else now + longest)

    # What the time brings.

    def expire(self, alive: Container[str], now: float) -> Expired:
        """End what is over. `alive` are the present processes, `<role>/<id>`, that may own claims."""
        self.hosts.claims.shorten_orphaned(alive, now)
        return Expired(
            tuple(self.hosts.claims.expire(now)),
            tuple(self.hosts.holds.expire(now)),
            tuple(self.launches.expire(now)),
        )

    def old_offers(self, now: float) -> Decline | None:
        """Return which offers to decline; None: none, or not without a connection."""
        old = self.hosts.offers.old(now, self.hosts.claims)
        return Decline(tuple(old)) if old and self.connection.up else None

    def declined(self, decline: Decline) -> None:
        """Take over that offers were declined."""
        for offer_id in decline.offer_ids:
            self.hosts.offers.remove(offer_id)

    # Reconciliation.

    def request(self, runs: Sequence[RunOnAgent]) -> RequestStates:
        """Return the call that requests the states of runs; without runs, of all."""
        return RequestStates(tuple((run, agent_id or self.runs.agent(run)) for run, agent_id in runs))

    def requested(self, request: RequestStates) -> None:
        """Take over that states were requested, with the agents that the caller knows.

        The caller may have read them before the end of a run was reported: nothing would end it again.
        """
        for run, agent_id in request.runs:
            if agent_id and not self.runs.has_ended(run):
                self.runs.put(run, agent_id)
