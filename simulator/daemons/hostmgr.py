"""The host manager in the simulated world: interprets the core of one term.

The backend is the simulated cluster: calls to it cannot fail while the connection stands. What other daemons
ask for is answered by the methods `on_…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.claims.claim import Claim, InvalidOffers
from hostmgr.core.claims.holds import HoldRequest, beside
from hostmgr.core.cluster_manager.events import BackendEvent
from hostmgr.core.cluster_manager.reconciliation import ReconcileKind
from hostmgr.core.runs.stored import agent_of, of_cluster
from hostmgr.core.state.feasibility import GangShape, shortage
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import need_of
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term, TermLimits
from peloton.errors import Fenced, InvalidArgument, NotFound, Unavailable
from peloton.model.cluster import UNNAMED
from peloton.model.ids import MesosTaskId, TaskId, parse_mesos_task_id
from peloton.model.shortage import Shortage
from peloton.model.task import Launch
from simulator.daemons.hostmgr_answers import Capacity, Found, FreeHost, Reserved
from simulator.daemons.hostmgr_reservations import PLAN_SECONDS, SAME_SECONDS, Reservations
from simulator.daemons.hostmgr_stream import Follower, StatusStream, Take
from simulator.world.kernel import Life, Timer
from simulator.world.network import LATER, Caller, Reply
from simulator.world.universe import Universe

ROLE = "hostmgr"
EXPIRE_SECONDS = 1.0
UNUSED_SECONDS = 60.0
"""The same where nothing fails and nothing is reserved: then each claim is used or released."""
RECONCILE_SECONDS = 0.5
AGENTS_SECONDS = 10.0
CLIENTS = ("jobmgr", "resmgr")
EVENT_RING = 100_000
RETRY_SECONDS = 0.5


@dataclass(slots=True)
class HostmgrOptions:
    """Settings of the host manager that the simulation knows."""

    limits: TermLimits = field(default_factory=TermLimits)
    scarce_gpu: bool = True
    takeover: float = 3.0
    """Seconds after a change of leader in which no hosts are claimed."""


class Hostmgr:
    """One term of the host manager."""

    def __init__(self, universe: Universe, life: Life, term: int, options: HostmgrOptions) -> None:
        self.life = life
        self.term = term
        self._universe = universe
        self._kernel = universe.kernel
        self._cluster = universe.cluster
        self._options = options
        limits = options.limits
        table = HostTable(options.scarce_gpu, concurrent_launches=limits.launches.concurrent)
        self.core = Term(table, limits, universe.framework_id)
        self.sight = ClusterSight(self.core.hosts, self.core.reconciler)
        self.stream = StatusStream(universe, life, term, self.core, lambda: self._cluster.connected(self))
        # No generator expression: compiled, one without an end would be a list without an end.
        self._ids: Iterator[str] = map(f"claim-{term}-{{}}".format, count(1))
        self._reservations = Reservations(universe, life, self.core, self._ids, self._host)
        self._terms: dict[str, int] = {}
        """The newest term of each role that has called."""
        self._expiry: Timer | None = None
        self._expires_at = 0.0
        self.reconciles = True
        """Whether the states of runs are ever requested; False is a bug to plant."""

    # The life of a term.

    def start(self) -> None:
        """Begin to lead."""
        if self.term > 1:
            self.core.postpone_claims(self._kernel.now + self._options.takeover)
        self._connect()
        self._read_agents()
        if not self._universe.quiet:
            self._expire_later()
            self._kernel.after(RECONCILE_SECONDS, self.life, self._reconcile_again)

    def _reconcile_again(self) -> None:
        self._reconcile()
        self._kernel.after(RECONCILE_SECONDS, self.life, self._reconcile_again)

    def _connect(self) -> None:
        try:
            registration = self._cluster.subscribe(self)
        except Unavailable:
            self._kernel.after(RETRY_SECONDS, self.life, self._connect)
            return
        instruction = self.core.connecting(registration)
        if instruction is not None:
            self._universe.framework_id = instruction.framework_id
            self.core.framework_stored(instruction.framework_id)
        self.core.connected(registration, self._kernel.now)
        self.stream.acknowledgements.connected()

    def on_disconnected(self, reason: str) -> None:
        """Drop what is void without a connection; connect again while this instance leads."""
        self.core.disconnected(reason)
        self.stream.acknowledgements.disconnected()
        if self._universe.leads(self):
            self._kernel.after(RETRY_SECONDS, self.life, self._connect)

    def _require(self) -> None:
        self.core.connection.require(self._cluster.connected(self))

    def _read_agents(self) -> None:
        now = self._kernel.now
        was_settled = self.sight.is_settled(now)
        self.sight.take(self._cluster.listed(), True, frozenset(), now, was_settled, now)
        if not self._universe.quiet:
            self._kernel.after(AGENTS_SECONDS, self.life, self._read_agents)

    def on_events(self, events: Sequence[BackendEvent]) -> None:
        """Take what the cluster reports."""
        now = self._kernel.now
        statuses = self.core.on_events(events, now)
        self._hosts_changed()
        if not statuses:
            return
        handling = self.core.statuses.judge(statuses, now)
        for each in handling.publish:
            self.stream.publish(each)
        for acknowledgement in handling.skip:
            self.stream.acknowledge_later(acknowledgement)
        self.stream.answer()

    def _hosts_changed(self) -> None:
        """Note that reservations may be planned otherwise now."""
        self._reservations.changed()
        if len(self.core.reservations):
            self._expire_later()
        self._universe.more_room()

    def _expire_later(self, seconds: float = EXPIRE_SECONDS) -> None:
        when = self._kernel.now + seconds
        if self._expiry is not None:
            if self._expires_at <= when:
                return
            self._expiry.cancel()
        self._expires_at = when
        self._expiry = self._kernel.after(seconds, self.life, self._expire)

    @property
    def _expire_seconds(self) -> float:
        unused = self._universe.quiet and not len(self.core.reservations)
        return UNUSED_SECONDS if unused else EXPIRE_SECONDS

    def _expire(self) -> None:
        self._expiry = None
        self.core.expire(self._universe.present("placement"), self._kernel.now)
        if self._reservations.expire():
            self._universe.more_room()
        hosts = self.core.hosts
        if not self._universe.quiet or len(hosts.claims) or len(hosts.holds):
            self._expire_later(self._expire_seconds)
        elif len(self.core.reservations):
            self._expire_later(PLAN_SECONDS if self._reservations.unsettled else SAME_SECONDS)

    # Reconciliation.

    def _reconcile(self) -> None:
        if not self.core.connection.up:
            return
        core, now = self.core, self._kernel.now
        try:
            again = core.reconciler.due_retries(now)
            if again:
                self._request(again)
            kind = core.reconciler.next_reconciliation(now)
            if kind is ReconcileKind.EXPLICIT:
                self._explicit()
            elif kind is ReconcileKind.IMPLICIT:
                self._request([])
        except Unavailable:
            core.reconciler.reconcile_soon(now)

    def _explicit(self) -> None:
        self._require()
        for kill in self.core.kills.to_repeat():
            self._cluster.kill(kill.runs)
        due = []
        wall = self._kernel.wall(self.life)
        for job_id, job in self._universe.store.active_jobs().items():
            own = of_cluster(job.tasks, UNNAMED)
            due += self.core.reconciler.to_reconcile(job_id, own, self._kernel.now, wall)
        if due:
            self._request(due)

    def _request(self, runs: Sequence[tuple[MesosTaskId, str]]) -> None:
        self._require()
        if not self.reconciles:
            return
        request = self.core.request(runs)
        self._cluster.reconcile(request.runs)
        self.core.requested(request)

    # Requests: claims.

    def _check(self, caller: Caller) -> None:
        """Raise Fenced for a leader whose successor has called."""
        role = caller.instance.partition("/")[0]
        newest = self._terms.get(role, 0)
        if caller.term < newest:
            raise Fenced(f"term {caller.term} of {caller.instance} is over, the newest is {newest}")
        self._terms[role] = caller.term

    def on_acquire(self, caller: Caller, reply: Reply, want: HostFilter) -> Found:
        """Claim hosts."""
        self._check(caller)
        acquired = self.core.acquire(want, self._ids, self._kernel.now, caller.instance)
        self._expire_later(self._expire_seconds)
        hosts = tuple(self._host(claim, want.held_for) for claim in acquired.claims)
        return Found(hosts, {reason.value: count for reason, count in acquired.counts.items()})

    def _host(self, claim: Claim, held_for: Iterable[TaskId] = ()) -> FreeHost:
        hosts = self.core.hosts
        row = hosts.table.row(claim.agent_id)
        assert row is not None, claim
        free = hosts.table.free(row)
        if hosts.holds.is_held(claim.hostname):
            free = beside(free, hosts.holds.kept(claim.hostname, frozenset(held_for)))
        offers = hosts.offers.of(claim.agent_id)
        labels = offers[0].labels if offers else ()
        return FreeHost(claim, free.normal, labels, self.core.launches.room(claim.agent_id))

    def on_release(self, caller: Caller, reply: Reply, claim_ids: Sequence[str]) -> None:
        """End claims."""
        for each in claim_ids:
            self.core.hosts.claims.release(each)
        self._hosts_changed()

    def on_shortages(
        self, caller: Caller, reply: Reply, shapes: Sequence[GangShape]
    ) -> tuple[int, list[Shortage | None]]:
        """Return the version of the hosts, and for each gang why it does not fit on empty ones."""
        table = self.core.hosts.table
        return table.version, [shortage(table, shape) for shape in shapes]

    def on_shorten_claims(self, caller: Caller, reply: Reply, older_than: float) -> int:
        """Shorten the claims of daemons that are older than this."""
        now = self._kernel.now
        return self.core.hosts.claims.shorten_older(now - older_than, now)

    def on_capacity(self, caller: Caller, reply: Reply) -> Capacity:
        """Return what all agents have. Raises Unavailable before they are known."""
        if not self.sight.known:
            raise Unavailable("the agents are not known yet")
        hosts = self.core.hosts
        return Capacity(hosts.agents.capacity.total, hosts.table.capacity_by_class())

    # Requests: reservations.

    def on_reserve(
        self, caller: Caller, reply: Reply, wishes: Sequence[tuple[str, GangShape]]
    ) -> list[Reserved]:
        """Make or renew reservations."""
        self._check(caller)
        self._expire_later()
        return self._reservations.reserve(caller, wishes)

    def on_cancel_reservations(self, caller: Caller, reply: Reply, ids: Sequence[str]) -> None:
        """End reservations."""
        self._reservations.cancel(ids)
        self._hosts_changed()

    def on_backfill(self, caller: Caller, reply: Reply, run_id: MesosTaskId, want: HostFilter) -> Found:
        """Claim hosts, reserved ones among them, for a run that ends in time."""
        self._check(caller)
        return self._reservations.backfill(caller, run_id, want)

    # Requests: runs.

    def on_launch(
        self,
        caller: Caller,
        reply: Reply,
        claim_id: str,
        host: str,
        agent_id: str,
        launches: Sequence[Launch],
    ) -> None:
        """Launch on a claimed host. Raises InvalidOffers, InvalidArgument, Unavailable."""
        self._check(caller)
        needs = [need_of(each) for each in launches]
        launching, now = self.core.launching, self._kernel.now
        try:
            try:
                self._require()
                plan = launching.plan(claim_id, host, agent_id, needs)
                if plan is None:
                    return
                self._kernel.point(self.life, "before it launches")
                self._cluster.launch(plan, launches)
                self._kernel.point(self.life, "after it has launched")
                launching.launched(plan, needs)
            except (InvalidOffers, InvalidArgument):
                launching.refused(claim_id, host, now)
                raise
        except Unavailable:
            launching.postponed([each.task_id for each in needs], now)
            raise

    def on_kill(self, caller: Caller, reply: Reply, runs: Sequence[MesosTaskId]) -> None:
        """Kill runs, known here or not."""
        self._check(caller)
        self._locate(runs)
        self._require()
        kill = self.core.kills.plan(runs)
        self._kernel.point(self.life, "before it kills")
        self._cluster.kill(kill.runs)
        self.core.kills.sent(kill)

    def on_kill_and_hold(self, caller: Caller, reply: Reply, runs: Mapping[MesosTaskId, HoldRequest]) -> None:
        """Kill runs, and hold room of their hosts."""
        self.on_kill(caller, reply, list(runs))
        self.core.kills.hold(runs, self._kernel.now)

    def on_release_holds(self, caller: Caller, reply: Reply, instances: Sequence[TaskId]) -> None:
        """End what is held for instances."""
        self.core.hosts.holds.release(instances)
        self._hosts_changed()

    def on_shut_down(self, caller: Caller, reply: Reply, runs: Sequence[tuple[MesosTaskId, str]]) -> None:
        """Shut executors down."""
        self._check(caller)
        self._require()
        self._cluster.shut_down(runs)

    def on_draining(self, caller: Caller, reply: Reply, wait: float) -> Any:
        """Return the runs on hosts in maintenance; where there are none, look once more after `wait` s."""
        runs = self._draining_runs()
        if runs:
            return runs
        self._kernel.after(wait, self.life, lambda: reply(self._draining_runs()))
        return LATER

    def _draining_runs(self) -> list[MesosTaskId]:
        hosts = self._cluster.draining
        agents = [agent.id for agent in self._cluster.listed() if agent.hostname in hosts] if hosts else []
        return [run for agent in agents for run in sorted(self.core.runs.on(agent))]

    def on_reconcile(self, caller: Caller, reply: Reply, runs: Sequence[tuple[MesosTaskId, str]]) -> None:
        """Request the states of runs."""
        self._check(caller)
        self._request(runs)

    def _locate(self, runs: Sequence[MesosTaskId]) -> None:
        """Learn from the store on which agents runs are."""
        known = self.core.runs
        for text in runs:
            if known.agent(text) or known.has_ended(text):
                continue
            run = parse_mesos_task_id(text)
            try:
                runtime = self._universe.store.task(run.job_id, run.instance)
            except NotFound:
                continue
            if agent_id := agent_of(runtime, run.run, UNNAMED):
                known.put(text, agent_id)

    # Requests: the stream of statuses.

    def on_open_stream(self, caller: Caller, reply: Reply, client: str) -> tuple[str, int]:
        """Return the stream and the first offset for a client."""
        return self.stream.open(client)

    def on_follow(
        self, caller: Caller, reply: Reply, client: str, begin: int, gather: float, limit: int, take: Take
    ) -> Follower:
        """Hand events to a client in place of its pulls, where nothing fails."""
        return self.stream.follow(client, begin, gather, limit, take)

    def on_statuses(
        self,
        caller: Caller,
        reply: Reply,
        client: str,
        stream: str,
        begin: int,
        purge: int,
        limit: int,
        wait: float,
    ) -> Any:
        """Return events from `begin` on with their offsets, waiting for some."""
        return self.stream.pull(reply, client, stream, begin, purge, limit, wait)
