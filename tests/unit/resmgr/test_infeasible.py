"""Gangs that fit on no host are set aside, hold nothing and block no other gang."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hostmgr.core.state.table import HostTable
from hostmgr.services.feasibility import Feasibility as FeasibilityService
from peloton.calls.rpc import Rpc
from peloton.errors import Unavailable
from peloton.model.resources import Resources
from peloton.model.shortage import Lack, Shortage
from peloton.model.states import TaskState
from peloton.private.resmgr.placing import placing_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.wire.feasibility import shortage_to
from resmgr.clients import HostmgrsClient
from resmgr.core.explain.queue_reasons import explain
from resmgr.core.explain.waiting_groups import Grouping
from resmgr.drivers.feasibility import Feasibility
from resmgr.services.placing import PlacingService
from resmgr.services.tasks import TaskService
from resmgr.wire.tasks import shape_to
from storage.interface import Store
from tests.unit.hostmgr.hosts import agent as host
from tests.unit.resmgr.shell import CLIENT, ENGINE, Shell, run_id, wire_gang
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, needs

S = TaskState
LARGE = Shortage(Lack.RESOURCE, "cpu", 60_000, 40_000, 3)
TEXT = (
    "needs 60 cores on one host; the largest of 3 hosts has 40 cores; waits for a host with at least 60 cores"
)


def crowded() -> World:
    """Gangs of 60 cpus, of which one is admitted at a time, ahead of a small one."""
    world = World()
    for instance in range(5):
        world.enqueue(instance, of=needs(60))
    world.enqueue(9)
    world.admit()
    assert [gang.tasks[0].instance for gang in world.dequeue()] == [0]
    assert world.state(9) is S.PENDING, "behind the second"
    return world


def test_setting_aside_frees_the_allocation_of_all_gangs_of_the_shape() -> None:
    world = crowded()
    world.fail(0, reason="no host fits", hosts={"insufficient_resources": 3}, shortage=LARGE)
    world.admit()
    assert [world.state(i) for i in range(5)] == [S.PENDING] * 5
    assert world.state(9) is S.READY, "nothing blocks it any more"
    assert world.cpu() == 1
    assert world.pool().total_demand().cpu == 0, "what cannot be used entitles to nothing"
    assert [world.task(i).reason for i in range(5)] == [TEXT] * 5
    assert len(world.scheduler.infeasible) == 5
    world.later(1000)
    assert [gang.tasks[0].instance for gang in world.dequeue()] == [9]


def test_a_new_job_of_the_same_shape_is_set_aside_at_once() -> None:
    world = crowded()
    world.fail(0, shortage=LARGE)
    world.enqueue(0, of=needs(60), job=OTHER_JOB)
    world.enqueue(1, of=needs(59), job=OTHER_JOB)
    world.admit()
    assert world.task(0, OTHER_JOB).reason == TEXT
    assert world.task(1, OTHER_JOB).state is S.READY, "it requests something else"


def test_gangs_return_in_order_ahead_of_others() -> None:
    world = crowded()
    world.fail(0, shortage=LARGE)
    world.admit()
    world.enqueue(10, of=needs(100))
    [shape] = world.scheduler.infeasible.shapes()
    world.scheduler.bring_back(shape)
    assert [gang.tasks[0].instance for gang in world.queues().pending] == [0, 1, 2, 3, 4, 10]
    assert world.pool().total_demand().cpu == 400_000
    assert not len(world.scheduler.infeasible)
    world.admit()
    assert (world.state(0), world.state(1)) == (S.READY, S.PENDING)
    assert (world.task(0).reason, world.task(1).reason.partition(":")[0]) == ("", "cpu")


def test_a_changed_shortage_is_reported() -> None:
    world = crowded()
    world.fail(0, shortage=LARGE)
    world.admit()
    [shape] = world.scheduler.infeasible.shapes()
    world.scheduler.keep_aside(shape, Shortage(Lack.RESOURCE, "cpu", 60_000, 50_000, 4))
    assert world.task(3).reason == (
        "needs 60 cores on one host; the largest of 4 hosts has 50 cores; "
        "waits for a host with at least 60 cores"
    )


def test_one_that_is_killed_is_forgotten_and_so_is_its_shape() -> None:
    world = crowded()
    world.fail(0, shortage=LARGE)
    world.admit()
    for instance in range(5):
        world.scheduler.kill(JOB, instance)
    assert not len(world.scheduler.infeasible) and not world.scheduler.infeasible.shapes()
    assert world.pool().total_demand().cpu == 0 and world.pool().tasks == 1
    world.enqueue(0, of=needs(60), run=2)
    world.admit()
    assert world.state(0) is S.READY, "it is tried again"


def test_a_gang_that_shrinks_is_tried_again() -> None:
    world = World()
    world.enqueue(0, 1, 2, of=needs(20))
    world.admit()
    world.dequeue()
    world.fail(0, shortage=Shortage(Lack.ROOM, "", 3000, 2000, 1))
    assert world.state(1) is S.PENDING and world.cpu() == 0
    world.scheduler.kill(JOB, 2)
    assert world.pool().total_demand().cpu == 40_000
    world.admit()
    assert [[task.instance for task in gang.tasks] for gang in world.dequeue()] == [[0, 1]]


def test_a_status_takes_one_from_aside() -> None:
    world = crowded()
    world.fail(0, shortage=LARGE)
    world.observe(0, S.RUNNING)
    assert world.cpu() == 60 and not len(world.scheduler.infeasible)


def test_a_gang_that_is_more_than_the_cluster_waits_for_another_cluster() -> None:
    world = World()
    world.enqueue(0, of=needs(101))
    world.enqueue(1)
    world.admit()
    assert (world.state(0), world.state(1)) == (S.PENDING, S.READY)
    assert world.task(0).reason == (
        "needs 101 cores at a time; the cluster has 100 cores; waits for a cluster with at least 101 cores"
    )
    assert world.scheduler.infeasible.shapes() == [], "it is not compared with hosts"
    aside = world.task(0).gang
    world.scheduler.set_capacity(Resources(), Resources())
    world.scheduler.set_capacity(Resources.of(100.5, 1000, 1000), Resources())
    assert list(world.scheduler.infeasible) == [aside], "too small still"
    assert "the cluster has 100.5" in world.task(0).reason
    world.scheduler.set_capacity(Resources.of(200, 1000, 1000), Resources())
    world.admit()
    assert world.state(0) is S.READY


def test_in_a_cluster_without_hosts_nothing_is_set_aside() -> None:
    world = World(capacity=Resources())
    world.enqueue(0)
    world.admit()
    assert not len(world.scheduler.infeasible)


def test_why() -> None:
    world = crowded()
    world.fail(0, reason="no host fits: 3 hosts", hosts={"insufficient_resources": 3}, shortage=LARGE)
    world.admit()
    [found] = explain(world.scheduler, [world.task(0)])
    assert found.cause == f"no host could take it, even when empty: {TEXT}"
    assert (found.state, found.shortage, found.position) == (S.PENDING, LARGE, None)
    assert found.tries is not None and found.tries.hosts == {"insufficient_resources": 3}
    grouping = Grouping(world.scheduler)
    grouping.add(world.task(i) for i in (0, 1, 2, 3, 4, 9))
    aside, small = grouping.finish()
    assert (aside.count, aside.instances, aside.last_position) == (5, [0, 1, 2, 3, 4], 0)
    assert small.count == 1


class Hostmgr:
    """A table of hosts behind the service's methods."""

    def __init__(self) -> None:
        self.table = HostTable()
        self.table.put(host(0, cpu=40))
        self.compared: list[float] = []
        self.available = True
        known: Any = SimpleNamespace(known=True)
        self._service = FeasibilityService(self.table, known, lambda want, offset, most: ((), {}))

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        method = rpc.name
        if not self.available:
            raise Unavailable("hostmgr is down")
        if method == "CheckGangs":
            minima = [gang.members[0].filter.resourceConstraint.minimum for gang in request.gangs]
            self.compared += [each.cpuLimit for each in minima]
        return await getattr(self._service, method)(request, None)


