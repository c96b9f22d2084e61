"""What must hold of the core's state after every step: dear checks, over everything there is."""

from __future__ import annotations

from collections import Counter

from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.columns import columns_of
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offers import free
from hostmgr.core.state.states import ClaimState
from hostmgr.core.term import Term
from peloton.model.resources import Resources

_WANTS = [HostFilter(Resources.of(cpu=cpu, gpu=gpu)) for cpu in (1, 3, 5) for gpu in (0, 1)]


def check(hosts: Hosts) -> None:
    """Check all parts of the hosts, each by itself and with the others."""
    check_offers(hosts)
    check_claims(hosts)
    check_holds(hosts)
    check_states(hosts)
    check_matches(hosts)


def check_matches(hosts: Hosts) -> None:
    """What is kept of which hosts match is what the columns say."""
    for want in _WANTS:
        mask, counts, left = hosts.table._lasting(want)
        anew, counted, passing = hosts.table._lasting_anew(want)
        assert (mask == anew).all() and (counts, left) == (counted, passing), want


def check_offers(hosts: Hosts) -> None:
    """What is free of a host is the sum of its offers, and each offer is of one host of the table."""
    table = hosts.table
    by_agent = [offer.id for agent_id in hosts.offers.agents() for offer in hosts.offers.of(agent_id)]
    assert Counter(by_agent) == Counter(offer.id for offer in hosts.offers)
    assert all(table.row(offer.agent_id) is not None for offer in hosts.offers)
    for row in table.rows():
        assert table.free(row) == free(hosts.offers.of(table.agent_ids[row]))


def check_claims(hosts: Hosts) -> None:
    """A host has a claim exactly while it is PLACING, and one at most."""
    claimed = [id for row in hosts.table.rows() if (id := hosts.table.agent_ids[row]) in hosts.claims]
    assert len(claimed) == len(hosts.claims)
    for agent_id in claimed:
        claim = hosts.claims.on(agent_id)
        assert claim is not None and claim.agent_id == agent_id and hosts.claims.get(claim.id) is claim


def check_holds(hosts: Hosts) -> None:
    """What is kept of a host in the table is the sum of its holds."""
    table, holds = hosts.table, hosts.holds
    assert sum(len(holds.on(name)) for name in holds.hosts) == len(holds)
    ends = [hold.until for hold in holds]
    assert ends == sorted(ends), "the holds are in the order in which they end"
    for row in table.rows():
        assert tuple(table._kept[row].tolist()) == columns_of(holds.kept(table.hostnames[row]))


def check_states(hosts: Hosts) -> None:
    """A claimed host is PLACING; others are RESERVED, HELD or READY, in this order."""
    for row in hosts.table.rows():
        agent_id, hostname = hosts.table.agent_ids[row], hosts.table.hostnames[row]
        if agent_id in hosts.claims:
            expected = ClaimState.PLACING
        elif agent_id in hosts.reserved:
            expected = ClaimState.RESERVED
        else:
            expected = ClaimState.HELD if hosts.holds.is_held(hostname) else ClaimState.READY
        assert hosts.table.claim(row) is expected, (agent_id, expected)


def check_term(term: Term) -> None:
    """Check the hosts of a term, and what is known of its runs."""
    check(term.hosts)
    check_runs(term)


def check_runs(term: Term) -> None:
    """The two indexes of runs agree, and what is starting on a host is counted in the table."""
    runs, launches = term.runs, term.launches
    of_agents = {run: agent_id for agent_id, on in runs._on.items() for run in on}
    assert of_agents == runs._agent and all(runs._on.values())
    assert {run for run, _ in runs.unconfirmed()} <= set(runs._agent)
    assert set(runs._info) <= set(runs._agent)
    starting = Counter(launches._agent.values())
    for row in term.hosts.table.rows():
        agent_id = term.hosts.table.agent_ids[row]
        assert term.hosts.table.starting(agent_id) == starting[agent_id]
    assert all(hold.run == "" or hold.run.rpartition("-")[0] for hold in term.hosts.holds)
