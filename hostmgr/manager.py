"""What hostmgr does while it leads: feeds the core with what Mesos says, and carries out what is decided."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence

from prometheus_client import Counter, Gauge

from hostmgr.core.filter import HostFilter
from hostmgr.core.hosts import Acquired, Hosts, InvalidOffers
from hostmgr.core.launches import Launches
from hostmgr.core.offers import Need
from hostmgr.core.reconcile import Reconciler
from hostmgr.core.runs import Runs
from hostmgr.drivers.status_updates import Event as StreamEvent
from hostmgr.drivers.status_updates import Statuses
from hostmgr.mesos.calls import Calls
from hostmgr.mesos.connection import MesosDriver
from hostmgr.mesos.stream import Event
from hostmgr.mesos.taskinfo import need, task_info
from hostmgr.mesos.translate import Forms, labels_from, offer_from
from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2
from peloton.clock import Clock
from peloton.errors import InvalidArgument, Unavailable
from peloton.eventstream import EventRing
from peloton.mesos.detector import MasterAddress
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from storage.interface import Store

REFUSE_SECONDS = 0.0
"""What a launch leaves of a host is offered again with the next allocation."""
MOST_KILLING = 100_000
CALLS_AT_ONCE = 1000
"""Calls to Mesos that are written before room for more is waited for."""
LAUNCHED = Counter("hostmgr_tasks_launched", "Tasks given to Mesos.")
OFFERS = Counter("hostmgr_offers", "Offers that came.")
SUBSCRIBED = Gauge("hostmgr_subscribed", "1 while subscribed with the Mesos master.")
log = logging.getLogger(__name__)


class HostManager:
    """The state of one term of leadership; the driver's handler."""

    driver: MesosDriver
    """Set before anything else is called: the two know each other."""

    def __init__(
        self,
        name: str,
        framework_id: str,
        store: Store,
        hosts: Hosts,
        runs: Runs,
        launches: Launches,
        reconciler: Reconciler,
        ring: EventRing[StreamEvent],
        clock: Clock,
        claim_grace: float,
    ) -> None:
        """`name` is the framework's, under which its id is stored; the id is empty where none is.

        `claim_grace`: seconds after a subscription in which a launch waits for its host's new offers.
        """
        self.hosts = hosts
        self.runs = runs
        self.launches = launches
        self.reconciler = reconciler
        self.statuses = Statuses(ring, runs, launches, reconciler, clock.monotonic)
        self.master: MasterAddress | None = None
        self.framework_id = framework_id
        self.kills_disabled = False
        self._name = name
        self._store = store
        self._clock = clock
        self._claim_grace = claim_grace
        self._subscribed_at = 0.0
        self._trouble = ""
        self._calls: Calls | None = None
        self._forms = Forms()
        self._killing: OrderedDict[str, None] = OrderedDict()

    # What the driver tells.

    async def on_subscribed(self, framework_id: str, master: MasterAddress, master_id: str) -> None:
        """The id is stored before anything can be launched under it. Raises Unavailable."""
        if framework_id != self.framework_id:
            await self._store.hosts.write_framework_id(self._name, framework_id)
            self.framework_id = framework_id
        now = self._clock.monotonic()
        self.master, self._subscribed_at = master, now
        self._calls = Calls(framework_id)
        self._trouble = ""
        self.statuses.connected(self._calls)
        self.hosts.drop_offers()
        self.reconciler.subscribed(master_id, now, self.runs.unconfirmed())
        SUBSCRIBED.set(1)
        log.info("subscribed with the Mesos master at %s as %s", master, framework_id)

    async def on_framework_removed(self) -> None:
        log.error("Mesos has removed framework %s: subscribing as a new one", self.framework_id)
        self.framework_id = ""
        await self._store.hosts.write_framework_id(self._name, "")

    def on_events(self, events: list[Event]) -> None:
        updates = []
        for event in events:
            if event.type == Event.UPDATE:
                updates.append(event.update.status)
            elif event.type == Event.OFFERS:
                self._on_offers(event.offers.offers)
            elif event.type == Event.RESCIND:
                self.hosts.remove_offer(event.rescind.offer_id.value)
            elif event.type == Event.FAILURE:
                self._on_failure(event.failure)
        if updates:
            self.statuses.take(updates)

    def on_disconnected(self, why: str) -> None:
        self._calls, self._trouble = None, why
        self.statuses.disconnected()
        self.reconciler.disconnected()
        self.hosts.drop_offers()
        SUBSCRIBED.set(0)

    def on_refused(self, call: str, status: int, text: str) -> None:
        """A call was not even well formed for the master: what it should have done has not happened."""
        self.reconciler.overlooked(self._clock.monotonic())

    def _on_offers(self, offers: Sequence[mesos_pb2.Offer]) -> None:
        now = self._clock.monotonic()
        for wire in offers:
            offer = offer_from(wire, self._forms)
            known = self.hosts.table.row(offer.agent_id) is not None
            self.reconciler.agent_seen(offer.agent_id)
            self.hosts.add_offer(offer, () if known else labels_from(wire.attributes), now)
        OFFERS.inc(len(offers))

    def _on_failure(self, failure: scheduler_pb2.Event.Failure) -> None:
        """An agent is lost, or one of its executors ended, which the tasks' statuses tell."""
        if failure.HasField("executor_id") or not failure.HasField("agent_id"):
            return
        agent_id = failure.agent_id.value
        log.warning("agent %s is lost", agent_id)
        self.reconciler.agent_gone(agent_id)
        self.hosts.remove_agent(agent_id)

    # What the services ask.

    @property
    def unhealthy(self) -> str:
        """Why nothing can be launched or killed, with the driver's last error; empty while subscribed."""
        if self._calls is not None:
            return ""
        return "not subscribed with the Mesos master" + (f": {self._trouble}" if self._trouble else "")

    def calls(self) -> Calls:
        """Raises Unavailable while not subscribed."""
        if self._calls is None or not self.driver.ready:
            raise Unavailable("not subscribed with the Mesos master at the moment")
        return self._calls

    def acquire(self, want: HostFilter, owner: str) -> Acquired:
        """`owner` is the calling process, empty where it is no daemon."""
        return self.hosts.acquire(want, _uuids(), self._clock.monotonic(), owner)

    def expire_claims(self, alive: Container[str]) -> None:
        """`alive` are the processes, `<role>/<id>`, that may own claims."""
        self.hosts.bereave(alive, self._clock.monotonic())
        for claim in self.hosts.expire(self._clock.monotonic()):
            log.warning("claim %s of %s on %s is over, unused", claim.id, claim.owner, claim.hostname)

    def end_pauses(self) -> None:
        """Take hosts again that were passed over for long enough."""
        for agent_id in self.launches.expire(self._clock.monotonic()):
            log.info("agent %s takes launches again", agent_id)

    def prune_offers(self) -> None:
        """Give back what was kept for too long; what cannot be given back now waits for the next time."""
        old = self.hosts.old_offers(self._clock.monotonic())
        if not old or self._calls is None:
            return
        try:
            self.driver.send(self._calls.decline(old))
        except Unavailable as error:
            log.info("%d old offers are kept on: %s", len(old), error)
            return
        for offer_id in old:
            self.hosts.remove_offer(offer_id)

    def launch(self, request: hostsvc_pb2.LaunchTasksRequest) -> None:
        """Write one ACCEPT for the claimed host; the same launch again changes nothing.

        Raises InvalidOffers and InvalidArgument, and then the claim on this host is over; and Unavailable
        having done nothing.
        """
        try:
            try:
                self._launch(request)
            except (InvalidOffers, InvalidArgument):
                self._give_up(request.id.value, request.hostname)
                raise
        except Unavailable:
            runs = [task.taskId.value for task in request.tasks]
            self.reconciler.put_off(runs, self._clock.monotonic())
            raise

    def _launch(self, request: hostsvc_pb2.LaunchTasksRequest) -> None:
        calls = self.calls()
        needs = [need(task) for task in request.tasks]
        _check_distinct(needs)
        plan = self.hosts.plan_launch(request.id.value, request.hostname, request.agentId.value, needs)
        if plan is None:
            return
        late = [each.task_id for each in needs if self.runs.given_up(each.task_id)]
        if late:
            raise InvalidOffers(f"reported as lost before its launch came: {', '.join(late)}")
        agent_id = plan.claim.agent_id
        infos = [
            task_info(task, agent_id, map(self._forms.resource, taken))
            for task, taken in zip(request.tasks, plan.taken, strict=True)
        ]
        self.driver.send(calls.accept([offer.id for offer in plan.offers], infos, REFUSE_SECONDS))
        self.hosts.commit_launch(plan)
        for each in needs:
            self.runs.launched(each.task_id, agent_id)
            self.launches.begin(each.task_id, agent_id)
        LAUNCHED.inc(len(infos))

    def kill(self, runs: Iterable[str]) -> None:
        """Raises Unavailable while not subscribed."""
        calls = self.calls()
        killed = list(runs)
        self.driver.send(*(calls.kill(run, self.runs.agent(run)) for run in killed))
        self._killing.update(dict.fromkeys(killed))
        while len(self._killing) > MOST_KILLING:
            self._killing.popitem(last=False)

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """(executor id, agent id) each. Raises Unavailable while not subscribed."""
        calls = self.calls()
        self.driver.send(*(calls.shutdown(*executor) for executor in executors))

    def ask(self, runs: Sequence[tuple[str, str]]) -> None:
        """Explicit reconciliation of (run, agent id or empty). Raises Unavailable while not subscribed."""
        known = [(run, agent_id or self.runs.agent(run)) for run, agent_id in runs]
        self.driver.send(self.calls().reconcile(known))
        for run, agent_id in known:
            if agent_id:
                self.runs.put(run, agent_id)

    async def repeat_kills(self) -> None:
        """After a new subscription: kills of before may have been lost with the connection. Raises
        Unavailable while not subscribed."""
        for run in [run for run in self._killing if not self.runs.agent(run)]:
            del self._killing[run]
        due = list(self._killing)
        for start in range(0, len(due), CALLS_AT_ONCE):
            part = due[start : start + CALLS_AT_ONCE]
            known = [(run, agent) for run in part if (agent := self.runs.agent(run))]
            self.driver.send(*(self.calls().kill(run, agent) for run, agent in known))
            await self.room()

    async def room(self) -> None:
        """Wait until Mesos has taken enough calls. What was written as the connection went is reconciled."""
        try:
            await self.driver.drain()
        except Unavailable as error:
            log.info("calls may be lost: %s", error)

    def known_master(self) -> MasterAddress:
        """Raises Unavailable before the first subscription."""
        if self.master is None:
            raise Unavailable("no Mesos master is known yet")
        return self.master

    def _give_up(self, claim_id: str, hostname: str) -> None:
        """After a refused launch the host is free again, unless its offers are just coming back."""
        claim = self.hosts.claim(claim_id)
        if claim is None or claim.hostname != hostname:
            return
        since = self._clock.monotonic() - self._subscribed_at
        if since < self._claim_grace and not self.hosts.offers_of(claim.agent_id):
            raise Unavailable(
                f"{hostname} has not been offered again since Mesos came back {since:.0f} s ago"
            )
        self.hosts.release(claim_id)


def _check_distinct(needs: Sequence[Need]) -> None:
    """Of two tasks with one id Mesos would refuse the second in the name of the first, which lives."""
    seen: set[str] = set()
    for each in needs:
        if each.task_id in seen:
            raise InvalidArgument("tasks", each.task_id, "a run that is given once")
        seen.add(each.task_id)


def _uuids() -> Iterator[str]:
    while True:
        yield str(uuid.uuid4())