async def set_aside(shell: Shell) -> tuple[Feasibility, Hostmgr]:
    """A gang of 60 cpus."""
    await shell.enqueue(await shell.pool(), wire_gang(0, cpu=60))
    await shell.dequeue()
    request = placing_pb2.GiveBackRequest()
    back = request.gangs.add(reason="no host fits", shortage=shortage_to(LARGE))
    back.runs.add(value=run_id(0))
    await PlacingService(shell.driver).GiveBack(request, ENGINE)
    assert (await shell.states())[run_id(0)] == "PENDING"
    hostmgr = Hostmgr()
    return Feasibility(shell.driver, HostmgrsClient(hostmgr), 1.0), hostmgr


@pytest.fixture
async def shell(store: Store) -> Shell:
    return Shell(store)


async def test_gangs_are_compared_only_with_changes_that_may_help(shell: Shell) -> None:
    feasibility, hostmgr = await set_aside(shell)
    await feasibility.check()
    assert hostmgr.compared == [60], "the hosts may have changed since its shortage was found"
    hostmgr.table.put(host(1, cpu=59))
    hostmgr.table.remove("S0")
    await feasibility.check()
    await feasibility.check()
    assert hostmgr.compared == [60]
    hostmgr.table.put(host(2, cpu=60))
    await feasibility.check()
    assert hostmgr.compared == [60, 60]
    while shell.driver.cycle():
        pass
    assert (await shell.states())[run_id(0)] == "READY"
    hostmgr.available = False
    await feasibility.check()
    assert hostmgr.compared == [60, 60], "there is nothing to compare"


