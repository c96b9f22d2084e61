"""The host manager of one term: pass events to the core, and carry out its instructions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from prometheus_client import Counter, Gauge

from hostmgr.backend.interface import Backend
from hostmgr.core.claims.claim import Acquired, InvalidOffers
from hostmgr.core.claims.holds import HoldRequest
from hostmgr.core.cluster_manager.events import BackendEvent, OffersMade, Registration
from hostmgr.core.cluster_manager.instructions import StoreFrameworkId
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import need_of
from hostmgr.core.term import Term
from hostmgr.drivers.claim_ids import claim_ids
from hostmgr.drivers.framework import FrameworkRecord
from hostmgr.drivers.framework_removal import report_removal
from hostmgr.drivers.status_updates import StatusUpdates
from hostmgr.drivers.traces import TracedRuns
from peloton.clock import Clock
from peloton.daemon.tracing import TRACES
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.ids import MesosTaskId
from peloton.model.plural import plural
from peloton.model.task import Launch
from peloton.waking import Signal

LAUNCHED = Counter("hostmgr_tasks_launched", "Tasks launched on Mesos.")
OFFERS = Counter("hostmgr_offers", "Offers received from Mesos.")
SUBSCRIBED = Gauge("hostmgr_subscribed", "1 while subscribed with the Mesos master, else 0.")
HELD = Counter("hostmgr_holds", "Holds of room of hosts for instances that come back to them.")
NOT_HELD = Counter("hostmgr_holds_refused", "Holds that were not made because too many hosts were held.")
HOLDS_OVER = Counter(
    "hostmgr_holds_expired", "Holds that ended by themselves: their instances had not come back."
)
HELD_HOSTS = Gauge("hostmgr_held_hosts", "Hosts of which room is held.")
HELD_INSTANCES = Gauge("hostmgr_held_instances", "Instances for which room is held.")
log = logging.getLogger(__name__)


class HostManager:
    """The core of one term between its backend, whose listener it is, and the services."""

    def __init__(
        self,
        core: Term,
        backend: Backend,
        framework: FrameworkRecord,
        status_updates: StatusUpdates,
        clock: Clock,
    ) -> None:
        """Listen to the backend of a Mesos cluster."""
        self.core = core
        self.backend = backend
        self.status_updates = status_updates
        self.clock = clock
        self.host_states = Signal()
        """Fires when the state of a host in maintenance has changed."""
        self.hosts, self.runs, self.launches = core.hosts, core.runs, core.launches
        self._framework = framework
        self._traced = TracedRuns()
        HELD_HOSTS.set_function(lambda: len(core.hosts.holds.hosts))
        HELD_INSTANCES.set_function(lambda: len(core.hosts.holds))
        backend.attach(self)

    # The backend's listener.

    async def on_connected(self, registration: Registration) -> None:
        """Store the framework id before anything can be launched under it. Raises Unavailable."""
        instruction = self.core.connecting(registration)
        if instruction is not None:
            await self._store(instruction)
        self.core.connected(registration, self.clock.monotonic())
        self.status_updates.connected()
        SUBSCRIBED.set(1)
        log.info(
            "subscribed with %s at %s as %s",
            self.core.connection.peer,
            registration.master,
            registration.framework_id,
        )

    async def on_framework_removed(self) -> None:
        """Report the framework's runs as killed, then forget its id.

        The id is forgotten last: if this leader fails meanwhile, the next one learns of the removal again.
        """
        framework_id = self.core.framework_id
        log.error("framework %s was removed: subscribing as a new one", framework_id)
        await report_removal(self._framework, self.backend, self.status_updates, self.clock, framework_id)
        await self._store(StoreFrameworkId(""))

    async def _store(self, instruction: StoreFrameworkId) -> None:
        await self._framework.write(instruction)
        self.core.framework_stored(instruction.framework_id)

    def on_events(self, events: Sequence[BackendEvent]) -> None:
        """Handle events in order, statuses together after the others."""
        statuses = self.core.on_events(events, self.clock.monotonic())
        for event in events:
            if isinstance(event, OffersMade):
                OFFERS.inc(len(event.offers))
        if statuses:
            if TRACES.on:
                self._traced.reported(statuses)
            self.status_updates.take(statuses)

    def on_disconnected(self, reason: str) -> None:
        """Drop offers and acknowledgements, which are void."""
        self.core.disconnected(reason)
        self.status_updates.disconnected()
        SUBSCRIBED.set(0)

    def on_call_refused(self) -> None:
        """Reconcile soon: the call had no effect."""
        self.core.reconciler.reconcile_soon(self.clock.monotonic())

    # Requests of the services.

    def require_connection(self) -> None:
        """Raise Unavailable while there is no connection."""
        self.core.connection.require(self.backend.ready)

    async def room(self) -> None:
        """Wait until more calls may be queued. Calls lost with a broken connection are reconciled later."""
        try:
            await self.backend.drain()
        except Unavailable as error:
            log.info("calls may be lost: %s", error)

    def acquire(self, want: HostFilter, owner: str, longest: float | None = None) -> Acquired:
        """Claim hosts as `Term.acquire` does. Raises Unavailable."""
        return self.core.acquire(want, claim_ids(), self.clock.monotonic(), owner, longest)

    def launch(
        self,
        claim_id: str,
        hostname: str,
        agent_id: str,
        runs: Sequence[MesosTaskId],
        launches: Iterable[Launch],
    ) -> None:
        """Launch on the claimed host, using all its offers; a repeated launch changes nothing.

        `runs` are the runs of `launches`, whose iteration may raise InvalidArgument. Raises InvalidOffers and
        InvalidArgument, which end the claim, and Unavailable without any effect.
        """
        try:
            try:
                self._launch(claim_id, hostname, agent_id, launches)
            except (InvalidOffers, InvalidArgument):
                self.end_claim(claim_id, hostname)
                raise
        except Unavailable:
            self.core.launching.postponed(runs, self.clock.monotonic())
            raise

    def end_claim(self, claim_id: str, hostname: str) -> None:
        """End the claim of a launch that is refused. Raises Unavailable while its offers may come again."""
        self.core.launching.refused(claim_id, hostname, self.clock.monotonic())

    def _launch(self, claim_id: str, hostname: str, agent_id: str, launches: Iterable[Launch]) -> None:
        self.require_connection()
        launched = list(launches)
        needs = [need_of(each) for each in launched]
        plan = self.core.launching.plan(claim_id, hostname, agent_id, needs)
        if plan is None:
            return
        self.backend.launch(plan, launched)
        self.core.launching.launched(plan, needs)
        self.note_launched([each.task_id for each in needs], hostname)

    def note_launched(self, runs: Sequence[MesosTaskId], hostname: str) -> None:
        """Count launched runs, and trace them."""
        LAUNCHED.inc(len(runs))
        if TRACES.on:
            self._traced.launched(runs, hostname)

    async def try_task(self, launch: Launch) -> str:
        """Return why the cluster would refuse a task; empty: it would not. Raises Unavailable."""
        self.require_connection()
        return await self.backend.try_task(launch)

    def kill(self, runs: Iterable[MesosTaskId], maintenance: bool = False) -> None:
        """Kill runs, known here or not. Raises Unavailable without a connection."""
        self.require_connection()
        kill = self.core.kills.plan(runs, maintenance)
        self.backend.kill(kill.runs, maintenance)
        self.core.kills.sent(kill)

    def kill_and_hold(
        self, runs: Mapping[MesosTaskId, HoldRequest], maintained: Collection[MesosTaskId] = ()
    ) -> None:
        """Kill runs, and hold room of a host for the next run of the instance of each, given by run.

        Raises Unavailable without a connection; then nothing is held. Where too many hosts are held, the runs
        are killed all the same.
        """
        for maintenance in (False, True):
            if part := [run for run in runs if (run in maintained) is maintenance]:
                self.kill(part, maintenance)
        made = self.core.kills.hold(runs, self.clock.monotonic())
        HELD.inc(made.held)
        if made.refused:
            NOT_HELD.inc(made.refused)
            log.warning(
                "nothing is held for %s: %s held, the most",
                plural(made.refused, "instance"),
                plural(self.hosts.most_held, "host is", "hosts are"),
            )

    async def repeat_kills(self) -> None:
        """Repeat kills after a new connection: the old one may have lost them.

        Raises Unavailable without a connection.
        """
        for kill in self.core.kills.to_repeat():
            self.require_connection()
            self.backend.kill(kill.runs, kill.maintenance)
            await self.room()

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """Shut down executors, given as (executor id, agent id). Raises Unavailable without a connection."""
        self.require_connection()
        self.backend.shut_down(executors)

    def destroy_volume(self, volume_id: str) -> None:
        """Destroy a persistent volume. Raises as `Volumes.destroy` does, and Unavailable."""
        self.require_connection()
        instruction = self.core.volumes.destroy(volume_id)
        self.backend.destroy_volume(instruction.volume)
        self.core.volumes.destroyed(instruction.volume)

    def reconcile(self, runs: Sequence[tuple[MesosTaskId, str]]) -> None:
        """Request the states of runs, given as (run, agent id or empty); without runs, of all tasks.

        Raises Unavailable without a connection.
        """
        self.require_connection()
        request = self.core.request(runs)
        self.backend.reconcile(request.runs)
        self.core.requested(request)

    def shorten_claims(self, older_than: float) -> int:
        """Shorten the claims of daemons that are older than `older_than` seconds; return their number."""
        now = self.clock.monotonic()
        count = self.hosts.claims.shorten_older(now - older_than, now)
        if count:
            log.warning(
                "%s shortened: their placements died with a leader of resmgr",
                plural(count, "claim is", "claims are"),
            )
        return count

    # What the time brings.

    def postpone_claims(self, seconds: float) -> None:
        """Make no claims for so long."""
        self.core.postpone_claims(self.clock.monotonic() + seconds)

    def expire(self, alive: Container[str]) -> None:
        """End what is over. `alive` are the present processes, `<role>/<id>`, that may own claims."""
        over = self.core.expire(alive, self.clock.monotonic())
        for claim in over.claims:
            log.warning("claim %s of %s on %s has expired unused", claim.id, claim.owner, claim.hostname)
        HOLDS_OVER.inc(len(over.holds))
        for hold in over.holds:
            log.info("host %s is not held for task %s any longer", hold.hostname, hold.task_id)
        for agent_id in over.paused_agents:
            log.info("agent %s takes launches again", agent_id)

    def prune_offers(self) -> None:
        """Decline offers that were kept for too long; without a connection leave them for the next time."""
        decline = self.core.old_offers(self.clock.monotonic())
        if decline is None:
            return
        try:
            self.backend.decline(decline.offer_ids)
        except Unavailable as error:
            log.info("%s kept: %s", plural(len(decline.offer_ids), "old offer is", "old offers are"), error)
            return
        self.core.declined(decline)
