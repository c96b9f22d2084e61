"""Claims, launches, and offers that come and go."""

from __future__ import annotations

import pytest

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.claims.lifecycle import ClaimLimits
from hostmgr.core.hosts.all_hosts import HostLimits, Hosts
from hostmgr.core.state.host_filter import HostFilter, Ranking, Result
from hostmgr.core.state.states import ClaimState
from hostmgr.core.state.table import HostTable
from peloton.model.resources import Resources
from tests.unit.hostmgr.hosts import agent, cluster, ids, need, offer

ONE_CPU = HostFilter(Resources.of(1))


def test_a_claim_excludes_others_until_it_is_released() -> None:
    hosts = cluster(1)
    (claim,) = hosts.claims.acquire(ONE_CPU, ids(), 0.0).claims
    again = hosts.claims.acquire(ONE_CPU, ids("d"), 0.0)
    assert again.claims == () and again.counts == {Result.MISMATCH_STATUS: 1}
    assert hosts.claims.release(claim.id)
    assert len(hosts.claims.acquire(ONE_CPU, ids("e"), 0.0).claims) == 1
    assert not hosts.claims.release(claim.id), "the earlier claim has ended"


def test_a_claim_ends_after_its_time() -> None:
    hosts = cluster(2)
    hosts.claims.acquire(HostFilter(max_hosts=1), ids(), 0.0, "placement/a")
    hosts.claims.acquire(HostFilter(max_hosts=1), ids("d"), 100.0, "placement/a")
    assert hosts.claims.expire(299.9) == []
    assert [claim.id for claim in hosts.claims.expire(300.0)] == ["c0"]
    assert [claim.id for claim in hosts.claims.expire(400.0)] == ["d0"]


def test_claims_of_an_absent_process_end_soon() -> None:
    hosts = cluster(3)
    for name in ("placement/a", "placement/b", ""):
        hosts.claims.acquire(HostFilter(max_hosts=1), ids(name), 0.0, name)
    hosts.claims.shorten_orphaned({"placement/b"}, 10.0)
    hosts.claims.shorten_orphaned({"placement/b"}, 20.0)
    assert hosts.claims.expire(24.9) == []
    assert [claim.owner for claim in hosts.claims.expire(25.0)] == ["placement/a"]


def test_claims_from_before_a_leader_of_resmgr_end_soon_unless_they_are_used() -> None:
    hosts, names = cluster(4), ids()
    for owner, now in (("placement/a", 0.0), ("placement/a", 1.0), ("", 1.0), ("placement/a", 2.0)):
        hosts.claims.acquire(HostFilter(max_hosts=1), names, now, owner)
    assert hosts.claims.shorten_older(since=2.0, now=10.0) == 2
    assert hosts.claims.shorten_older(since=2.0, now=11.0) == 0
    plan = hosts.uses.plan_launch("c0", "host0", "S0", [need("a")])
    assert plan is not None
    hosts.uses.commit_launch(plan)
    assert hosts.claims.expire(24.9) == []
    assert [claim.id for claim in hosts.claims.expire(25.0)] == ["c1"]
    assert [claim.id for claim in hosts.claims.expire(302.0)] == ["c2", "c3"]


def test_claims_of_callers_that_are_no_daemon_end_soon() -> None:
    hosts, names = cluster(3), ids()
    hosts.claims.acquire(HostFilter(max_hosts=2), names, 0.0)
    hosts.claims.acquire(HostFilter(max_hosts=1), names, 0.0, "placement/a")
    assert hosts.claims.expire(29.9) == []
    assert [claim.owner for claim in hosts.claims.expire(30.0)] == ["", ""]
    assert len(hosts.claims.acquire(HostFilter(), names, 30.0, "placement/b").claims) == 2
    assert [claim.owner for claim in hosts.claims.expire(300.0)] == ["placement/a"]


def test_a_setting_below_theirs_holds_for_them_too() -> None:
    hosts = Hosts(HostTable(room=1), HostLimits(ClaimLimits(placing_seconds=5)))
    hosts.add_offer(offer(0, 0), 0.0)
    hosts.claims.acquire(HostFilter(), ids(), 0.0)
    assert len(hosts.claims.expire(5.0)) == 1


def test_max_hosts_and_counts() -> None:
    acquired = cluster(5).claims.acquire(HostFilter(Resources.of(1), max_hosts=2), ids(), 0.0)
    assert len(acquired.claims) == 2
    assert acquired.counts == {Result.MATCH: 2, Result.MISMATCH_MAX_HOST_LIMIT: 3}


def test_first_fit_rotates() -> None:
    hosts = cluster(3)
    first = [
        hosts.claims.acquire(HostFilter(max_hosts=1), iter([f"c{n}"]), 0.0).claims[0].hostname
        for n in range(3)
    ]
    assert sorted(first) == ["host0", "host1", "host2"]
    for n in range(3):
        hosts.claims.release(f"c{n}")
    assert hosts.claims.acquire(HostFilter(max_hosts=1), ids("d"), 0.0).claims[0].hostname == first[0]