async def test_reasons_follow_other_changes_at_leisure(shell: Shell) -> None:
    feasibility, hostmgr = await set_aside(shell)
    await feasibility.check()
    hostmgr.table.put(host(1, cpu=50))
    await feasibility.check()
    task = next(iter(shell.driver.scheduler.registry))
    assert "the largest of 1 host has 40" in task.reason
    await Feasibility(shell.driver, HostmgrsClient(hostmgr), 1.0, describe=0.0).check()
    assert "the largest of 2 hosts has 50" in task.reason


async def test_gangs_stay_aside_while_hostmgr_is_unavailable(shell: Shell) -> None:
    feasibility, hostmgr = await set_aside(shell)
    hostmgr.available = False
    with pytest.raises(Unavailable):
        await feasibility.check()
    assert (await shell.states())[run_id(0)] == "PENDING"
    assert len(shell.driver.scheduler.infeasible) == 1


async def test_operators_see_what_is_aside(shell: Shell) -> None:
    await set_aside(shell)
    [pool] = list(shell.driver.scheduler.tree.leaves())
    request = resmgrsvc_pb2.GetPendingTasksRequest(limit=10)
    request.respoolID.value = pool.id
    answer = await TaskService(shell.driver, HostmgrsClient(shell.hostmgr)).GetPendingTasks(request, CLIENT)
    assert len(answer.pendingGangsByQueue["infeasible"].pendingGangs) == 1


def test_a_shape_for_the_wire() -> None:
    world = World()
    tasks = world.enqueue(0, 1, of=needs(2, 64, ports=1, spread=True))
    assert tasks[0].gang is not None
    wire = shape_to(tasks[0].gang.shape)
    [member] = wire.members
    assert (wire.spread, member.count, member.filter.resourceConstraint.numPorts) == (True, 2, 1)
    assert not member.filter.HasField("schedulingConstraint")
