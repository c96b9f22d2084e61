"""The implicit host pools of tasks: handed out with gangs while hostmgr has host pools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    LabelConstraint,
    OrConstraint,
)
from peloton.model.host_class import HostClass
from peloton.model.host_pool import in_pool
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from peloton.rpc.clusters import ClusterClient, Rules
from peloton.wire.constraint import constraint_from, constraint_to
from resmgr.clients import HostmgrsClient
from resmgr.core.state.needs import Shape
from resmgr.drivers.capacity import Capacity
from resmgr.wire.tasks import Translator, shape_to
from tests.unit.resmgr.shell import ENGINE, Hostmgr, Shell, wire_gang, wire_task

RACK = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)


def test_the_pool_of_each_kind_of_task() -> None:
    def pool(**of: Any) -> str:
        return Translator().needs(wire_task(0, **of)).host_pool

    assert pool(preemptible=True) == "shared"
    assert pool(preemptible=False) == "batch_reserved"
    for preemptible in (True, False):
        assert pool(type=resmgr_pb2.STATELESS, preemptible=preemptible) == "stateless"
    assert pool(type=resmgr_pb2.STATEFUL, preemptible=False) == "stateless"
    assert pool(type=resmgr_pb2.DAEMON, preemptible=False) == "", "they run on the hosts of all pools"
    assert pool(constraint=constraint_to(RACK)) == "shared"
    own = AndConstraint((RACK, in_pool("default")))
    assert pool(constraint=constraint_to(own)) == "", "a pool that the job names counts instead"


def test_the_hosts_that_a_task_asks_for() -> None:
    def asked(constraint: Constraint | None = None, gpus: float = 0) -> HostClass:
        wire = wire_task(0, preemptible=True)
        wire.resource.gpuLimit = gpus
        if constraint is not None:
            wire.constraint.CopyFrom(constraint_to(constraint))
        return Translator().needs(wire).charge.asked

    def on(key: str, value: str, condition: Condition = Condition.EQUAL, count: int = 1) -> LabelConstraint:
        return LabelConstraint(Kind.HOST, condition, (key, value), count)

    assert asked() == asked(RACK) == HostClass(pool="shared")
    assert asked(gpus=2) == HostClass(gpu=True, pool="shared")
    assert asked(AndConstraint((RACK, in_pool("default")))) == HostClass(pool="default")
    own = on("peloton/exclusive", "web")
    assert asked(AndConstraint((RACK, own))) == HostClass(exclusive="web", pool="shared")
    assert asked(OrConstraint((own, on("peloton/exclusive", "ml")))).exclusive == "web"
    assert asked(on("peloton/exclusive", "web", Condition.GREATER_THAN, 0)).exclusive == "web"
    for never in (on("peloton/exclusive", "web", count=0), on("peloton/exclusive", "x", Condition.LESS_THAN)):
        assert asked(never).exclusive == ""


def handed_out(gangs: list[pb.Gang]) -> list[Constraint | None]:
    return [
        constraint_from(task.constraint) if task.HasField("constraint") else None
        for gang in gangs
        for task in gang.tasks
    ]


async def test_gangs_are_handed_out_with_their_pools_while_there_are_pools(shell: Shell) -> None:
    pool = await shell.pool()
    capacity = Capacity(shell.driver, HostmgrsClient(shell.hostmgr), 1.0, 1.0)
    await capacity.update()
    await shell.enqueue(pool, wire_gang(0))
    assert handed_out(await shell.dequeue()) == [None]
    shell.hostmgr.pooled = True
    await capacity.update()
    await shell.enqueue(
        pool, wire_gang(1), wire_gang(2, constraint=constraint_to(RACK)), wire_gang(3, preemptible=False)
    )
    found = handed_out(await shell.dequeue())
    assert set(found) == {
        in_pool("shared"),
        AndConstraint((in_pool("shared"), RACK)),
        in_pool("batch_reserved"),
    }
    shell.hostmgr.pooled = False
    await capacity.update()
    await shell.enqueue(pool, wire_gang(4))
    assert handed_out(await shell.dequeue()) == [None]


async def test_pools_are_on_where_one_of_several_clusters_has_them(shell: Shell) -> None:
    hosts = {"east": Hostmgr(), "west": Hostmgr()}
    clusters: Any = SimpleNamespace(names=lambda: tuple(hosts))
    client = ClusterClient(clusters, hosts.__getitem__, Rules())
    capacity = Capacity(shell.driver, HostmgrsClient(client), 1.0, 1.0)
    await capacity.update()
    assert not shell.driver.scheduler.host_pools
    hosts["west"].pooled = True
    await capacity.update()
    assert shell.driver.scheduler.host_pools
    hosts["west"].down = True
    await capacity.update()
    assert shell.driver.scheduler.host_pools, "as last known"


@pytest.mark.parametrize(("desired", "expected"), [("", in_pool("stateless")), ("h1", None)])
async def test_a_run_whose_volume_exists_goes_where_it_is(
    shell: Shell, desired: str, expected: Constraint | None
) -> None:
    shell.driver.scheduler.host_pools = True
    pool = await shell.pool()
    stateful = wire_gang(0, type=resmgr_pb2.STATEFUL, preemptible=False, desiredHost=desired)
    await shell.enqueue(pool, stateful)
    request = pb.DequeueGangsRequest(limit=1, type=resmgr_pb2.STATEFUL)
    assert handed_out(list((await shell.tasks.DequeueGangs(request, ENGINE)).gangs)) == [expected]


def test_gangs_are_compared_with_the_hosts_of_their_pool() -> None:
    shapes = [
        Shape(frozenset({(Translator().needs(wire_task(0, preemptible=each)).fit, 1)}), False)
        for each in (True, False)
    ]
    assert len(set(shapes)) == 2
    assert [shape_to(each).members[0].host_pool for each in shapes] == ["shared", "batch_reserved"]
    assert not shape_to(shapes[0]).members[0].filter.HasField("schedulingConstraint")


async def test_an_engine_may_ignore_host_pools(shell: Shell) -> None:
    pool = await shell.pool()
    shell.hostmgr.pooled = True
    await Capacity(shell.driver, HostmgrsClient(shell.hostmgr), 1.0, 1.0).update()
    scheduler = shell.driver.scheduler
    request = pb.DequeueGangsRequest(limit=10, type=resmgr_pb2.BATCH, ignore_host_pools=True)
    await shell.enqueue(pool, wire_gang(0))
    assert handed_out(list((await shell.tasks.DequeueGangs(request, ENGINE)).gangs)) == [None]
    assert scheduler.open_pools == {"shared", "batch_reserved"}
    fit = Translator().needs(wire_task(0, preemptible=True)).fit
    shape = Shape(frozenset({(fit, 1)}), spread=False)
    assert shape_to(shape, scheduler.open_pools).members[0].host_pool == ""
    request.ignore_host_pools = False
    await shell.enqueue(pool, wire_gang(1))
    assert handed_out(list((await shell.tasks.DequeueGangs(request, ENGINE)).gangs)) == [in_pool("shared")]


async def test_what_has_no_place_is_told_when_pools_are_turned_on(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    pool, capacity = await shell.pool(), Capacity(shell.driver, HostmgrsClient(shell.hostmgr), 1.0, 1.0)
    await capacity.update()
    await shell.enqueue(pool, wire_gang(0), wire_gang(1), wire_gang(2))
    assert "host pools" not in caplog.text
    shell.hostmgr.pooled = True
    await capacity.update()
    assert (
        "host pools are in use now, and shared has no host: tasks without a place: 3, of jobs: 1"
        in caplog.text
    )
