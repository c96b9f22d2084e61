"""Plans over hosts that are not claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from peloton.clock import SystemClock
from peloton.model.resources import Resources
from peloton.model.shortage import Shortage
from placement.core.batch import Batch
from placement.core.model import Gang, Host, Needs, Shape, Task, TasksOnHosts
from placement.placing import Context
from placement.planning import Planner
from placement.plans import PlannedGroup, PlannedHosts, PlanRequest
from placement.ports import NO_HOSTS, Acquired, Desired, Failure, Rejection

BUSY = {"insufficient_offer_resources": 2}


class Hosts:
    """Hosts of 4 cpus at hostmgr; fails where anything is claimed or reported."""

    def __init__(self, count: int, delay: float = 0.0) -> None:
        self.count = count
        self.delay = delay
        self.found: list[int] = []

    async def find(self, needs: Needs, most: int, offset: int) -> Acquired:
        await asyncio.sleep(self.delay)
        self.found.append(most)
        names = [f"h{number}" for number in range(self.count)][offset : offset + most]
        free = Resources.of(4, 1000, 1000)
        hosts = [Host(name, f"a-{name}", f"a-{name}", needs.host_class, free) for name in names]
        return Acquired(hosts, {"match": self.count, **BUSY})

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        raise AssertionError("a plan claims nothing")

    async def release(self, hosts: Sequence[Host]) -> None:
        raise AssertionError("a plan claims nothing")

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        return [None] * len(shapes)


class Queue:
    async def dequeue(self, limit: int, wait: float) -> Sequence[Gang]:
        raise AssertionError("a plan takes no gangs")

    async def report(self, placements: object, failures: Sequence[Failure]) -> Sequence[Rejection]:
        raise AssertionError("a plan reports nothing")

    async def report_reservations(self, reports: object) -> Sequence[Gang]:
        raise AssertionError("a plan reserves nothing")

    async def tasks_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        return {}

    async def take(self, wait: float) -> PlanRequest | None:
        raise AssertionError("not used here")

    async def answer(self, plan_id: str, groups: object) -> None:
        raise AssertionError("not used here")


def planner(hosts: Hosts) -> Planner:
    context = Context(
        strategy=Batch(), queue=Queue(), claims=hosts, clock=SystemClock(), slots=asyncio.Semaphore(1)
    )
    return Planner(context, Queue(), hosts, 1.0)


def group(cpu: float, count: int, size: int = 1) -> PlannedGroup:
    needs = Needs(Resources.of(cpu, 10, 10))
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
