"""What does not fit on empty hosts, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.feasibility import GangShape, Members, gains, shortage
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.table import HostTable
from hostmgr.services.feasibility import Feasibility
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    LabelConstraint,
    OrConstraint,
)
from peloton.model.fixed_ports import port_labels, with_ports
from peloton.model.resources import KINDS, Resources
from peloton.model.shortage import PORTS, REVOCABLE_CPU, Lack, Shortage
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from tests.unit.hostmgr.hosts import agent, cluster, ids, offer

RACK = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)


def three_hosts() -> HostTable:
    """Of 4 cpus, 1024 MB; one of them in rack r1 and one of 8 cpus."""
    hosts = Hosts(HostTable())
    hosts.set_agents([agent(0, [("rack", "r1")]), agent(1), agent(2, cpu=8)])
    return hosts.table


def needing(cpu: float = 1, memory: float = 1, **more: Any) -> HostFilter:
    return HostFilter(Resources.of(cpu, memory), **more)


def gang(*members: tuple[HostFilter, int], spread: bool = False) -> GangShape:
    return GangShape(tuple(Members(want, count) for want, count in members), spread)


def test_one_task_on_one_host() -> None:
    table = three_hosts()
    assert shortage(table, gang((needing(8), 1))) is None
    lacking = shortage(table, gang((needing(9), 1)))
    assert lacking == Shortage(Lack.RESOURCE, "cpu", 9000, 8000, 3)
    assert str(lacking) == "needs 9 cores on one host; the largest of 3 hosts has 8 cores"
    lacking = shortage(table, gang((needing(5, constraint=RACK), 1)))
    assert lacking == Shortage(Lack.RESOURCE, "cpu", 5000, 4000, 1), "of those that match"
    assert str(lacking) == "needs 5 cores on one host; the largest of 1 host has 4 cores"


def test_dynamic_ports() -> None:
    table = HostTable()
    for number, ports in enumerate((2, 5)):
        table.put(replace(agent(number), ports=((31000, 30999 + ports),)))
    assert shortage(table, gang((needing(ports=5), 1))) is None
    lacking = shortage(table, gang((needing(ports=6), 1)))
    assert str(lacking) == "needs 6 ports on one host; the largest of 2 hosts has 5 ports"
    lacking = shortage(table, gang((needing(ports=2), 4)))
    assert str(lacking) == "needs room for 4 tasks at a time; 2 hosts have room for 3 when empty"
    table.put(replace(agent(2), ports=None))
    assert shortage(table, gang((needing(ports=6), 1))) is None, "it is not known to be too small"


def test_dynamic_ports_beside_fixed_ones() -> None:
    table = HostTable()
    for number, ranges in enumerate((((31000, 31001), (31005, 31005)), ((8000, 8001),))):
        table.put(replace(agent(number), ports=ranges))
    fixed = with_ports(None, [31000])

    def needing_ports(ports: int) -> GangShape:
        return GangShape((Members(needing(ports=ports, constraint=fixed), 1, port_labels([31000])),))

    assert shortage(table, needing_ports(2)) is None
    lacking = shortage(table, needing_ports(3))
    assert lacking is not None and (lacking.kind, lacking.needed) == (PORTS, 3000)
    assert lacking.explained == (
        "needs 3 dynamic ports beside its fixed port 31000 on one host; "
        "the largest of 1 host has 2 beside it; waits for a host with at least 3 ports"
    )
    since = table.version
    table.put(replace(agent(2), ports=((31000, 31003),)))
    assert gains(table, since).amount(PORTS) == 4000
    assert shortage(table, needing_ports(3)) is None
    other = GangShape((Members(needing(constraint=with_ports(None, [80])), 1, port_labels([80])),))
    assert shortage(table, other) is None, (
        "a fixed port is no resource: it need not be among those of the host"
    )


WEB = ("app", "web")


def beside(limit: int, *others: Constraint) -> Constraint:
    return AndConstraint((LabelConstraint(Kind.TASK, Condition.LESS_THAN, WEB, limit), *others))


def apart(count: int, constraint: Constraint, **more: Any) -> GangShape:
    return GangShape((Members(needing(constraint=constraint, **more), count, (WEB,)),))


def test_a_gang_that_keeps_apart_needs_as_many_hosts() -> None:
    table = three_hosts()
    assert shortage(table, apart(3, beside(1))) is None
    lacking = shortage(table, apart(4, beside(1)))
    assert lacking is not None and (lacking.lack, lacking.needed, lacking.largest) == (Lack.ROOM, 4000, 3000)
    assert lacking.explained == (
        "needs room for 4 tasks at a time, of which its constraint allows 1 on a host; "
        "3 hosts have room for 3 when empty; waits for more hosts that take such a task"
    )
    assert shortage(table, gang((needing(constraint=beside(1)), 4))) is None, "tasks without the label"
    assert shortage(table, apart(6, beside(2))) is None
    assert "allows 2 on a host" in str(shortage(table, apart(7, beside(2))))
    exactly = LabelConstraint(Kind.TASK, Condition.EQUAL, WEB, 0)
    assert shortage(table, apart(4, exactly)) is not None
    either = OrConstraint((beside(1), AndConstraint((RACK, beside(3)))))
    assert shortage(table, apart(5, either)) is None, "3 in the rack, and 1 on each other host"
    lacking = shortage(table, apart(6, either))
    assert lacking is not None and lacking.largest == 5000
    lacking = shortage(table, apart(8, beside(2), cpu=4))
    assert str(lacking) == "needs room for 8 tasks at a time; 3 hosts have room for 4 when empty"
    since = table.version
    table.put(agent(3))
    assert gains(table, since).hosts == 1
    assert shortage(table, apart(4, beside(1))) is None, "a host more helps"


def test_a_gang_with_a_fixed_port_needs_as_many_hosts() -> None:
    table, constraint = three_hosts(), with_ports(None, [8080])
    lacking = shortage(table, GangShape((Members(needing(constraint=constraint), 4, port_labels([8080])),)))
    assert str(lacking) == (
        "needs room for 4 tasks at a time, of which its fixed port 8080 allows 1 on a host; "
        "3 hosts have room for 3 when empty"
    )
    unlike = tuple(
        Members(needing(cpu, constraint=constraint), count, port_labels([8080]))
        for cpu, count in ((1, 1), (2, 2))
    )
    assert shortage(table, GangShape(unlike)) is None
    lacking = shortage(
        table, GangShape((*unlike, Members(needing(3, constraint=constraint), 1, port_labels([8080]))))
    )
    assert lacking is not None and (lacking.lack, lacking.needed, lacking.largest) == (Lack.ROOM, 4000, 3000)


def test_what_is_in_use_does_not_count() -> None:
    hosts = cluster(1, cpu=1)
    assert shortage(hosts.table, gang((needing(4), 1))) == Shortage(Lack.RESOURCE, "cpu", 4000, 1000, 1)
    hosts.set_agents([agent(0)])
    assert shortage(hosts.table, gang((needing(4), 1))) is None
    hosts.claims.acquire(needing(1), ids(), 0.0)
    assert shortage(hosts.table, gang((needing(4), 1))) is None


def test_constraints_gpus_and_no_hosts() -> None:
    table = three_hosts()
    nowhere = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r9"), 1)
    lacking = shortage(table, gang((needing(constraint=nowhere), 1)))
    assert lacking is not None and (lacking.lack, lacking.label) == (Lack.CONSTRAINT, "rack=r9")
    assert lacking.explained == (
        "no host has rack=r9: rack is r1 on 1, 2 hosts without rack; waits for a host with rack=r9"
    )
    gpu = HostFilter(Resources.of(1, gpu=1))
    assert shortage(table, gang((gpu, 1))) == Shortage(Lack.RESOURCE, "gpu", 1000, 0, 3)
    only_gpus = Hosts(HostTable())
    only_gpus.set_agents([agent(0, gpu=4)])
    assert shortage(only_gpus.table, gang((needing(), 1))) == Shortage(Lack.PLAIN_HOST, hosts=1)
    assert shortage(only_gpus.table, gang((gpu, 1))) is None
    assert shortage(HostTable(), gang((needing(), 1))) == Shortage(Lack.HOSTS)
    revocable = shortage(table, gang((needing(revocable=True), 1)))
    assert revocable == Shortage(Lack.RESOURCE, "revocable cpu", 1000, 0, 3)


def test_each_kind_on_another_host() -> None:
    hosts = Hosts(HostTable())
    for number, (cpu, memory) in enumerate(((8, 512), (1, 4096))):
        hosts.add_offer(offer(number, number, cpu=cpu, memory=memory), 0.0)
    assert shortage(hosts.table, gang((needing(8, 4096), 1))) == Shortage(Lack.COMBINATION, hosts=2)


def test_gangs() -> None:
    table = three_hosts()
    assert shortage(table, gang((needing(3), 4))) is None, "1, 1 and 2"
    lacking = shortage(table, gang((needing(3), 5)))
    assert lacking == Shortage(Lack.ROOM, "", 5000, 4000, 3)
    assert str(lacking) == "needs room for 5 tasks at a time; 3 hosts have room for 4 when empty"
    assert shortage(table, gang((needing(1), 3), spread=True)) is None
    assert shortage(table, gang((needing(1), 4), spread=True)) == Shortage(Lack.ROOM, "", 4000, 3000, 3)
    assert shortage(table, gang((needing(4), 3), (needing(2), 2))) is None
    lacking = shortage(table, gang((needing(4), 3), (needing(2), 3)))
    assert lacking == Shortage(Lack.CAPACITY, "cpu", 18_000, 16_000, 3)
    lacking = shortage(table, gang((needing(1), 2), (needing(2), 2), spread=True))
    assert lacking == Shortage(Lack.ROOM, "", 4000, 3000, 3)
    assert shortage(table, gang((needing(0, 0), 10**6))) is None


def test_the_version_grows_when_hosts_change_and_not_when_they_are_used() -> None:
    hosts = Hosts(HostTable())
    hosts.set_agents([agent(0)])
    version = hosts.table.version
    hosts.set_agents([agent(0)])
    hosts.add_offer(offer(0, 0), 0.0)
    hosts.claims.acquire(needing(1), ids(), 0.0)
    assert hosts.table.version == version
    hosts.set_agents([agent(0), agent(1)])
    assert hosts.table.version > version, "one came"
    version = hosts.table.version
    hosts.set_agents([agent(0, cpu=5), agent(1)])
    assert hosts.table.version > version, "one grew"
    version = hosts.table.version
    hosts.remove_agent("S1")
    assert hosts.table.version > version, "one went"
    version = hosts.table.version
    hosts.add_offer(offer(1, 0, cpu=2), 0.0)
    assert hosts.table.version > version, "its offers hold more than was known of it"


class _Cluster:
    known = True
    unhealthy = "the master's map of agents has not been read yet"


def service(table: HostTable, known: bool = True) -> Feasibility:
    seen: Any = _Cluster()
    seen.known = known
    view: ClusterSight = seen
    return Feasibility(table, view, lambda want, offset, most: ((), {}))


def request(*cpus: float) -> pb.CheckGangsRequest:
    made = pb.CheckGangsRequest()
    for cpu in cpus:
        made.gangs.add().members.add(count=1).filter.resourceConstraint.minimum.cpuLimit = cpu
    return made


async def test_the_service_answers_for_each_gang() -> None:
    answer = await service(three_hosts()).CheckGangs(request(9, 1), None)
    first, second = answer.verdicts
    assert (first.shortage.lack, first.shortage.kind) == (pb.Shortage.LACK_RESOURCE, "cpu")
    assert (first.shortage.needed, first.shortage.largest, first.shortage.hosts) == (9, 8, 3)
    assert first.shortage.text == (
        "needs 9 cores on one host; the largest of 3 hosts has 8 cores; "
        "waits for a host with at least 9 cores"
    )
    assert not second.HasField("shortage")


async def test_the_service_tells_what_changed_hosts_offer() -> None:
    table = three_hosts()
    feasibility = service(table)
    first = await feasibility.GetHostGains(pb.GetHostGainsRequest(), None)
    assert first.unknown_version, "any gang may fit on hosts that were not seen before"
    since = pb.GetHostGainsRequest(hosts_version=first.hosts_version)
    same = await feasibility.GetHostGains(since, None)
    assert same == pb.GetHostGainsResponse(
        hosts_version=first.hosts_version, largest=dict.fromkeys((*KINDS, REVOCABLE_CPU, PORTS), 0.0)
    )
    table.put(agent(3, [("rack", "r2")], cpu=16))
    grown = await feasibility.GetHostGains(since, None)
    assert (grown.hosts, grown.largest["cpu"], grown.plain, grown.relabelled) == (1, 16, True, 1)
    assert list(grown.labels) == ["hostname=host3", "rack=r2"]
    table.put(agent(3, [("rack", "r2")], cpu=15))
    since.hosts_version = grown.hosts_version
    shrunk = await feasibility.GetHostGains(since, None)
    assert (shrunk.hosts, shrunk.largest["cpu"], shrunk.relabelled, list(shrunk.labels)) == (1, 15, 0, [])
    table.remove("S3")
    since.hosts_version = shrunk.hosts_version
    gone = await feasibility.GetHostGains(since, None)
    assert gone.hosts == 0 and gone.hosts_version != shrunk.hosts_version
    other = await service(table).GetHostGains(since, None)
    assert other.unknown_version, "versions are of one process"


def label(key: str, value: str, condition: Condition = Condition.EQUAL, count: int = 1) -> LabelConstraint:
    return LabelConstraint(Kind.HOST, condition, (key, value), count)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (label("hostname", "host9"), "no host is named host9: 3 hosts compared"),
        (label("host_pool", "shared"), "no host is in host pool shared: 3 hosts without host_pool"),
        (
            AndConstraint((RACK, label("hostname", "host1"))),
            "no host of 3 meets all of its constraint: host rack=r1 = 1 on 1, host hostname=host1 = 1 on 1",
        ),
        (label("rack", "r1", count=2), "no host of 3 meets host rack=r1 = 2"),
        (
            OrConstraint((label("rack", "r8"), label("rack", "r9"))),
            "no host of 3 meets (host rack=r8 = 1 or host rack=r9 = 1)",
        ),
        (
            AndConstraint((label("zone", "a", Condition.LESS_THAN), label("zone", "a"))),
            "its constraint contradicts itself: no host can have host zone=a = 1 and host zone=a < 1",
        ),
        (
            LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("app", "web"), 0),
            "its constraint contradicts itself: no host can have task app=web < 0",
        ),
    ],
)
def test_what_a_constraint_lacks(constraint: Constraint, text: str) -> None:
    lacking = shortage(three_hosts(), gang((needing(constraint=constraint), 1)))
    assert lacking is not None and str(lacking) == text


def test_hosts_that_are_exclusive_or_excluded() -> None:
    hosts = Hosts(HostTable())
    hosts.set_agents([agent(0, [("peloton/exclusive", "ml")]), agent(1, [("peloton/exclusive", "ml")])])
    lacking = shortage(hosts.table, gang((needing(), 1)))
    assert lacking is not None and str(lacking) == (
        "2 hosts would do, but only for tasks with a host constraint on peloton/exclusive"
    )
    barred = label("peloton/exclusive", "ml", Condition.LESS_THAN)
    lacking = shortage(hosts.table, gang((needing(constraint=barred), 1)))
    assert lacking is not None
    assert str(lacking) == "its constraint excludes all 2 hosts: host peloton/exclusive=ml < 1"


async def test_the_service_refuses_nonsense_and_what_it_cannot_know() -> None:
    table = three_hosts()
    with pytest.raises(Unavailable, match="map of agents"):
        await service(table, known=False).CheckGangs(request(1), None)
    with pytest.raises(InvalidArgument, match=r"gangs\[0\]\.members"):
        await service(table).CheckGangs(pb.CheckGangsRequest(gangs=[pb.GangShape()]), None)
    with pytest.raises(InvalidArgument, match="at most 1000"):
        await service(table).CheckGangs(request(*[1.0] * 1001), None)
