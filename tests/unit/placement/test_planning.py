"""Plans over hosts that are not claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from peloton.clock import SystemClock
from peloton.model.resources import Resources
from peloton.model.shortage import Shortage
from placement.core.batch import Batch
from placement.core.events import HostsClaimed, Rejection, ReservationAnswer, ReservedClaimed
from placement.core.found_hosts import Find, HostsFound
from placement.core.giving_up import Rules
from placement.core.instructions import Claim, ClaimReserved
from placement.core.model import Gang, Host, Needs, Shape, Task, TasksOnHosts
from placement.core.plans import PlannedGroup, PlannedHosts, PlanRequest
from placement.planning import Planner

BUSY = {"insufficient_offer_resources": 2}


class Hosts:
    """Hosts at hostmgr, of 4 cpus unless told; fails where anything is claimed or reported."""

    def __init__(
        self, count: int = 0, delay: float = 0.0, cpus: Sequence[float] = (), slack: int = 0
    ) -> None:
        self.cpus = cpus or [4] * count
        self.delay = delay
        self.slack = slack
        self.questions = 0

    async def find(self, find: Find) -> HostsFound:
        """Return a page of the hosts that match, with slack where revocable resources are asked for."""
        await asyncio.sleep(self.delay)
        self.questions += 1
        needs, offset = find.needs, find.offset
        slack = self.slack if needs.revocable else 0
        hosts = [
            Host(f"h{number}", f"a-{number}", f"a-{number}", needs.host_class, free, slack)
            for number, cpu in enumerate(self.cpus)
            if needs.resources.fits(free := Resources.of(cpu, 1000, 1000)) or needs.revocable
        ]
        return HostsFound(hosts[offset : offset + find.most], {"match": len(hosts), **BUSY})

    async def claim(self, claim: Claim) -> HostsClaimed:
        raise AssertionError("a plan claims nothing")

    async def claim_reserved(self, claim: ClaimReserved) -> ReservedClaimed:
        raise AssertionError("a plan claims nothing")

    async def reserve(self, wishes: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        raise AssertionError("a plan reserves nothing")

    async def cancel_reservations(self, ids: Sequence[str]) -> None:
        raise AssertionError("a plan reserves nothing")

    async def release(self, hosts: Sequence[Host]) -> None:
        raise AssertionError("a plan claims nothing")

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        return [None] * len(shapes)


class Queue:
    async def take(self, limit: int, wait: float) -> Sequence[Gang]:
        raise AssertionError("a plan takes no gangs")

    async def report(self, placements: object) -> Sequence[Rejection]:
        raise AssertionError("a plan reports nothing")

    async def give_back(self, unplaced: object) -> None:
        raise AssertionError("a plan reports nothing")

    async def show_life(self) -> None:
        raise AssertionError("a plan reports nothing")

    async def report_reservations(self, reports: object) -> Sequence[Gang]:
        raise AssertionError("a plan reserves nothing")

    async def labels_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        return {}

    async def take_plan(self, wait: float) -> PlanRequest | None:
        raise AssertionError("not used here")

    async def answer_plan(self, plan_id: str, groups: object) -> None:
        raise AssertionError("not used here")


def planner(hosts: Hosts) -> Planner:
    return Planner(Rules(Batch()), Queue(), hosts, SystemClock(), 1.0)


def group(cpu: float, count: int, size: int = 1, revocable: bool = False) -> PlannedGroup:
    needs = Needs(Resources.of(cpu, 10, 10), revocable=revocable)
    return PlannedGroup(
        Gang("plan", tuple(Task(f"plan-{i}", f"plan-{i}", needs) for i in range(size))), count
    )


def request(*groups: PlannedGroup, seconds: float = 60.0) -> PlanRequest:
    return PlanRequest("p", groups, seconds)


async def test_gangs_go_where_hosts_have_room_for_them() -> None:
    first, second = await planner(Hosts(3)).plan(request(group(1, 6), group(2, 3)))
    assert (first.placed, first.unplaced, first.reason) == (6, 0, "")
    assert sum(each.hosts * each.tasks for each in first.hosts) == 6
    assert (second.placed, second.unplaced) == (3, 0), "on what the first has left"


async def test_more_than_there_is_room_for() -> None:
    [plan] = await planner(Hosts(3)).plan(request(group(2, 10)))
    assert (plan.placed, plan.unplaced) == (6, 4)
    assert plan.hosts == (PlannedHosts(3, 2, ("h0", "h1", "h2")),)
    assert plan.reason.startswith("no host fits") and "5 hosts" in plan.reason, "2 busy, 3 filled by the plan"


async def test_a_gang_is_planned_whole_or_not() -> None:
    whole, none = await planner(Hosts(3)).plan(request(group(2, 1, size=5), group(2, 2, size=2)))
    assert (whole.placed, whole.unplaced) == (1, 0)
    assert (none.placed, none.unplaced, none.hosts) == (0, 2, ())


async def test_many_instances_are_summarised() -> None:
    [plan] = await planner(Hosts(1000)).plan(request(group(0.5, 20_000)))
    assert (plan.placed, plan.unplaced) == (8000, 12_000)
    assert plan.hosts == (PlannedHosts(1000, 8, ("h0", "h1", "h10", "h100", "h101")),)


async def test_a_plan_that_takes_too_long_says_so() -> None:
    hosts = Hosts(1000, delay=3600.0)
    [plan] = await planner(hosts).plan(request(group(1, 5), seconds=2.0))
    assert (plan.placed, plan.unplaced, plan.reason) == (0, 5, "the plan was not complete after 2 s")


async def test_groups_that_differ_in_amounts_only_share_the_hosts_that_were_found() -> None:
    hosts = Hosts(1000)
    plans = await planner(hosts).plan(request(*(group(1 + number / 1000, 4) for number in range(200))))
    assert {(plan.placed, plan.unplaced) for plan in plans} == {(4, 0)}
    assert hosts.questions <= 2, "and not one for each group"


async def test_small_tasks_use_hosts_that_do_not_match_large_ones() -> None:
    hosts = Hosts(cpus=[4, 1, 1, 4, 1])
    large, small, none = await planner(hosts).plan(request(group(3, 3), group(1, 6), group(1, 1)))
    assert (large.placed, large.unplaced) == (2, 1)
    assert (small.placed, small.unplaced) == (5, 1)
    assert (none.placed, none.unplaced) == (0, 1)
    assert small.hosts == (PlannedHosts(5, 1, ("h0", "h1", "h2", "h3", "h4")),)


async def test_large_tasks_after_small_ones_find_the_few_hosts_for_them() -> None:
    hosts = Hosts(cpus=[4, *([1] * 2500), 4])
    small, large = await planner(hosts).plan(request(group(1, 2000), group(4, 3)))
    assert small.placed == 2000
    assert (large.placed, large.unplaced) == (1, 2), "the first host has got small tasks"


async def test_revocable_tasks_use_the_slack_that_others_do_not_see() -> None:
    hosts = Hosts(cpus=[4], slack=2000)
    normal, revocable, more = await planner(hosts).plan(
        request(group(4, 1), group(1, 3, revocable=True), group(1, 1))
    )
    assert (normal.placed, more.placed) == (1, 0)
    assert (revocable.placed, revocable.unplaced) == (2, 1)
