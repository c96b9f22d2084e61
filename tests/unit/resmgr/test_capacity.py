"""The capacity of several Mesos clusters, some of which cannot be asked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from peloton.calls.rpc import Rpc
from peloton.errors import Unavailable
from peloton.membership.interface import Address, Membership, Role
from peloton.model.host_class import HostClass
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TaskType
from peloton.rpc.cluster_rules import RULES
from peloton.rpc.clusters import ClusterClient, Clusters
from resmgr.clients import HostmgrsClient
from resmgr.core.state.entities import Task
from resmgr.core.state.needs import Needs
from resmgr.core.state.pool import Pool
from resmgr.drivers.capacity import Capacity
from resmgr.drivers.loop import Driver

from .shell import Hostmgr, Shell
from .world import JOB, World, kinds, needs


class Members:
    """Both clusters have leaders."""

    def leader(self, role: Role, cluster: str = "") -> Address | None:
        return Address("h", "127.0.0.1", 1, 2)

    def clusters(self) -> list[str]:
        return ["east"]


class Clock:
    """The driver's time, as far as the capacity needs it."""

    def __init__(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(driver, "now", lambda: self.now)


class Cluster(Hostmgr):
    def __init__(self, cpu: float) -> None:
        super().__init__()
        self.capacity = Resources.of(cpu)
        self.away = False

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        if self.away:
            raise Unavailable("away")
        return await super().call(rpc, request, timeout, retry)


def made(shell: Shell) -> tuple[Capacity, Cluster, Cluster]:
    own, east = Cluster(6), Cluster(4)
    callers = {"": own, "east": east}
    client = ClusterClient(Clusters(cast(Membership, Members())), callers.__getitem__, RULES)
    return Capacity(shell.driver, HostmgrsClient(client), 1.0, 1.0, kept=60.0), own, east


def put_on(shell: Shell, host: str, of: Needs, instance: int = 0) -> None:
    """Let a task run on a host."""
    registry = shell.driver.scheduler.registry
    pool = World(PoolConfig("a", "a", "root", kinds())).scheduler.tree.get("a")
    assert isinstance(pool, Pool)
    task = Task(registry.job(JOB), instance, 1, of, pool, TaskState.RUNNING, 0.0)
    registry.add(task)
    registry.put_on_host(task, host)


def test_what_tasks_hold_is_told_by_cluster(shell: Shell) -> None:
    put_on(shell, "host", needs(cpu=1))
    put_on(shell, "east/host", needs(cpu=2, revocable=True), instance=1)
    put_on(shell, "east/other", needs(cpu=3), instance=2)
    registry = shell.driver.scheduler.registry
    assert registry.clusters() == {"", "east"}
    normal, slack = registry.held_in("east")
    assert (normal.cpu, normal.memory, slack) == (3000, 2000, Resources(cpu=2000))
    assert registry.held_in("")[0].cpu == 1000


async def test_the_last_capacity_of_a_lost_cluster_counts_for_a_while(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After that it counts with what its tasks hold, so that they take nothing of the others."""
    clock = Clock(shell.driver, monkeypatch)
    capacity, _, east = made(shell)
    tree = shell.driver.scheduler.tree
    await capacity.update()
    assert tree.capacity == Resources.of(10)
    east.away = True
    clock.now += 60.0
    await capacity.update()
    assert tree.capacity == Resources.of(10)
    put_on(shell, "east/host", needs(cpu=1.5))
    put_on(shell, "west/host", needs(cpu=2), instance=1)
    clock.now += 1.0
    await capacity.update()
    assert tree.capacity.cpu == 9500, "6 there, 1.5 in east, 2 in a cluster that has not been seen"
    east.away = False
    await capacity.update()
    assert tree.capacity.cpu == 12000


async def test_nothing_changes_while_no_cluster_answers(shell: Shell) -> None:
    capacity, own, east = made(shell)
    own.away = east.away = True
    before = shell.driver.scheduler.tree.capacity
    with pytest.raises(Unavailable, match="Mesos cluster without a name: away; Mesos cluster east: away"):
        await capacity.update()
    assert shell.driver.scheduler.tree.capacity == before


async def test_classes_of_hosts_are_added_over_clusters(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that is lost counts with what its tasks hold, each in its class."""
    clock = Clock(shell.driver, monkeypatch)
    capacity, own, east = made(shell)
    plain, gpu = HostClass(), HostClass(gpu=True)
    own.classes = {plain: Resources.of(6)}
    east.classes = {plain: Resources.of(1), gpu: Resources.of(3, gpu=2)}
    tree = shell.driver.scheduler.tree
    await capacity.update()
    assert tree.classes is not None
    assert tree.classes.capacity(plain).normal == Resources.of(7)
    assert tree.classes.capacity(gpu).normal == Resources.of(3, gpu=2)
    assert not await capacity.update(), "nothing has changed"

    put_on(shell, "east/host", Needs(Resources.of(2, gpu=1)))
    east.away = True
    clock.now += 61.0
    assert await capacity.update()
    assert tree.classes.capacity(plain).normal == Resources.of(6)
    assert tree.classes.capacity(gpu).normal == Resources.of(2, gpu=1)


async def test_host_pools_make_classes_while_all_tasks_are_confined_to_them(shell: Shell) -> None:
    capacity = Capacity(shell.driver, HostmgrsClient(shell.hostmgr), 1.0, 1.0)
    shell.hostmgr.pooled = True
    shell.hostmgr.classes = {
        HostClass(pool="shared"): Resources.of(4),
        HostClass(pool="stateless"): Resources.of(1),
    }
    tree, scheduler = shell.driver.scheduler.tree, shell.driver.scheduler
    await capacity.update()
    assert tree.classes is not None
    scheduler.ignore_host_pools(TaskType.STATELESS, True)
    assert await capacity.update()
    assert tree.classes is None
    scheduler.ignore_host_pools(TaskType.STATELESS, False)
    assert await capacity.update()
    assert tree.classes is not None
