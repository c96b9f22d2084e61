"""The host manager of one term: pass events of the cluster manager to the core, carry out its decisions."""

from __future__ import annotations

import logging
import math
import os
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from prometheus_client import Counter, Gauge

from hostmgr.backend.interface import (
    Address,
    AgentLost,
    Backend,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    StatusEvent,
)
from hostmgr.core.claims import Acquired, InvalidOffers
from hostmgr.core.filter import HostFilter
from hostmgr.core.hosts import Hosts
from hostmgr.core.launches import Launches
from hostmgr.core.offers import Need, Offer, need_of
from hostmgr.core.reconcile import Reconciler
from hostmgr.core.reservation_plan import RunInfo, vector
from hostmgr.core.reservations import ReservationPolicy, Reservations
from hostmgr.core.runs import Runs
from hostmgr.drivers.framework_removal import report_removal
from hostmgr.drivers.status_updates import Entry, StatusUpdates
from hostmgr.drivers.traces import TracedRuns
from peloton.clock import Clock
from peloton.daemon.tracing import TRACES
from peloton.errors import InvalidArgument, NotFound, Refused, Unavailable
from peloton.eventstream import EventRing
from peloton.model.cluster import UNNAMED
from peloton.model.ids import MesosTaskId, TaskId
from peloton.model.task import Launch
from storage.interface import Store

MAX_KILLS = 100_000
"""Most kills that are remembered, to be repeated after a new connection."""
CALLS_AT_ONCE = 1000
"""Calls that are queued before waiting for room."""
LAUNCHED = Counter("hostmgr_tasks_launched", "Tasks launched on Mesos.")
OFFERS = Counter("hostmgr_offers", "Offers received from Mesos.")
SUBSCRIBED = Gauge("hostmgr_subscribed", "1 while subscribed with the Mesos master, else 0.")
_IDS_AT_ONCE = 32
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
log = logging.getLogger(__name__)


