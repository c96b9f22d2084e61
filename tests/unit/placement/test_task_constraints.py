"""Constraints about tasks: the engine claims hosts first, and then asks for the tasks on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint, OrConstraint
from peloton.model.fixed_ports import port_labels, with_ports
from placement.core.model import Gang, HostClass, Needs
from placement.core.plan import plan
from tests.unit.placement.fakes import World, running
from tests.unit.placement.samples import JOB, gang, host, needs, task

DB = ("app", "db")
NO_DB = LabelConstraint(Kind.TASK, Condition.LESS_THAN, DB, 1)
WITH_DB = LabelConstraint(Kind.TASK, Condition.GREATER_THAN, DB, 0)


def wanting(tree: Constraint | None, of: Needs | None = None) -> Needs:
    return replace(of or needs(), host_class=HostClass(str(tree).encode() if tree else b"", False, tree))


def labelled(tree: Constraint | None, *labels: tuple[str, str], job: str = JOB) -> Gang:
    return Gang(job, (replace(task(wanting(tree), job), labels=labels),))


async def test_tasks_that_repel_each_other_get_a_host_each() -> None:
    gangs = [labelled(NO_DB, DB) for _ in range(4)]
    async with running(gangs, [host(i) for i in range(3)]) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1), ("host-2", 1)]
    assert len(world.resmgr.failures) == 1
    assert set(world.hostmgr.claimed) == {f"offer-{i}" for i in range(3)}, "no other claim is left"


async def test_tasks_that_other_engines_placed_are_seen() -> None:
    """Another engine placed a task on the host, and then it was free again."""

    def placed_before(world: World) -> None:
        (placement,) = plan([labelled(None, DB)], [host(0)]).placements
        world.resmgr.placements.append(placement)

    one = labelled(NO_DB, job="other")
    async with running([one], [host(0), host(1)], prepare=placed_before) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1)]
    assert world.resmgr.asked


async def test_a_task_finds_the_only_host_with_a_certain_task() -> None:
    """Which host that is shows only after the claim: more and more hosts are claimed."""

    def placed_before(world: World) -> None:
        (placement,) = plan([labelled(None, DB)], [host(29)]).placements
        world.resmgr.placements.append(placement)

    one = labelled(WITH_DB)
    async with running([one], [host(i) for i in range(30)], prepare=placed_before) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-29", 1), ("host-29", 1)]
    assert len(world.hostmgr.requested) < 10
    assert set(world.hostmgr.claimed) == {"offer-29"}


async def test_the_reason_names_the_constraint_and_counts_the_hosts() -> None:
    def placed_before(world: World) -> None:
        world.resmgr.placements += plan([labelled(None, DB)], [host(0)]).placements

    one = labelled(NO_DB, job="other")
    async with running([one], [host(0), host(1, cpu=0.5)], prepare=placed_before) as world:
        await world.idle()
    assert world.resmgr.failures[one] == (
        "no host fits: 2 hosts: 1 with too little free, 1 with tasks that its constraint refuses; "
        "needs 1 core free on one host; "
        "1 host with tasks that its constraint refuses: needs a host where task app=db < 1 holds"
    )
    assert not world.hostmgr.claimed


async def test_tasks_of_hosts_are_asked_for_only_where_a_constraint_is_about_tasks() -> None:
    rack = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)
    async with running([gang(), labelled(rack)], [host(0)]) as world:
        await world.until(lambda: len(world.resmgr.placed()) >= 1)
    assert world.resmgr.asked == []


async def test_a_host_limit_counts_tasks_of_the_same_plan_and_those_there() -> None:
    limit = LabelConstraint(Kind.TASK, Condition.LESS_THAN, DB, 3)
    gangs = [labelled(limit, DB) for _ in range(5)]
    async with running(gangs, [host(0), host(1)]) as world:
        await world.idle()
    assert [count for _, count in world.resmgr.hosts()] == [3, 2]


async def test_a_whole_gang_obeys_a_constraint_about_its_own_tasks() -> None:
    tree = wanting(NO_DB)
    whole = Gang(JOB, tuple(replace(task(tree), labels=(DB,)) for _ in range(3)))
    async with running([whole], [host(i) for i in range(5)]) as world:
        await world.idle()
    assert [count for _, count in world.resmgr.hosts()] == [1, 1, 1]
    async with running([whole], [host(i) for i in range(2)]) as world:
        await world.idle()
    assert "room for 2 of 3 tasks that belong together" in world.resmgr.failures[whole]
    assert not world.hostmgr.claimed


def test_or_of_a_host_and_a_task_term_is_the_whole_tree() -> None:
    rack = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)
    one = labelled(OrConstraint((rack, WITH_DB)))
    claimed = [replace(host(i), host_class=one.tasks[0].needs.host_class) for i in range(3)]
    assert not plan([one], claimed).placed, "neither term holds on any"
    on_rack = [*claimed[:2], replace(claimed[2], labels=(("rack", "r1"),))]
    assert plan([one], on_rack).placements[0].host.hostname == "host-2"
    there = {"host-1": {DB: 1}}
    assert plan([one], claimed, there).placements[0].host.hostname == "host-1"
    both = labelled(AndConstraint((rack, NO_DB)))
    claimed = [replace(each, host_class=both.tasks[0].needs.host_class) for each in on_rack]
    assert not plan([both], claimed, {"host-2": {DB: 1}}).placed


def test_a_fixed_port_is_used_once_on_a_host_and_given_to_no_other() -> None:
    def fixed(port: int, dynamic: int = 0) -> Gang:
        tree = wanting(with_ports(None, [port]), needs(0.1, ports=dynamic))
        return Gang(JOB, (replace(task(tree), labels=port_labels([port])),))

    planned = plan([fixed(8080), fixed(8080), fixed(9090)], [replace(host(0), host_class=None)])
    assert [len(placement.tasks) for placement in planned.placements] == [2]
    (failure,) = planned.failures
    assert (
        str(failure.refusal) == "1 host where a task has the fixed port 8080: needs a host where it is free"
    )
    assert not plan(
        [fixed(8080)], [replace(host(0), host_class=None)], {"host-0": {("peloton/port", "8080"): 1}}
    ).placed
    narrow = replace(host(0, ports=((31000, 31001),)), host_class=None)
    planned = plan([fixed(31000, dynamic=1)], [narrow])
    assert planned.placements[0].ports == (31001,)
    planned = plan([fixed(31000, dynamic=2)], [narrow])
    assert (
        str(planned.failures[0].refusal)
        == "1 host with fewer free ports than it needs: needs 3, and has at most 2"
    )


@pytest.mark.parametrize(
    ("offered", "fits"), [(0.3, 3), (0.30000000000000004, 3), (0.29999999, 3), (0.299, 2)]
)
def test_fractions_of_a_cpu_are_compared_in_thousandths(offered: float, fits: int) -> None:
    """Sums of floating-point numbers are off by much less than a thousandth, to which amounts are rounded."""
    planned = plan([gang(needs(0.1)) for _ in range(4)], [host(0, cpu=offered)])
    assert len(planned.placed) == fits
