"""Which hosts match, and why the others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.capacity import within_quota
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.core.state.table import HostTable
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
    OrConstraint,
)
from peloton.model.host_class import HostClass
from peloton.model.resources import Resources, total
from tests.unit.hostmgr.hosts import agent, cluster, ids, offer

LABELS: tuple[tuple[Label, ...], ...] = (
    (("rack", "r1"), ("zone", "a")),
    (("rack", "r2"), ("zone", "a")),
    (("rack", "r2"), ("disk", "ssd"), ("disk", "nvme")),
    (("peloton/exclusive", "team"),),
)


def labelled() -> Hosts:
    hosts = Hosts(HostTable())
    for host, labels in enumerate(LABELS):
        hosts.set_agents([agent(host, labels)], complete=False)
        hosts.add_offer(offer(host, host), 0.0)
    return hosts


def on(key: str, value: str, condition: Condition = Condition.EQUAL, requirement: int = 1) -> Constraint:
    return LabelConstraint(Kind.HOST, condition, (key, value), requirement)


def names(hosts: Hosts, want: HostFilter) -> list[str]:
    return sorted(claim.hostname for claim in hosts.claims.acquire(want, ids(), 0.0).claims)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (None, ["host0", "host1", "host2"]),
        (on("rack", "r2"), ["host1", "host2"]),
        (on("rack", "r2", Condition.LESS_THAN), ["host0"]),
        (on("hostname", "host1"), ["host1"]),
        (on("hostname", "host1", Condition.LESS_THAN), ["host0", "host2"]),
        (on("disk", "ssd", Condition.GREATER_THAN, 0), ["host2"]),
        (on("nosuch", "x", Condition.EQUAL, 0), ["host0", "host1", "host2"]),
        (AndConstraint((on("rack", "r2"), on("zone", "a"))), ["host1"]),
        (OrConstraint((on("rack", "r1"), on("disk", "nvme"))), ["host0", "host2"]),
        (OrConstraint(()), []),
        (AndConstraint(()), ["host0", "host1", "host2"]),
        (on("peloton/exclusive", "team"), ["host3"]),
        (on("peloton/exclusive", "other", Condition.LESS_THAN), ["host0", "host1", "host2", "host3"]),
        (LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("a", "b"), 1), ["host0", "host1", "host2"]),
    ],
)
def test_label_constraints(constraint: Constraint | None, expected: list[str]) -> None:
    assert names(labelled(), HostFilter(constraint=constraint)) == expected


def test_reasons_are_counted_the_lasting_ones_first() -> None:
    hosts = labelled()
    hosts.set_agents([agent(7)], complete=False)
    hosts.add_offer(offer(8, 8, cpu=1), 0.0)
    hosts.set_agents([agent(8, cpu=4)], complete=False)
    want = HostFilter(Resources.of(3), constraint=on("rack", "r1", Condition.LESS_THAN))
    hosts.claims.acquire(HostFilter(constraint=on("hostname", "host1")), ids("x"), 0.0)
    acquired = hosts.claims.acquire(want, ids(), 0.0)
    assert acquired.counts == {
        Result.MISMATCH_CONSTRAINTS: 2,
        Result.MISMATCH_STATUS: 1,
        Result.NO_OFFER: 1,
        Result.INSUFFICIENT_OFFER_RESOURCES: 1,
        Result.MATCH: 1,
    }
    assert [claim.hostname for claim in acquired.claims] == ["host2"]


def test_what_no_host_could_ever_hold() -> None:
    assert cluster(2).claims.acquire(HostFilter(Resources.of(5)), ids(), 0.0).counts == {
        Result.INSUFFICIENT_RESOURCES: 2
    }


def test_gpu_hosts_take_gpu_tasks_only() -> None:
    hosts = Hosts(HostTable())
    hosts.set_agents([agent(0, gpu=2), agent(1)])
    hosts.add_offer(offer(0, 0, gpu=2), 0.0)
    hosts.add_offer(offer(1, 1), 0.0)
    plain = hosts.claims.acquire(HostFilter(Resources.of(1)), ids(), 0.0)
    assert [claim.hostname for claim in plain.claims] == ["host1"]
    assert plain.counts[Result.SCARCE_RESOURCES] == 1
    hosts.claims.release("c0")
    gpu = hosts.claims.acquire(HostFilter(Resources.of(1, gpu=1)), ids("g"), 0.0)
    assert [claim.hostname for claim in gpu.claims] == ["host0"]
    assert gpu.counts[Result.MISMATCH_GPU] == 1


def test_gpu_hosts_take_all_where_gpu_is_not_scarce() -> None:
    hosts = Hosts(HostTable(scarce_gpu=False))
    hosts.add_offer(offer(0, 0, gpu=2), 0.0)
    assert names(hosts, HostFilter(Resources.of(1))) == ["host0"]


def test_ports_and_revocable_cpu() -> None:
    hosts = Hosts(HostTable())
    hosts.add_offer(offer(0, 0, cpu=1, slack_cpu=3), 0.0)
    assert names(hosts, HostFilter(Resources.of(2))) == []
    assert names(hosts, HostFilter(Resources.of(1), ports=11)) == []
    assert names(hosts, HostFilter(Resources.of(2, 1024), revocable=True)) == ["host0"]
    hosts.claims.release("c0")
    assert names(hosts, HostFilter(Resources.of(2, 1025), revocable=True)) == []
    assert names(hosts, HostFilter(Resources.of(1), ports=10)) == ["host0"]


def test_capacity_is_told_by_what_the_hosts_take() -> None:
    hosts = Hosts(HostTable())
    exclusive = (("peloton/exclusive", "web"), ("rack", "r1"))
    hosts.set_agents(
        [
            agent(0, gpu=2),
            agent(1),
            replace(agent(2), labels=(("rack", "r2"),)),
            replace(agent(3), labels=exclusive, slack_cpu=500),
        ]
    )
    found = hosts.table.capacity_by_class()
    assert {of: (amounts.cpu, amounts.gpu, slack) for of, (amounts, slack) in found.items()} == {
        HostClass(): (8000, 0, 0),
        HostClass(gpu=True): (4000, 2000, 0),
        HostClass(exclusive="web"): (4000, 0, 500),
    }
    assert total(amounts for amounts, _ in found.values()) == hosts.agents.capacity.total
    halved = within_quota(found, {"cpu": 8000})
    assert [amounts.cpu for amounts, _ in halved.values()] == [
        amounts.cpu // 2 for amounts, _ in found.values()
    ]
    assert all(halved[of][0].memory == found[of][0].memory for of in found)


def test_hosts_are_one_class_where_gpu_is_not_scarce_and_pools_are_off() -> None:
    hosts = Hosts(HostTable(scarce_gpu=False))
    hosts.set_agents([agent(0, gpu=2), replace(agent(1), labels=(("host_pool", "mine"),))])
    assert hosts.table.capacity_by_class().keys() == {HostClass()}