class HostManager:
    """The state of one term of leadership; the backend's listener."""

    def __init__(
        self,
        name: str,
        framework_id: str,
        backend: Backend,
        store: Store,
        hosts: Hosts,
        runs: Runs,
        launches: Launches,
        reconciler: Reconciler,
        ring: EventRing[Entry],
        clock: Clock,
        claim_grace: float,
        cluster: str = UNNAMED,
        reservation_policy: ReservationPolicy | None = None,
    ) -> None:
        """Listen to the backend of a Mesos cluster.

        `name` is the framework's, under which its id is stored; the id is empty where none is.
        `claim_grace`: seconds after a connection begins in which a launch waits for its host's new offers.
        """
        self.backend = backend
        self.hosts = hosts
        self.runs = runs
        self.launches = launches
        self.reservations = Reservations(hosts, runs, reservation_policy)
        self.reconciler = reconciler
        self.status_updates = StatusUpdates(ring, runs, launches, reconciler, clock.monotonic)
        self.registration: Registration | None = None
        """The last registration, also without a connection."""
        self.framework_id = framework_id
        self.kills_disabled = False
        self._name = name
        self._cluster = cluster
        self._store = store
        self.clock = clock
        self._claim_grace = claim_grace
        self._claims_from = 0.0
        """When the first claims are made, in seconds on the monotonic clock."""
        self._connected = False
        self._connected_at = 0.0
        self._last_error = ""
        self._traced = TracedRuns()
        self._killing: OrderedDict[MesosTaskId, None] = OrderedDict()
        backend.attach(self)

    # The backend's listener.

    async def on_connected(self, registration: Registration) -> None:
        """Store the framework id before anything can be launched under it. Raises Unavailable."""
        if registration.framework_id != self.framework_id:
            await self._store.hosts.write_framework_id(self._name, registration.framework_id)
            self.framework_id = registration.framework_id
        now = self.clock.monotonic()
        self.registration, self._connected_at = registration, now
        self._connected, self._last_error = True, ""
        self.status_updates.connected()
        self.hosts.drop_offers()
        self.reconciler.subscribed(registration.master_id, now, self.runs.unconfirmed())
        SUBSCRIBED.set(1)
        log.info("subscribed with the Mesos master at %s as %s", registration.master, self.framework_id)

    async def on_framework_removed(self) -> None:
        """Report the framework's runs as killed, then forget its id.

        The id is forgotten last: if this leader fails meanwhile, the next one learns of the removal again.
        """
        log.error("Mesos has removed framework %s: subscribing as a new one", self.framework_id)
        await report_removal(
            self._store, self.backend, self.status_updates, self.clock, self.framework_id, self._cluster
        )
        self.framework_id = ""
        await self._store.hosts.write_framework_id(self._name, "")

    def on_events(self, events: Sequence[BackendEvent]) -> None:
        """Handle events in order, statuses together after the others."""
        statuses: list[StatusEvent] = []
        for event in events:
            if isinstance(event, OffersMade):
                self._on_offers(event.offers)
            elif isinstance(event, OfferRescinded):
                self.hosts.remove_offer(event.offer_id)
            elif isinstance(event, AgentLost):
                self._on_agent_lost(event.agent_id)
            else:
                statuses.append(event)
        if statuses:
            if TRACES.on:
                self._traced.reported(statuses)
            self.status_updates.take(statuses)

    def on_disconnected(self, reason: str) -> None:
        """Drop offers and acknowledgements, which are void."""
        self._connected, self._last_error = False, reason
        self.status_updates.disconnected()
        self.reconciler.disconnected()
        self.hosts.drop_offers()
        SUBSCRIBED.set(0)

    def on_call_refused(self) -> None:
        """Reconcile soon: the call had no effect."""
        self.reconciler.reconcile_soon(self.clock.monotonic())

    def _on_offers(self, offers: Sequence[Offer]) -> None:
        now = self.clock.monotonic()
        for offer in offers:
            self.reconciler.agent_seen(offer.agent_id)
            self.hosts.add_offer(offer, now)
        OFFERS.inc(len(offers))

    def _on_agent_lost(self, agent_id: str) -> None:
        log.warning("agent %s is lost", agent_id)
        self.reconciler.agent_gone(agent_id)
        self.hosts.remove_agent(agent_id)

    # Requests of the services.

    @property
    def unhealthy(self) -> str:
        """Return why there is no connection, with the last error; empty while connected."""
        if self._connected:
            return ""
        return "not subscribed with the Mesos master" + (f": {self._last_error}" if self._last_error else "")

    @property
    def connected_at(self) -> float:
        """Return when the connection began, on the monotonic clock; infinity without one."""
        return self._connected_at if self._connected else math.inf

    def require_connection(self) -> None:
        """Raise Unavailable while there is no connection."""
        if not (self._connected and self.backend.ready):
            raise Unavailable("not subscribed with the Mesos master at the moment")

    def postpone_claims(self, seconds: float) -> None:
        """Make no claims for so long.

        A new leader does not know which hosts were reserved until the placement engines have renewed their
        reservations.
        """
        self._claims_from = self.clock.monotonic() + seconds

    def acquire(self, want: HostFilter, owner: str, longest: float | None = None) -> Acquired:
        """Claim hosts for `owner`, the calling process; empty where it is no daemon.

        `longest`: seconds that the tasks to be placed run at most, where that is known. Raises Unavailable
        while claims are postponed.
        """
        now = self.clock.monotonic()
        if now < self._claims_from:
            left = self._claims_from - now
            raise Unavailable(f"hosts are claimed in {left:.1f} s: reserved ones are not all known yet")
        ends_by = None if longest is None else now + longest
        return self.hosts.acquire(want, claim_ids(), now, owner, ends_by)

    def expire_claims(self, alive: Container[str]) -> None:
        """End expired claims. `alive` are the present processes, `<role>/<id>`, that may own claims."""
        self.hosts.shorten_orphaned(alive, self.clock.monotonic())
        for claim in self.hosts.expire(self.clock.monotonic()):
            log.warning("claim %s of %s on %s has expired unused", claim.id, claim.owner, claim.hostname)
        for hold in self.hosts.holds.expire(self.clock.monotonic()):
            log.info("host %s is not held for task %s any longer", hold.hostname, hold.task_id)

    def shorten_claims(self, older_than: float) -> int:
        """Shorten the claims of daemons that are older than so many seconds; return how many."""
        now = self.clock.monotonic()
        count = self.hosts.shorten_older(now - older_than, now)
        if count:
            log.warning("%d claims are shortened: their placements died with a leader of resmgr", count)
        return count

    def end_pauses(self) -> None:
        """End the pauses of hosts that were passed over for long enough."""
        for agent_id in self.launches.expire(self.clock.monotonic()):
            log.info("agent %s takes launches again", agent_id)

    def prune_offers(self) -> None:
        """Decline offers that were kept for too long; without a connection leave them for the next time."""
        old = self.hosts.old_offers(self.clock.monotonic())
        if not old or not self._connected:
            return
        try:
            self.backend.decline(old)
        except Unavailable as error:
            log.info("%d old offers are kept: %s", len(old), error)
            return
        for offer_id in old:
            self.hosts.remove_offer(offer_id)

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
                self.give_up(claim_id, hostname)
                raise
        except Unavailable:
            self.reconciler.postpone(runs, self.clock.monotonic())
            raise

    def _launch(self, claim_id: str, hostname: str, agent_id: str, launches: Iterable[Launch]) -> None:
        self.require_connection()
        launched = list(launches)
        needs = [need_of(each) for each in launched]
        check_distinct(needs)
        runs = [each.task_id for each in needs]
        plan = self.hosts.plan_launch(claim_id, hostname, agent_id, needs)
        if plan is None:
            return
        self.refuse_late(runs)
        self.backend.launch(plan, launched)
        self.hosts.commit_launch(plan)
        self.follow_launched(runs, plan.claim.agent_id)
        if TRACES.on:
            self._traced.launched(runs, hostname)
        if plan.claim.ends_by is not None:
            for each in needs:
                self.runs.learn(each.task_id, _info(each, plan.claim.ends_by))

    def refuse_late(self, runs: Iterable[MesosTaskId]) -> None:
        """Raise InvalidOffers for runs that were reported as lost before their launch."""
        late = [run for run in runs if self.runs.given_up(run)]
        if late:
            raise InvalidOffers(f"reported as lost before the launch: {', '.join(late)}")

    def follow_launched(self, runs: Sequence[MesosTaskId], agent_id: str) -> None:
        """Count runs as started on an agent, after the call that launches them."""
        for run in runs:
            self.runs.launched(run, agent_id)
            self.launches.begin(run, agent_id)
        LAUNCHED.inc(len(runs))

    def destroy_volume(self, volume_id: str) -> None:
        """Destroy a persistent volume that no task uses, and free its disk.

        Raises NotFound where no agent has it, Refused while it is not offered, which it is not while a task
        uses it, and Unavailable without a connection or while its host is claimed.
        """
        self.require_connection()
        offered = self.hosts.offered_volume(volume_id)
        if offered is None:
            if not self.hosts.has_volume(volume_id):
                raise NotFound(f"no agent has the volume {volume_id}")
            raise Refused(f"volume {volume_id} is in use, or not offered by Mesos at the moment")
        if self.hosts.claimed(offered.offer.agent_id):
            raise Unavailable(f"{offered.offer.hostname} is claimed by a placement engine at the moment")
        self.backend.destroy_volume(offered)
        self.hosts.remove_offer(offered.offer.id)

    def kill(self, runs: Iterable[MesosTaskId]) -> None:
        """Kill runs, known here or not. Raises Unavailable without a connection."""
        self.require_connection()
        killed = list(runs)
        self.backend.kill([(run, self.runs.agent(run)) for run in killed])
        self._killing.update(dict.fromkeys(killed))
        while len(self._killing) > MAX_KILLS:
            self._killing.popitem(last=False)

    def kill_and_hold(self, runs: Mapping[MesosTaskId, tuple[TaskId, str]]) -> None:
        """Kill runs, and hold a host for the next run of the instance of each, given by run.

        Raises Unavailable without a connection; then nothing is held.
        """
        self.kill(runs)
        now = self.clock.monotonic()
        for task_id, hostname in runs.values():
            self.hosts.holds.add(hostname, task_id, now)

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """Shut down executors, given as (executor id, agent id). Raises Unavailable without a connection."""
        self.require_connection()
        self.backend.shut_down(executors)

    def reconcile(self, runs: Sequence[tuple[MesosTaskId, str]]) -> None:
        """Request the states of runs, given as (run, agent id or empty); without runs, of all tasks.

        Raises Unavailable without a connection.
        """
        self.require_connection()
        known = [(run, agent_id or self.runs.agent(run)) for run, agent_id in runs]
        self.backend.reconcile(known)
        for run, agent_id in known:
            if agent_id:
                self.runs.put(run, agent_id)

    async def repeat_kills(self) -> None:
        """Repeat kills after a new connection: the old one may have lost them.

        Raises Unavailable without a connection.
        """
        for run in [run for run in self._killing if not self.runs.agent(run)]:
            del self._killing[run]
        due = list(self._killing)
        for start in range(0, len(due), CALLS_AT_ONCE):
            part = due[start : start + CALLS_AT_ONCE]
            known = [(run, agent) for run in part if (agent := self.runs.agent(run))]
            self.require_connection()
            self.backend.kill(known)
            await self.room()

    async def room(self) -> None:
        """Wait until more calls may be queued. Calls lost with a broken connection are reconciled later."""
        try:
            await self.backend.drain()
        except Unavailable as error:
            log.info("calls may be lost: %s", error)

    def known_master(self) -> Address:
        """Return the leading master. Raises Unavailable before the first connection."""
        if self.registration is None:
            raise Unavailable("no Mesos master is known yet")
        return self.registration.master

    def give_up(self, claim_id: str, hostname: str) -> None:
        """End the claim after a refused launch; raise Unavailable while its offers may still come again."""
        claim = self.hosts.claim(claim_id)
        if claim is None or claim.hostname != hostname:
            return
        since = self.clock.monotonic() - self._connected_at
        if since < self._claim_grace and not self.hosts.offers_of(claim.agent_id):
            raise Unavailable(
                f"{hostname} has not been offered again since the subscription with Mesos {since:.0f} s ago"
            )
        self.hosts.release(claim_id)


def check_distinct(needs: Sequence[Need]) -> None:
    """Raise InvalidArgument for two tasks with one id.

    Mesos would report the refusal of the second as a status of the first.
    """
    seen: set[str] = set()
    for each in needs:
        if each.task_id in seen:
            raise InvalidArgument("tasks", each.task_id, "a run that is given once")
        seen.add(each.task_id)


def _info(need: Need, end: float) -> RunInfo:
    return RunInfo(vector(need.resources, need.revocable, len(need.ports)), end)


def claim_ids() -> Iterator[str]:
    """Iterate over new ids for claims: UUIDs of version 4, faster than `uuid.uuid4`."""
    while True:
        many = os.urandom(16 * _IDS_AT_ONCE).hex()
        for start in range(0, len(many), 32):
            text = many[start : start + 32]
            yield f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"
