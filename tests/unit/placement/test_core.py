from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from peloton.model.hostcounts import counted
from peloton.model.resources import Resources
from peloton.model.states import PlacementStrategy
from placement.core.batch import Batch
from placement.core.filters import NO_PORTS, RESOURCES
from placement.core.host_estimates import FIRST_GUESS, HostEstimates, hosts_to_request
from placement.core.model import Gang, Host, Needs
from placement.core.plan import Plan, plan
from placement.core.policy import Policy, Scorer
from placement.core.reasons import busy, no_host_fits, with_refusals
from placement.core.strategy import families
from placement.core.table import capacity
from tests.unit.placement.samples import SPREAD, gang, host, needs


def loads(planned: Plan) -> list[tuple[str, int]]:
    return [(placement.host.hostname, len(placement.tasks)) for placement in planned.placements]


def plan_of(hosts: Sequence[Host], gangs: Sequence[Gang]) -> Plan:
    """A plan in the order of the gangs, which fills the first host before the next."""
    return plan(gangs, hosts, policy=Policy(Scorer.FIRST_FIT, largest_first=False))


def test_a_host_is_filled_before_the_next_is_taken() -> None:
    planned = plan_of([host(0), host(1), host(2)], [gang() for _ in range(6)])
    assert loads(planned) == [("host-0", 4), ("host-1", 2)]
    assert len(planned.placed) == 6
    assert not planned.unplaced


def test_gangs_that_do_not_fit_remain_in_order() -> None:
    gangs = [gang() for _ in range(6)]
    planned = plan_of([host(0)], gangs)
    assert planned.placed == tuple(gangs[:4])
    assert planned.unplaced == tuple(gangs[4:])
    assert planned.missing == ((needs(), 1),)


def test_a_smaller_gang_fills_what_a_larger_one_leaves() -> None:
    large, small = gang(needs(cpu=3)), gang(needs(cpu=1))
    planned = plan_of([host(0), host(1)], [large, gang(needs(cpu=3)), small, gang(needs(cpu=3)), gang()])
    assert loads(planned) == [("host-0", 2), ("host-1", 2)]
    assert [len(one.tasks) for one in planned.unplaced] == [1]
    assert planned.placements[0].tasks == (large.tasks[0], small.tasks[0])


def test_spreading_puts_one_task_on_each_host() -> None:
    planned = plan_of([host(i) for i in range(3)], [gang(strategy=SPREAD) for _ in range(5)])
    assert loads(planned) == [("host-0", 1), ("host-1", 1), ("host-2", 1)]
    assert len(planned.unplaced) == 2


def test_a_gang_is_spread_too() -> None:
    assert loads(plan_of([host(0), host(1)], [gang(needs(), needs(), strategy=SPREAD)])) == [
        ("host-0", 1),
        ("host-1", 1),
    ]
    assert not plan_of([host(0)], [gang(needs(), needs(), strategy=SPREAD)]).placements


def test_a_gang_that_does_not_fit_whole_leaves_the_room_to_others() -> None:
    big, small = gang(*[needs()] * 9), gang()
    planned = plan_of([host(0), host(1)], [big, small])
    assert planned.placed == (small,)
    assert planned.unplaced == (big,)
    assert planned.missing == ((needs(), 1),)
    assert loads(planned) == [("host-0", 1)]


def test_a_gang_of_different_needs() -> None:
    driver, executor = needs(cpu=2, memory=100), needs(cpu=1, memory=10)
    planned = plan_of([host(0, cpu=3), host(1, cpu=3)], [gang(driver, executor, executor, executor)])
    assert loads(planned) == [("host-0", 2), ("host-1", 2)]
    assert planned.placements[0].tasks[0].needs is driver


def test_revocable_tasks_take_cpu_from_slack_and_the_rest_from_normal_resources() -> None:
    slack = needs(cpu=1, memory=400, revocable=True)
    planned = plan_of([host(cpu=1, memory=1000, slack_cpu=9000)], [gang(slack) for _ in range(4)] + [gang()])
    assert [task.needs.revocable for task in planned.placements[0].tasks] == [True, True, False]


def test_ports_come_from_the_offer_and_bound_the_tasks() -> None:
    two = needs(cpu=0, ports=2)
    planned = plan_of(
        [host(ports=((31000, 31002), (32000, 32001)))], [gang(two), gang(two), gang(two), gang(needs(0))]
    )
    assert planned.placements[0].ports == (31000, 31001, 31002, 32000)
    assert len(planned.placements[0].tasks) == 3


