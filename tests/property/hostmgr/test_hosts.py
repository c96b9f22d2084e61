"""Hosts under any sequence of offers, claims, launches and losses: nothing is given out twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.claims.lifecycle import ClaimLimits
from hostmgr.core.hosts.all_hosts import HostLimits, Hosts
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import Need, free
from hostmgr.core.state.table import HostTable
from peloton.errors import Refused
from peloton.model.resources import Resources, total
from tests.property.hostmgr import invariants
from tests.unit.hostmgr.hosts import agent, offer

HOSTS = st.integers(0, 4)


class HostsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hosts = Hosts(HostTable(room=1), HostLimits(ClaimLimits(placing_seconds=10)))
        self.now = 0.0
        self.made = 0
        self.standing: dict[str, str] = {}
        """Offers that Mesos counts as ours, with their agents."""
        self.claims: dict[str, str] = {}
        self.reserved_for: dict[str, str] = {}

    def fresh(self) -> int:
        self.made += 1
        return self.made

    @rule(host=HOSTS, cpu=st.integers(1, 4), gpu=st.integers(0, 1))
    def offered(self, host: int, cpu: int, gpu: int) -> None:
        made = offer(self.fresh(), host, cpu=cpu, gpu=gpu)
        self.hosts.add_offer(made, self.now)
        self.standing[made.id] = made.agent_id

    @rule(data=st.data())
    def rescinded(self, data: st.DataObject) -> None:
        if self.standing:
            gone = data.draw(st.sampled_from(sorted(self.standing)))
            assert self.hosts.offers.remove(gone)
            del self.standing[gone]

    @rule()
    def disconnected(self) -> None:
        self.hosts.offers.drop()
        self.standing.clear()

    @rule(host=HOSTS)
    def agent_lost(self, host: int) -> None:
        self.hosts.remove_agent(f"S{host}")
        self.standing = {id: agent_id for id, agent_id in self.standing.items() if agent_id != f"S{host}"}
        self.claims = {id: agent_id for id, agent_id in self.claims.items() if agent_id != f"S{host}"}

    @rule(listed=st.sets(HOSTS), complete=st.booleans())
    def mapped(self, listed: set[int], complete: bool) -> None:
        before = {claim: agent_id for claim, agent_id in self.claims.items() if self.hosts.claims.get(claim)}
        self.hosts.set_agents([agent(host) for host in sorted(listed)], complete)
        self.claims = {claim: agent_id for claim, agent_id in before.items() if self.hosts.claims.get(claim)}
        for agent_id in set(before.values()) - set(self.claims.values()):
            assert complete and agent_id not in self.standing.values()

    @rule(cpu=st.integers(0, 5), most=st.integers(0, 3))
    def acquired(self, cpu: int, most: int) -> None:
        ids = iter([f"c{self.fresh()}" for _ in range(10)])
        acquired = self.hosts.claims.acquire(HostFilter(Resources.of(cpu), max_hosts=most), ids, self.now)
        for claim in acquired.claims:
            assert claim.agent_id not in self.claims.values(), "a host has one claim"
            assert claim.agent_id not in self.reserved_for
            assert not self.hosts.holds.is_held(claim.hostname)
            assert self.hosts.offers.of(claim.agent_id)
            assert Resources.of(cpu).fits(free(self.hosts.offers.of(claim.agent_id)).normal)
            self.claims[claim.id] = claim.agent_id
        assert not most or len(acquired.claims) <= most
        assert sum(acquired.counts.values()) == len(self.hosts.table)

    @rule(data=st.data())
    def released(self, data: st.DataObject) -> None:
        if self.claims:
            claim = data.draw(st.sampled_from(sorted(self.claims)))
            assert self.hosts.claims.release(claim)
            del self.claims[claim]

    @rule(data=st.data(), cpus=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def launched(self, data: st.DataObject, cpus: list[int]) -> None:
        if not self.claims:
            return
        claim_id = data.draw(st.sampled_from(sorted(self.claims)))
        agent_id = self.claims[claim_id]
        needs = [Need(f"t{self.fresh()}", Resources.of(cpu, 10)) for cpu in cpus]
        room = free(self.hosts.offers.of(agent_id)).normal
        fits = total(need.resources for need in needs).fits(room)
        try:
            plan = self.hosts.uses.plan_launch(claim_id, f"host{agent_id[1:]}", agent_id, needs)
        except InvalidOffers:
            assert not fits
            return
        assert fits and plan is not None
        for need, taken in zip(needs, plan.taken, strict=True):
            assert sum(part.amount for part in taken) == sum(need.resources.values())
        for given in plan.offers:
            assert self.standing.pop(given.id) == agent_id, "an offer is accepted once"
        self.hosts.uses.commit_launch(plan)
        del self.claims[claim_id]
        assert self.hosts.uses.plan_launch(claim_id, f"host{agent_id[1:]}", agent_id, needs) is None

    @rule(name=st.sampled_from(("r1", "r2")), hosts=st.sets(HOSTS, max_size=3))
    def reserved(self, name: str, hosts: set[int]) -> None:
        wanted = {f"S{host}" for host in hosts}
        if any(self.reserved_for.get(agent_id, name) != name for agent_id in wanted):
            with pytest.raises(Refused, match="is reserved for"):
                self.hosts.reserved.reserve(name, wanted)
            return
        self.hosts.reserved.reserve(name, wanted)
        others = {agent: other for agent, other in self.reserved_for.items() if other != name}
        self.reserved_for = {**others, **dict.fromkeys(wanted, name)}

    @rule(host=HOSTS, task=st.integers(0, 2))
    def held(self, host: int, task: int) -> None:
        self.hosts.holds.add(f"host{host}", f"task-{task}", self.now)

    @rule(task=st.integers(0, 2))
    def hold_released(self, task: int) -> None:
        self.hosts.holds.release([f"task-{task}"])

    @rule(seconds=st.integers(0, 12))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        for claim in self.hosts.claims.expire(self.now):
            assert claim.until <= self.now
            del self.claims[claim.id]

    @invariant()
    def offers_are_conserved(self) -> None:
        assert Counter(each.id for each in self.hosts.offers) == Counter(list(self.standing))

    @invariant()
    def claims_and_reservations_are_conserved(self) -> None:
        for row in self.hosts.table.rows():
            agent_id = self.hosts.table.agent_ids[row]
            assert (agent_id in self.hosts.claims) == (agent_id in self.claims.values())
            assert self.hosts.reserved.holder(agent_id) == self.reserved_for.get(agent_id, "")

    @invariant()
    def each_part_keeps_its_invariant(self) -> None:
        invariants.check(self.hosts)


TestHosts = HostsMachine.TestCase
TestHosts.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