def test_a_launch_uses_all_offers_of_the_host_up() -> None:
    hosts = cluster(1)
    hosts.add_offer(offer(7, 0, cpu=2), 0.0)
    (claim,) = hosts.claims.acquire(ONE_CPU, ids(), 0.0).claims
    plan = hosts.uses.plan_launch(claim.id, "host0", "S0", [need("a", cpu=5), need("b", cpu=1)])
    assert plan is not None and {each.id for each in plan.offers} == {"O0", "O7"}
    hosts.uses.commit_launch(plan)
    assert list(hosts.offers) == []
    assert hosts.claims.acquire(ONE_CPU, ids("d"), 0.0).counts == {Result.INSUFFICIENT_RESOURCES: 1}
    hosts.add_offer(offer(8, 0), 0.0)
    assert len(hosts.claims.acquire(ONE_CPU, ids("e"), 0.0).claims) == 1


def test_a_launch_that_is_repeated_changes_nothing_and_another_one_is_refused() -> None:
    hosts = cluster(1)
    (claim,) = hosts.claims.acquire(ONE_CPU, ids(), 0.0).claims
    plan = hosts.uses.plan_launch(claim.id, "host0", "S0", [need("a")])
    assert plan is not None
    hosts.uses.commit_launch(plan)
    hosts.add_offer(offer(8, 0), 0.0)
    assert hosts.uses.plan_launch(claim.id, "host0", "S0", [need("a")]) is None
    with pytest.raises(InvalidOffers, match="used for other tasks"):
        hosts.uses.plan_launch(claim.id, "host0", "S0", [need("b")])
    assert len(hosts.offers) == 1


@pytest.mark.parametrize(
    ("claim_id", "hostname", "agent_id"),
    [("nosuch", "host0", "S0"), ("", "host0", "S0"), ("c0", "host1", "S0"), ("c0", "host0", "S9")],
)
def test_a_foreign_claim_is_refused(claim_id: str, hostname: str, agent_id: str) -> None:
    hosts = cluster(1)
    hosts.claims.acquire(ONE_CPU, ids(), 0.0)
    with pytest.raises(InvalidOffers, match="invalid offers"):
        hosts.uses.plan_launch(claim_id, hostname, agent_id, [need("a")])


def test_too_much_for_the_offers_is_refused_with_the_numbers() -> None:
    hosts = cluster(1)
    hosts.claims.acquire(ONE_CPU, ids(), 0.0)
    with pytest.raises(InvalidOffers, match="b: needs 2 cores, and the host's offers have 1 core left"):
        hosts.uses.plan_launch("c0", "host0", "S0", [need("a", cpu=3), need("b", cpu=2)])


def test_rescinded_offers_leave_the_claim() -> None:
    hosts = cluster(1)
    hosts.claims.acquire(ONE_CPU, ids(), 0.0)
    assert hosts.offers.remove("O0") and not hosts.offers.remove("O0")
    with pytest.raises(InvalidOffers):
        hosts.uses.plan_launch("c0", "host0", "S0", [need("a")])


def test_dropped_offers_come_back_under_the_same_claim() -> None:
    hosts = cluster(1)
    hosts.claims.acquire(ONE_CPU, ids(), 0.0)
    hosts.offers.drop()
    assert hosts.table.free(0).normal == Resources()
    hosts.add_offer(offer(9, 0), 1.0)
    assert hosts.uses.plan_launch("c0", "host0", "S0", [need("a")]) is not None


def test_a_lost_agent_takes_its_offers_and_claim_along() -> None:
    hosts = cluster(2)
    hosts.claims.acquire(ONE_CPU, ids(), 0.0)
    hosts.remove_agent("S0")
    assert [each.agent_id for each in hosts.offers] == ["S1"]
    assert not hosts.claims.release("c0")
    hosts.add_offer(offer(5, 7), 0.0)
    assert hosts.table.hostnames[0] == "host7", "the row is used again"
    assert hosts.table.claim(0) is ClaimState.READY


def test_the_map_of_agents_adds_and_removes_hosts() -> None:
    hosts = Hosts(HostTable())
    hosts.set_agents([agent(0), agent(1)])
    assert hosts.agents.capacity.total == Resources.of(8, 2048, 2000)
    assert hosts.claims.acquire(ONE_CPU, ids(), 0.0).counts == {Result.NO_OFFER: 2}
    hosts.add_offer(offer(0, 0), 0.0)
    hosts.set_agents([agent(1)], complete=False)
    assert hosts.agents.capacity.total == Resources.of(8, 2048, 2000), "agents may still come back"
    hosts.set_agents([])
    assert len(hosts.table) == 1, "host0 has an offer"
    assert hosts.agents.capacity.total == Resources()


def test_offers_that_are_kept_too_long() -> None:
    hosts = cluster(2)
    hosts.claims.acquire(HostFilter(max_hosts=1), ids(), 0.0)
    assert hosts.offers.old(863_999.0, hosts.claims) == []
    assert hosts.offers.old(864_000.0, hosts.claims) == ["O1"], "the other one is claimed"


def test_defrag_takes_the_fullest_host_first() -> None:
    hosts = cluster(0)
    for host, cpu in enumerate((4, 1, 2)):
        hosts.add_offer(offer(host, host, cpu=cpu), 0.0)
    defrag = hosts.claims.acquire(HostFilter(ranking=Ranking.DEFRAG), ids(), 0.0)
    assert [claim.hostname for claim in defrag.claims] == ["host1", "host2", "host0"]


def test_preferred_hosts_come_first() -> None:
    acquired = cluster(4).claims.acquire(HostFilter(max_hosts=1, preferred=("host2", "nosuch")), ids(), 0.0)
    assert acquired.claims[0].hostname == "host2"
