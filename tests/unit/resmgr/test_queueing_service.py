"""Runs that need the same, enqueued together: as one by one."""

from __future__ import annotations

from typing import Any

import pytest

from jobmgr.clients.enqueueing import alike, refusals_of, request_of
from jobmgr.ports.resmgr import WaitingTask
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.ids import mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.resmgr.queueing import queueing_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.wire.job import job_spec
from peloton.wire.resmgr import resmgr_task
from resmgr.core.state.entities import Task
from resmgr.services.queueing import MOST_RUNS, QueueService
from resmgr.wire.tasks import task_to
from tests.unit.jobmgr_core.specs import config
from tests.unit.resmgr.shell import JOBMGR, Shell

JOB = "0f3f5c2a-0000-4000-8000-000000000001"
OTHER = "0f3f5c2a-0000-4000-8000-000000000002"


def waiting(job_id: str, instance: int, run: int = 1, spec: Any = None, **fields: Any) -> WaitingTask:
    runtime = TaskRuntime(
        state=TaskState.INITIALIZED,
        goal=TaskState.SUCCEEDED,
        run=run,
        config_version=1,
        desired_config_version=1,
        desired_run=run,
        **fields,
    )
    return WaitingTask(job_id, SPEC if spec is None else spec, instance, runtime)


SPEC = job_spec(config(100), 1)
GANG = job_spec(config(4, minimumRunningInstances=3), 1)


def with_override() -> Any:
    wire = config(10)
    wire.instanceConfig[5].resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=2, memLimitMb=1))
    return job_spec(wire, 1)


async def enqueue(shell: Shell, pool: str, *tasks: WaitingTask) -> dict[int, str]:
    groups = alike([[task] for task in tasks])
    assert groups is not None
    answer = await QueueService(shell.driver).EnqueueGangs(request_of(pool, groups), shell.jobmgr)
    while shell.driver.cycle():
        pass
    return dict(refusals_of(answer, groups))


def tasks_of(shell: Shell) -> list[Task]:
    return [task for job in shell.driver.scheduler.registry.jobs.values() for task in job.tasks.values()]


def held(shell: Shell) -> dict[str, tuple[str, Any]]:
    """State and message of each task, by its run."""
    return {mesos_task_id(*task.key): (task.state.name, task_to(task)) for task in tasks_of(shell)}


def test_tasks_that_follow_each_other_and_need_the_same_go_together() -> None:
    spec = with_override()
    tasks = [waiting(JOB, instance, spec=spec) for instance in (3, 4, 5, 6)]
    tasks += [waiting(OTHER, 0), waiting(OTHER, 1), waiting(OTHER, 1, 2)]
    groups = alike([[task] for task in tasks])
    assert groups is not None
    assert [[task.instance for task in group] for group in groups] == [[3, 4], [5], [6], [0, 1], [1]]


@pytest.mark.parametrize(
    "gangs",
    [
        [[waiting(JOB, 0, spec=GANG), waiting(JOB, 1, spec=GANG), waiting(JOB, 2, spec=GANG)]],
        [[waiting(JOB, 0)], [waiting(JOB, 2, spec=GANG)]],
        [[waiting(JOB, 0, host="h1")]],
        [[waiting(JOB, 0, desired_host="h1")]],
    ],
)
def test_gangs_and_tasks_with_something_of_their_own_go_in_full(gangs: list[list[WaitingTask]]) -> None:
    assert alike(gangs) is None


async def test_runs_are_queued_as_if_they_came_in_full(shell: Shell) -> None:
    spec = with_override()
    tasks = [waiting(JOB, instance, spec=spec) for instance in range(10)] + [waiting(OTHER, 3, 7)]
    compact, full = shell, Shell(shell.store)
    pool = await compact.pool()
    assert await enqueue(compact, pool, *tasks) == {}
    gangs = [resmgrsvc_pb2.Gang(tasks=[resmgr_task(*task)]) for task in tasks]
    assert not (await full.enqueue(await full.pool("b"), *gangs)).HasField("error")
    assert len(held(compact)) == 11
    assert held(compact) == held(full)
    assert len({task.needs for task in tasks_of(compact)}) == 2


async def test_runs_that_are_known_are_left_and_newer_ones_replace_them(shell: Shell) -> None:
    pool = await shell.pool()
    await enqueue(shell, pool, waiting(JOB, 0), waiting(JOB, 1, 5))
    await enqueue(shell, pool, waiting(JOB, 0), waiting(JOB, 1, 6), waiting(JOB, 2))
    assert set(held(shell)) == {f"{JOB}-0-1", f"{JOB}-1-6", f"{JOB}-2-1"}


async def test_refusals_name_the_runs(shell: Shell) -> None:
    pool = await shell.pool()
    large = config(3)
    large.defaultConfig.resource.cpuLimit = 1e9
    tasks = [waiting(JOB, 0), waiting(OTHER, 0, spec=job_spec(large, 1)), waiting(OTHER, 1), waiting(JOB, 1)]
    refused = await enqueue(shell, pool, *tasks)
    assert list(refused) == [1]
    assert set(await enqueue(shell, "nowhere", *tasks)) == {0, 1, 2, 3}
    parent = await shell.pool("parent")
    await shell.pool("child", parent)
    assert "is not a leaf" in (await enqueue(shell, parent, waiting(JOB, 9)))[0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"job_id": "x"}, "job_id"),
        ({"instances": [], "runs": []}, "at least one"),
        ({"runs": [1]}, "one number for each"),
        ({"instances": [1, 1]}, "named once"),
        ({"instances": [1, 2**31 + 1]}, "at most"),
        ({"runs": [1, 0]}, "from 1 on"),
        ({"instances": range(MOST_RUNS + 1), "runs": [1] * (MOST_RUNS + 1)}, "at most"),
    ],
)
async def test_runs_that_cannot_be_are_refused(shell: Shell, changes: dict[str, Any], why: str) -> None:
    fields: dict[str, Any] = {
        "job_id": JOB,
        "needs": resmgr_task(*waiting(JOB, 0)),
        "instances": [0, 1],
        "runs": [1, 1],
    }
    runs = queueing_pb2.AloneRuns(**(fields | changes))
    request = queueing_pb2.EnqueueGangsRequest(pool_id=await shell.pool(), runs=[runs])
    with pytest.raises(InvalidArgument, match=why):
        await QueueService(shell.driver).EnqueueGangs(request, JOBMGR)
    assert not await shell.states()
