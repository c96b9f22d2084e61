"""A term under any sequence of events, requests and ticks: its parts keep their invariants and agree."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.claims.holds import HoldRequest
from hostmgr.core.cluster_manager.events import (
    Address,
    AgentLost,
    OfferRescinded,
    OffersMade,
    Registration,
    StatusUpdate,
)
from hostmgr.core.hosts.all_hosts import HostLimits
from hostmgr.core.runs.launches import LaunchLimits
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import Need
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term, TermLimits
from peloton.errors import Unavailable
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus
from tests.property.hostmgr import invariants
from tests.unit.hostmgr.hosts import agent, offer

HOSTS, RUNS = st.integers(0, 3), st.integers(0, 5)
STATES = st.sampled_from(
    [TaskState.STARTING, TaskState.RUNNING, TaskState.FAILED, TaskState.KILLED, TaskState.LOST]
)
REASONS = st.sampled_from(["", "CONTAINER_LAUNCH_FAILED"])
GRACE = 5.0


def name(number: int) -> str:
    return f"job-{number}-1"


class TermMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        policy = TermLimits(HostLimits(held_share=0.5), LaunchLimits(failures=2), claim_grace=GRACE)
        self.term = Term(HostTable(room=1), policy)
        self.now, self.made = 0.0, 0
        self.subscribe()

    def subscribe(self) -> None:
        registration = Registration("f1", Address("m", 5050), f"m{self.fresh() % 2}")
        instruction = self.term.connecting(registration)
        if instruction is not None:
            self.term.framework_stored(instruction.framework_id)
        self.term.connected(registration, self.now)

    def fresh(self) -> int:
        self.made += 1
        return self.made

    @rule(host=HOSTS, cpu=st.integers(1, 4))
    def offered(self, host: int, cpu: int) -> None:
        self.term.on_events([OffersMade([offer(self.fresh(), host, cpu=cpu)])], self.now)

    @rule(data=st.data())
    def rescinded(self, data: st.DataObject) -> None:
        if len(self.term.hosts.offers):
            offer_id = data.draw(st.sampled_from(sorted(each.id for each in self.term.hosts.offers)))
            self.term.on_events([OfferRescinded(offer_id)], self.now)

    @rule(host=HOSTS)
    def agent_lost(self, host: int) -> None:
        self.term.on_events([AgentLost(f"S{host}")], self.now)
        assert f"S{host}" in self.term.reconciler.gone()

    @rule(listed=st.sets(HOSTS), complete=st.booleans())
    def listed(self, listed: set[int], complete: bool) -> None:
        self.term.hosts.set_agents([agent(host) for host in sorted(listed)], complete)

    @rule()
    def reconnected(self) -> None:
        self.term.disconnected("gone")
        assert not len(self.term.hosts.offers)
        self.subscribe()

    @rule(runs=st.lists(RUNS, min_size=1, max_size=3, unique=True), backfill=st.booleans())
    def launched(self, runs: list[int], backfill: bool) -> None:
        ids = iter([f"c{self.fresh()}"])
        wanted, longest = HostFilter(max_hosts=1), 10.0 if backfill else None
        for claim in self.term.acquire(wanted, ids, self.now, "placement/1", longest).claims:
            needs = [Need(name(run), Resources.of(1, 10)) for run in runs]
            try:
                plan = self.term.launching.plan(claim.id, claim.hostname, claim.agent_id, needs)
            except InvalidOffers:
                self.refused(claim.id, claim.hostname)
                continue
            assert plan is not None
            self.term.launching.launched(plan, needs)
            assert not self.term.hosts.offers.of(claim.agent_id)
            assert {self.term.runs.agent(name(run)) for run in runs} == {claim.agent_id}

    def refused(self, claim_id: str, hostname: str) -> None:
        try:
            self.term.launching.refused(claim_id, hostname, self.now)
        except Unavailable:
            assert self.now - self.term.connection.since < GRACE
            assert self.term.hosts.claims.get(claim_id) is not None
        else:
            assert self.term.hosts.claims.get(claim_id) is None

    @rule(run=RUNS, state=STATES, reason=REASONS, host=HOSTS, missing=st.booleans(), named=st.booleans())
    def status(self, run: int, state: TaskState, reason: str, host: int, missing: bool, named: bool) -> None:
        agent_id = f"S{host}" if named else ""
        update = StatusUpdate(
            TaskStatus(name(run), state, 0, agent_id=agent_id, reason=reason),
            False,
            missing and state.terminal,
            None,
        )
        handling = self.term.statuses.judge([update], self.now)
        assert len(handling.publish) + handling.requested_again == 1
        if handling.publish and state.terminal:
            assert not self.term.runs.agent(name(run)), "it has ended"

    @rule(run=RUNS, host=HOSTS)
    def killed_and_held(self, run: int, host: int) -> None:
        holds = self.term.hosts.holds
        before = set(holds.hosts)
        kill = self.term.kills.plan([name(run)])
        self.term.kills.sent(kill)
        request = HoldRequest(f"job-{run}", f"host{host}")
        made = self.term.kills.hold({name(run): request}, self.now)
        assert made.held + made.refused == 1
        if not before.issuperset(holds.hosts):
            assert len(holds.hosts) <= self.term.hosts.most_held, "no more hosts than may be held"

    @rule()
    def kills_repeated(self) -> None:
        for kill in self.term.kills.to_repeat():
            assert all(agent_id and self.term.runs.agent(run) == agent_id for run, agent_id in kill.runs)

    @rule(seconds=st.integers(0, 400), alive=st.booleans())
    def time_passes(self, seconds: int, alive: bool) -> None:
        self.now += seconds
        over = self.term.expire({"placement/1"} if alive else (), self.now)
        assert all(claim.until <= self.now for claim in over.claims)
        assert all(hold.until <= self.now for hold in over.holds)

    @invariant()
    def all_parts_keep_their_invariants(self) -> None:
        invariants.check_term(self.term)


TestTerm = TermMachine.TestCase
TestTerm.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
