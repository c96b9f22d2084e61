"""What makes no sense is refused with its reason, or waits with it; nothing hangs, and the rest goes on."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.errors import InvalidArgument, NotFound, PelotonError
from peloton.model.resources import ZERO, Resources
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.explain import explain_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from resmgr.services.explain import ExplainService
from tests.unit.resmgr.shell import CLIENT, ENGINE, JOBMGR, Shell, pool_config, run_id, wire_gang, wire_task
from tests.unit.resmgr.world import CAPACITY, JOB

AMOUNTS = ("cpuLimit", "memLimitMb", "diskLimitMb", "gpuLimit")
WRONG = (-1.0, -0.001, math.nan, math.inf, -math.inf, 1e300)


@pytest_asyncio.fixture
async def sane(shell: Shell) -> AsyncIterator[Shell]:
    """Afterwards a gang that makes sense is admitted as ever."""
    yield shell
    shell.driver.scheduler.set_capacity(CAPACITY, ZERO)
    pool = await shell.pool("sane")
    assert not (await shell.enqueue(pool, wire_gang(77))).HasField("error")
    assert (await shell.states())[run_id(77)] == "READY"


async def reasons(shell: Shell) -> dict[str, str]:
    answer = await shell.tasks.GetActiveTasks(pb.GetActiveTasksRequest(), CLIENT)
    return {entry.taskID: entry.reason for of in answer.tasksByState.values() for entry in of.taskEntry}


@pytest.mark.parametrize("amount", WRONG)
@pytest.mark.parametrize("name", AMOUNTS)
async def test_amounts_that_are_none_are_refused_by_name(sane: Shell, name: str, amount: float) -> None:
    pool = await sane.pool()
    gang = wire_gang(0, 1)
    setattr(gang.tasks[1].resource, name, amount)
    failed = {each.task.taskId.value: each for each in (await sane.enqueue(pool, gang)).error.failure.failed}
    assert f"resource.{name}: {amount} is not a number from 0 to" in failed[run_id(1)].message
    assert set(failed) == {run_id(0), run_id(1)}, "whole or not at all"
    assert await sane.states() == {}


@pytest.mark.parametrize("amount", WRONG)
@pytest.mark.parametrize("name", ["reservation", "limit", "share"])
async def test_pools_of_such_amounts_are_refused_by_name(sane: Shell, name: str, amount: float) -> None:
    config = pool_config("b")
    setattr(config.resources[1], name, amount)
    answer = await sane.pools.CreateResourcePool(respool_pb2.CreateRequest(config=config), CLIENT)
    message = answer.error.invalidResourcePoolConfig.message
    assert message.startswith(f"resources[1].{name}: {amount} is not a number from 0 to")
    made = await sane.pool("b")
    update = respool_pb2.UpdateRequest(id=peloton_pb2.ResourcePoolID(value=made), config=config, Force=True)
    updated = await sane.pools.UpdateResourcePool(update, CLIENT)
    assert updated.error.invalidResourcePoolConfig.message == message, "not even by force"


@pytest.mark.parametrize("percent", [-1.0, 100.5, math.nan, math.inf])
@pytest.mark.parametrize("name", ["controllerLimit", "slackLimit"])
async def test_percentages_that_are_none_are_refused(sane: Shell, name: str, percent: float) -> None:
    config = pool_config("b")
    getattr(config, name).maxPercent = percent
    answer = await sane.pools.CreateResourcePool(respool_pb2.CreateRequest(config=config), CLIENT)
    message = answer.error.invalidResourcePoolConfig.message
    assert message == f"{name}.maxPercent: {percent} is not a percentage from 0 to 100"


async def test_a_gang_above_a_limit_is_refused_and_one_above_the_cluster_set_aside(
    sane: Shell,
) -> None:
    pool = await sane.pool(limit=150)
    answer = await sane.enqueue(pool, wire_gang(0, 1, 2, cpu=60), wire_gang(3, 4, cpu=60))
    failed = {each.task.taskId.value: each.message for each in answer.error.failure.failed}
    assert failed == dict.fromkeys(map(run_id, (0, 1, 2)), "cpu: gang 180 cores > limit 150 cores of /a")
    expected = (
        "needs 120 cores at a time; the cluster has 100 cores; waits for a cluster with at least 120 cores"
    )
    assert await reasons(sane) == {run_id(3): expected, run_id(4): expected}


async def test_a_limit_that_sank_below_a_waiting_gang_is_its_reason(sane: Shell) -> None:
    pool = await sane.pool(limit=200)
    await sane.enqueue(pool, wire_gang(1, cpu=30), wire_gang(0, cpu=80))
    update = respool_pb2.UpdateRequest(config=pool_config("a", limit=50))
    update.id.value = pool
    assert not (await sane.pools.UpdateResourcePool(update, CLIENT)).HasField("error")
    while sane.driver.cycle():
        pass
    expected = "cpu: allocation 30 cores + gang 80 cores > entitlement 50 cores in /a"
    assert await reasons(sane) == {run_id(0): expected, run_id(1): ""}


async def test_a_gang_beyond_reservation_controller_limit_or_slack_waits_with_its_reason(
    sane: Shell,
) -> None:
    sane.driver.scheduler.set_capacity(CAPACITY, Resources.of(10))
    config = pool_config("a")
    config.controllerLimit.maxPercent = 50
    answer = await sane.pools.CreateResourcePool(respool_pb2.CreateRequest(config=config), CLIENT)
    await sane.enqueue(
        answer.result.value,
        wire_gang(0, cpu=11, preemptible=False),
        wire_gang(1, cpu=6, controller=True),
        wire_gang(2, cpu=11, revocable=True),
        wire_gang(3),
    )
    assert await reasons(sane) == {
        run_id(0): "cpu: non-preemptible allocation 0 cores + gang 11 cores > reservation 10 cores in /a",
        run_id(1): "cpu: controller allocation 0 cores + gang 6 cores > controller limit 5 cores in /a",
        run_id(2): "cpu: slack allocation 0 cores + gang 11 cores > slack entitlement 10 cores in /a",
        run_id(3): "",
    }
    assert (await sane.states())[run_id(3)] == "READY"


async def test_a_deleted_pool_accepts_and_holds_nothing(sane: Shell) -> None:
    pool = await sane.pool()
    request = respool_pb2.DeleteRequest(path=respool_pb2.ResourcePoolPath(value="/a"))
    await sane.enqueue(pool, wire_gang(0))
    assert (await sane.pools.DeleteResourcePool(request, CLIENT)).error.HasField("isBusy")
    sane.driver.scheduler.kill(JOB, 0)
    assert not (await sane.pools.DeleteResourcePool(request, CLIENT)).HasField("error")
    for gone in (pool, "nobody", ""):
        answer = await sane.enqueue(gone, wire_gang(0))
        assert answer.error.notFound.id.value == gone
        assert answer.error.notFound.message == f"no resource pool has the id {gone!r}"
    assert await sane.states() == {}


async def test_a_cluster_without_capacity_admits_nothing_and_reports_the_reason(sane: Shell) -> None:
    parent = await sane.pool(reservation=0)
    pool = await sane.pool("b", parent, reservation=0)
    sane.driver.scheduler.set_capacity(ZERO, ZERO)
    empty = wire_task(1, cpu=0)
    empty.resource.Clear()
    await sane.enqueue(pool, wire_gang(0), wire_gang(2, priority=9), pb.Gang(tasks=[empty]))
    for _ in range(20):
        sane.driver.cycle()
    assert (await sane.driver.preempt()) == []
    expected = await reasons(sane)
    assert expected[run_id(2)] == "cpu: allocation 0 cores + gang 1 core > entitlement 0 cores in /a/b"
    assert expected[run_id(0)] == expected[run_id(1)] == "behind earlier gangs in queue pending of /a/b"
    assert all(not any(each.entitlement) for each in sane.driver.scheduler.tree)
    refused = await sane.pools.CreateResourcePool(respool_pb2.CreateRequest(config=pool_config("c")), CLIENT)
    assert "10.0 is not at most 0" in refused.error.invalidResourcePoolConfig.message


async def test_an_empty_gang_and_a_gang_with_a_repeated_task(sane: Shell) -> None:
    pool = await sane.pool()
    assert not (await sane.enqueue(pool, pb.Gang(), wire_gang(0, 0, 0))).HasField("error")
    assert await sane.states() == {run_id(0): "READY"}
    assert (await sane.usage(pool))["cpu"] == 1


def wrong_placement() -> pb.SetPlacementsRequest:
    placement = resmgr_pb2.Placement(hostname="h1")
    placement.taskIDs.add().mesosTaskID.value = "nonsense"
    return pb.SetPlacementsRequest(placements=[placement])


async def test_invalid_placements_are_reported_one_by_one(sane: Shell) -> None:
    answer = await sane.tasks.SetPlacements(wrong_placement(), ENGINE)
    assert "nonsense" in answer.error.failure.failed[0].message


def explain(shell: Shell) -> Any:
    request = explain_pb2.ExplainTaskRequest(job_id=peloton_pb2.JobID(value="nonsense"), instance=2**31)
    return ExplainService(shell.driver).ExplainTask(request, CLIENT)


CALLS: dict[str, tuple[Callable[[Shell], Any], type[PelotonError]]] = {
    "GetPendingTasks": (
        lambda shell: shell.tasks.GetPendingTasks(pb.GetPendingTasksRequest(limit=2**31), CLIENT),
        NotFound,
    ),
    "GetOrphanTasks": (
        lambda shell: shell.tasks.GetOrphanTasks(pb.GetOrphanTasksRequest(respoolID="nobody"), CLIENT),
        NotFound,
    ),
    "DequeueGangs": (
        lambda shell: shell.tasks.DequeueGangs(pb.DequeueGangsRequest(limit=2**31), ENGINE),
        InvalidArgument,
    ),
    "ExplainTask": (explain, NotFound),
}


@pytest.mark.parametrize("name", CALLS)
async def test_queries_for_unknown_ids_are_errors(sane: Shell, name: str) -> None:
    call, error = CALLS[name]
    with pytest.raises(error):
        await call(sane)


async def test_kills_of_unknown_tasks_are_reported(sane: Shell) -> None:
    tasks = [peloton_pb2.TaskID(value=value) for value in ("", "nonsense", f"{JOB}-4294967296")]
    answer = await sane.tasks.KillTasks(pb.KillTasksRequest(tasks=tasks), JOBMGR)
    assert len(answer.error) == 3
    assert all(each.notFound.message for each in answer.error)