def test_a_host_serves_only_what_it_was_claimed_for() -> None:
    assert not plan_of([host(where="rack=r1")], [gang(needs(where="rack=r2")), gang()]).placements
    assert not plan_of([host(gpu=2)], [gang()]).placements
    assert loads(plan_of([host(gpu=2)], [gang(needs(gpu=1)) for _ in range(3)])) == [("host-0", 2)]


def test_hostmgr_decides_about_gpu_hosts_that_it_gives_to_tasks_without_gpus() -> None:
    """In a plan over hosts that are not claimed, the plan itself decides."""
    given = replace(host(), has_gpu=True)
    assert loads(plan_of([given], [gang()])) == [("host-0", 1)]
    assert not plan_of([replace(given, host_class=None)], [gang()]).placements


def test_thousands_of_tasks_over_thousands_of_hosts_take_one_pass() -> None:
    hosts = [host(i) for i in range(5_000)]
    gangs = [gang(needs(cpu=0.5 + (i % 7) / 10)) for i in range(20_000)]
    begun = time.process_time()
    planned = plan_of(hosts, gangs)
    assert len(planned.placed) + len(planned.unplaced) == 20_000
    assert time.process_time() - begun < 10, "tasks x hosts would be 100,000,000 looks"


@pytest.mark.parametrize(
    ("of", "expected"),
    [(needs(1), 4), (needs(0.3), 13), (needs(5), 0), (needs(1, memory=400), 2), (needs(0, ports=3), 3)],
)
def test_capacity(of: object, expected: int) -> None:
    assert capacity(host(), of) == expected  # type: ignore[arg-type]


def test_hosts_to_request() -> None:
    estimates = HostEstimates()
    gangs = [gang() for _ in range(15)]
    assert hosts_to_request(estimates, needs(), [(needs(), 1)], gangs, 100) == 16 / FIRST_GUESS
    estimates.learn([host(0, cpu=1), host(1, cpu=4), host(2, cpu=5)])
    assert hosts_to_request(estimates, needs(), [(needs(), 1)], gangs, 100) == 4
    assert hosts_to_request(estimates, needs(), [(needs(), 1)], gangs, 3) == 3
    assert hosts_to_request(estimates, needs(99), [(needs(99), 1)], [], 100) == 1
    assert hosts_to_request(estimates, needs(where="x"), [(needs(where="x"), 9)], gangs, 100) == 2, (
        "others do not count"
    )


def test_families() -> None:
    batch = Batch()

    def key(one: Gang) -> object:
        return batch.family(one).key

    assert key(gang(needs(1))) == key(gang(needs(2), needs(3))), "amounts do not part"
    assert key(gang(needs(where="a"))) != key(gang())
    assert key(gang(needs(gpu=1))) != key(gang())
    assert key(gang(strategy=SPREAD)) == key(gang(needs(7), strategy=SPREAD))
    assert key(gang(strategy=SPREAD)) != key(gang(strategy=SPREAD, job="another"))
    assert key(gang(strategy=PlacementStrategy.INVALID)) == key(gang())
    reserving = Gang("job", gang().tasks, wants_reservation=True)
    ranks = [batch.family(one).rank for one in (reserving, gang(needs(revocable=True)), gang())]
    assert ranks == sorted(set(ranks))


def test_gangs_of_several_owners_are_families_apart() -> None:
    """They claim hosts of their own, since a claim is used by one launch, of one job manager."""
    nobodys, ones, others = gang(), replace(gang(), owner="jobmgr/a"), replace(gang(), owner="jobmgr/b")
    assert [members for _, members in families(Batch(), [nobodys, nobodys])] == [[nobodys, nobodys]]
    found = families(Batch(), [ones, others, ones])
    assert [members for _, members in found] == [[ones, ones], [others]]
    assert {family.rank for family, _ in found} == {Batch().family(nobodys).rank}


def test_reasons() -> None:
    counts = {"mismatch_constraints": 4, "insufficient_offer_resources": 8, "match": 3}
    told = "12 hosts: 8 with too little free, 4 that its constraint excludes"
    alone, three = gang(), gang(needs(), needs(), needs())
    assert counted(counts) == told
    assert counted({"no_offer": 1}) == "1 host without an offer from Mesos now"
    more = "needs 1 core free on one host; needs a host that is not exclusive"
    assert no_host_fits(alone, alone.shape, counts) == f"no host fits: {told}; {more}"
    assert no_host_fits(alone, alone.shape, {}) == "no host fits: there are no hosts"
    assert (
        no_host_fits(three, ((needs(), 1),), counts)
        == f"no host fits: {told}; room for 2 of 3 tasks that belong together; {more}"
    )
    assert (
        no_host_fits(alone, alone.shape, {"match": 2}, on_used_hosts=2)
        == "no host fits: 2 just got a task of the job, which is spread"
    )
    assert busy({"mismatch_status": 1})
    assert not busy(counts)


