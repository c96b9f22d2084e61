"""GetPreemptibleTasks, the reasons for it, and how preemption is set up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.config.errors import ConfigError
from peloton.config.loading import load
from peloton.errors import Fenced, InvalidArgument
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.preemption import preemption_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from resmgr.__main__ import loop_times
from resmgr.config import ResmgrSettings
from resmgr.core.preemption.decide import Rules
from resmgr.services.preemption import PreemptionService
from tests.unit.resmgr.shell import JOBMGR, Context, Shell, run_id, wire_gang
from tests.waiting import until

RUNNING = mesos_pb2.TASK_RUNNING


async def crowded(shell: Shell) -> None:
    """A pool full of two tasks, and one of higher priority that waits."""
    pool = await shell.pool(limit=100)
    await shell.enqueue(pool, wire_gang(0, cpu=50), wire_gang(1, cpu=50))
    gangs = await shell.dequeue()
    await shell.place(*gangs)
    await shell.hand_over()
    states = [
        pb.UpdateTasksStateRequest.UpdateTaskStateEntry(
            mesosTaskId=mesos_pb2.TaskID(value=run_id(instance)), state=task_pb2.RUNNING
        )
        for instance in range(2)
    ]
    await shell.tasks.UpdateTasksState(pb.UpdateTasksStateRequest(taskStates=states), shell.jobmgr)
    await shell.enqueue(pool, wire_gang(9, cpu=50, priority=3))


async def test_preempted_tasks_are_handed_out_once_with_their_reasons(shell: Shell) -> None:
    await crowded(shell)
    request = pb.GetPreemptibleTasksRequest(limit=10, timeout=20_000)
    waiting = asyncio.create_task(shell.tasks.GetPreemptibleTasks(request, JOBMGR))
    await asyncio.sleep(0)
    assert len(await shell.driver.preempt()) == 1
    answer = await asyncio.wait_for(waiting, 60)
    [candidate] = answer.preemptionCandidates
    assert candidate.reason == resmgr_pb2.PREEMPTION_REASON_REVOKE_RESOURCES
    assert [task.taskId.value for task in answer.tasks] == [candidate.task_id.value]
    assert candidate.task_id.value in (run_id(0), run_id(1))
    requested = preemption_pb2.GetReasonsRequest(mesos_task_ids=[candidate.task_id.value, run_id(9)])
    [reason] = (await PreemptionService(shell.driver).GetReasons(requested, JOBMGR)).reasons
    assert (reason.pool, reason.benefits, reason.policy) == ("/a", "/a", "same_pool")
    assert f"{run_id(9)} of priority 3 waits in /a" in reason.reason
    again = await shell.tasks.GetPreemptibleTasks(pb.GetPreemptibleTasksRequest(limit=10), JOBMGR)
    assert not again.preemptionCandidates


async def test_preempted_tasks_are_not_handed_to_a_leader_whose_successor_has_called(shell: Shell) -> None:
    """It may stand still while its call waits here, and would end nothing."""
    request = pb.GetPreemptibleTasksRequest(limit=10, timeout=20_000)
    former = Context("jobmgr/one", "jobmgr:5")
    waiting = asyncio.create_task(shell.tasks.GetPreemptibleTasks(request, former))
    await asyncio.sleep(0)
    shell.jobmgr = Context("jobmgr/two", "jobmgr:6")
    await crowded(shell)
    assert len(await shell.driver.preempt()) == 1
    with pytest.raises(Fenced):
        await waiting
    answer = await shell.tasks.GetPreemptibleTasks(request, shell.jobmgr)
    assert len(answer.preemptionCandidates) == 1


async def test_an_id_that_is_none_is_refused(shell: Shell) -> None:
    with pytest.raises(InvalidArgument):
        await PreemptionService(shell.driver).GetReasons(
            preemption_pb2.GetReasonsRequest(mesos_task_ids=["x"]), JOBMGR
        )


async def test_checks_come_by_themselves(shell: Shell) -> None:
    await crowded(shell)
    settings = shell.settings.model_copy(
        update={
            "preemption": shell.settings.preemption.model_copy(update={"period": 0.01}),
            "entitlement_interval": 0.01,
        }
    )
    shell.driver._times = loop_times(settings)
    running = [
        asyncio.create_task(shell.driver.keep_preempting()),
        asyncio.create_task(shell.driver.keep_sharing()),
    ]
    await until(lambda: len(shell.driver.preemptor))
    for each in running:
        each.cancel()


def test_settings(tmp_path: Path) -> None:
    file = tmp_path / "resmgr.yaml"
    file.write_text(
        "storage: {path: /x/y.db}\n"
        "preemption: {strikes: 2, minimum_run: 30, victims_per_minute: 7,"
        " policies: {/: [cross_pool], /a/b: []}}\n"
    )
    made = load(ResmgrSettings, [file], {"TASK_PREEMPTION_PERIOD": "1.5m"})
    assert made.preemption.period == 90.0
    assert load(ResmgrSettings, [file], {"TASK_PREEMPTION_PERIOD": "5"}).preemption.period == 5.0
    assert made.preemption.rules == Rules(
        {"/": ("cross_pool",), "/a/b": ()}, strikes=2, minimum_run=30.0, per_minute=7, period=90.0
    )
    for wrong in ("{period: 0}", "{policies: {a: [cross_pool]}}", "{policies: {/a: [sideways]}}"):
        file.write_text(f"storage: {{path: /x/y.db}}\npreemption: {wrong}\n")
        with pytest.raises(ConfigError):
            load(ResmgrSettings, [file])


async def test_runs_that_jobmgr_keeps_are_spared(shell: Shell) -> None:
    await crowded(shell)
    assert len(await shell.driver.preempt()) == 1
    answer = await shell.tasks.GetPreemptibleTasks(pb.GetPreemptibleTasksRequest(limit=10), JOBMGR)
    [candidate] = answer.preemptionCandidates
    service, run = PreemptionService(shell.driver), candidate.task_id.value
    kept = await service.KeepRuns(preemption_pb2.KeepRunsRequest(mesos_task_ids=[run, run_id(9)]), JOBMGR)
    assert kept.spared == 1
    reasons = await service.GetReasons(preemption_pb2.GetReasonsRequest(mesos_task_ids=[run]), JOBMGR)
    assert not reasons.reasons
    assert await shell.driver.preempt() == [], "no other task of its job is taken at once"
    with pytest.raises(InvalidArgument):
        await service.KeepRuns(preemption_pb2.KeepRunsRequest(mesos_task_ids=["x"] * 10_001), JOBMGR)