def test_a_host_gets_no_more_launches_than_it_takes_at_a_time() -> None:
    hosts = [replace(host(0, cpu=100), launches=3), replace(host(1, cpu=100), launches=0), host(2, cpu=100)]
    planned = plan_of(hosts, [gang() for _ in range(5)])
    assert loads(planned) == [("host-0", 3), ("host-2", 2)]
    assert capacity(hosts[0], needs()) == 3


def test_gang_may_exceed_the_launch_limit_and_counts() -> None:
    whole = gang(*[needs()] * 5)
    planned = plan_of([replace(host(0, cpu=100), launches=3)], [whole, gang()])
    assert (loads(planned), len(planned.unplaced)) == ([("host-0", 5)], 1)


def test_launches_that_are_under_way_end_soon() -> None:
    assert busy({"too_many_starting": 3})
    assert not busy({"failed_launches": 3})


def test_what_is_held_of_hosts_is_told() -> None:
    alone, text = gang(), "1 host held for instances 0-29 of JOB until 2026-01-02T10:20:30Z"
    assert busy({"held": 1}), "it ends soon"
    assert no_host_fits(alone, alone.shape, {"held": 2}, details=[text]) == (
        "no host fits: 2 hosts whose free room is held for instances that come back; "
        "needs 1 core beside what "
        f"is held for instances that are updated or restarted in place; {text}"
    )


def test_hosts_that_were_claimed_and_refused_are_counted_once() -> None:
    counts = {"match": 0, "mismatch_status": 5, "mismatch_constraints": 4}
    assert with_refusals(counts, held=3, refused={"match": 1, "mismatch_task_constraints": 2}) == {
        "match": 0,
        "mismatch_status": 2,
        "mismatch_constraints": 4,
        "mismatch_task_constraints": 2,
    }


@pytest.mark.parametrize(
    ("fits", "too_large", "reason"),
    [
        (Needs(Resources.of(4)), Needs(Resources.of(4.001)), RESOURCES),
        (Needs(Resources.of(1, 1000)), Needs(Resources.of(1, 1000.001)), RESOURCES),
        (Needs(Resources.of(1, 0, 1000)), Needs(Resources.of(1, 0, 1000.001)), RESOURCES),
        (Needs(Resources.of(2), revocable=True), Needs(Resources.of(2.001), revocable=True), RESOURCES),
        (Needs(Resources.of(1), ports=10), Needs(Resources.of(1), ports=11), NO_PORTS),
    ],
    ids=["cpu", "memory", "disk", "slack", "ports"],
)
def test_each_amount_bounds_what_a_host_takes(fits: Needs, too_large: Needs, reason: str) -> None:
    hosts = [host(slack_cpu=2000)]
    assert loads(plan_of(hosts, [gang(fits)])) == [("host-0", 1)]
    refused = gang(too_large)
    planned = plan_of(hosts, [refused])
    assert not planned.placements
    assert planned.failure(refused).refusal.counts == {reason: 1, "match": 0}


@pytest.mark.parametrize("ports", [0, 2])
@pytest.mark.parametrize("cpu", [1.0, 4.0, 4.5])
@pytest.mark.parametrize("gpu", [0, 2])
def test_a_task_alone_on_a_host_is_placed_as_beside_others(ports: int, cpu: float, gpu: float) -> None:
    """One task on one host takes a shorter way, with the same result."""
    own = needs(cpu=cpu, memory=500, gpu=gpu, ports=ports)
    one, large = gang(own), gang(needs(cpu=64, gpu=gpu))  # which fits nowhere
    found = host(0, gpu=2) if gpu else host(0)
    alone, beside = plan_of([found], [one]), plan_of([found], [one, large])
    assert alone.placements == beside.placements
    assert (one in alone.placed) == (one in beside.placed) == (cpu <= 4)
    assert alone.missing == (((own, 1),) if cpu > 4 else ())
    elsewhere = needs(cpu=cpu, memory=500, gpu=gpu, where="another class")
    assert not plan_of([found], [gang(elsewhere)]).placed


def test_no_gangs_have_no_plan() -> None:
    assert not plan_of([host(0)], []).placements
