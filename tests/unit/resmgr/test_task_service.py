from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, NotFound, Unavailable
from peloton.private.eventstream import eventstream_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.placing import placing_pb2
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from resmgr.services.placing import PlacingService
from tests.unit.resmgr.shell import (
    CLIENT,
    ENGINE,
    JOBMGR,
    Context,
    Shell,
    placement,
    run_id,
    wire_gang,
    wire_task,
)
from tests.unit.resmgr.world import JOB, OTHER_JOB


def task_ids(*instances: int) -> list[peloton_pb2.TaskID]:
    return [peloton_pb2.TaskID(value=f"{JOB}-{instance}") for instance in instances]


def updates(state: task_pb2.TaskState.ValueType, *instances: int) -> pb.UpdateTasksStateRequest:
    request = pb.UpdateTasksStateRequest()
    for instance in instances:
        request.taskStates.add(mesosTaskId=mesos_pb2.TaskID(value=run_id(instance)), state=state)
    return request


async def test_a_run_passes_from_jobmgr_to_the_engine_and_back(shell: Shell) -> None:
    pool = await shell.pool()
    constraint = task_pb2.Constraint(type=task_pb2.Constraint.LABEL_CONSTRAINT)
    constraint.labelConstraint.label.key = "rack"
    sent = wire_task(0, cpu=2, numPorts=1, desiredHost="h7", priority=3, constraint=constraint)
    assert not (await shell.enqueue(pool, pb.Gang(tasks=[sent]))).HasField("error")
    [gang] = await shell.dequeue()
    [got] = gang.tasks
    assert (got.id, got.jobId, got.taskId) == (sent.id, sent.jobId, sent.taskId)
    assert (got.constraint, got.numPorts, got.desiredHost, got.priority) == (constraint, 1, "h7", 3)
    assert (got.resource, got.placementTimeoutSeconds, got.placementRetryCount) == (sent.resource, 600, 0)
    wanted = placement("h1", gang)
    wanted.ports.append(31000)
    answer = await shell.tasks.SetPlacements(pb.SetPlacementsRequest(placements=[wanted]), ENGINE)
    assert not answer.HasField("error")
    assert await shell.hand_over() == [wanted]
    await shell.tasks.UpdateTasksState(updates(task_pb2.LAUNCHED, 0), JOBMGR)
    assert await shell.states() == {run_id(0): "LAUNCHED"}
    assert (await shell.usage(pool))["cpu"] == 2
    await shell.tasks.UpdateTasksState(updates(task_pb2.LOST, 0), JOBMGR)
    assert await shell.states() == {}
    assert (await shell.usage(pool))["cpu"] == 0


async def test_unknown_pools_and_inner_pools_take_no_gangs(shell: Shell) -> None:
    answer = await shell.enqueue("nobody", wire_gang(0))
    assert answer.error.notFound.id.value == "nobody"
    parent = await shell.pool("a")
    await shell.pool("b", parent, reservation=1)
    for pool in (parent, "root"):
        answer = await shell.enqueue(pool, wire_gang(0))
        assert answer.error.noPermission.id.value == pool
        assert "only leaves take jobs" in answer.error.noPermission.message
    assert await shell.states() == {}


async def test_invalid_gangs_are_reported_one_by_one_and_the_others_queued(shell: Shell) -> None:
    pool = await shell.pool()
    mixed = pb.Gang(tasks=[wire_task(4), wire_task(5, type=resmgr_pb2.STATEFUL)])
    answer = await shell.enqueue(
        pool,
        wire_gang(0, cpu=-1),
        wire_gang(1),
        pb.Gang(tasks=[wire_task(2, cpu=math.nan), wire_task(3)]),
        mixed,
        wire_gang(6, type=resmgr_pb2.UNKNOWN),
        pb.Gang(tasks=[resmgr_pb2.Task(taskId=mesos_pb2.TaskID(value="nonsense"))]),
    )
    failed = {task.task.taskId.value: task for task in answer.error.failure.failed}
    assert set(await shell.states()) == {run_id(1)}
    assert "resource.cpuLimit: -1.0 is not" in failed[run_id(0)].message
    assert "resource.cpuLimit: nan is not" in failed[run_id(2)].message
    code = pb.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_FAILED_DUE_TO_GANG_FAILED
    assert failed[run_id(3)].errorcode == code
    assert "one task type" in failed[run_id(5)].message
    assert "type: 0 is not" in failed[run_id(6)].message
    assert "nonsense" in failed["nonsense"].message
    assert len(failed) == 7


async def test_a_gang_beyond_a_limit_is_refused(shell: Shell) -> None:
    parent = await shell.pool("a", limit=50)
    pool = await shell.pool("b", parent, limit=20)
    answer = await shell.enqueue(pool, wire_gang(0, 1, cpu=15), wire_gang(2, cpu=15))
    failed = {task.task.taskId.value: task.message for task in answer.error.failure.failed}
    assert failed == dict.fromkeys((run_id(0), run_id(1)), "cpu: gang 30 cores > limit 20 cores of /a/b")
    assert await shell.states() == {run_id(2): "READY"}


async def test_unknown_numbers_are_refused(shell: Shell) -> None:
    request = pb.UpdateTasksStateRequest()
    request.taskStates.add(mesosTaskId=mesos_pb2.TaskID(value=run_id(0)), state=77)
    with pytest.raises(InvalidArgument, match=r"taskStates\[0\].state: 77"):
        await shell.tasks.UpdateTasksState(request, JOBMGR)
    for kind in (0, 77):
        with pytest.raises(InvalidArgument, match=f"type: {kind} is not BATCH"):
            await shell.tasks.DequeueGangs(pb.DequeueGangsRequest(type=kind), ENGINE)  # type: ignore[arg-type]


async def test_the_same_run_again_is_no_error(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    assert not (await shell.enqueue(pool, wire_gang(0))).HasField("error")
    assert len(await shell.dequeue()) == 1
    assert await shell.dequeue() == []


async def test_an_engine_waits_for_gangs_and_gets_them_at_once(shell: Shell) -> None:
    pool = await shell.pool()
    waiting = asyncio.create_task(shell.dequeue(timeout=20_000))
    await asyncio.sleep(0)
    await shell.enqueue(pool, wire_gang(0))
    assert len(await asyncio.wait_for(waiting, 60)) == 1
    taking = asyncio.create_task(shell.hand_over(timeout=20_000))
    await asyncio.sleep(0)
    await shell.place(wire_gang(0))
    assert len(await asyncio.wait_for(taking, 60)) == 1
    assert await shell.dequeue(timeout=1) == []


async def test_refused_placements_are_reported_by_run(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0, 1), wire_gang(2))
    await shell.dequeue()
    answer = await shell.tasks.SetPlacements(
        pb.SetPlacementsRequest(
            placements=[
                placement("h1", wire_gang(0, 2, 9)),
                resmgr_pb2.Placement(taskIDs=[resmgr_pb2.Placement.Task()]),
            ]
        ),
        ENGINE,
    )
    failed = {
        failed.placement.taskIDs[0].mesosTaskID.value: failed.message
        for failed in answer.error.failure.failed
    }
    assert "its gang is not placed whole" in failed[run_id(0)]
    assert "the run is not known" in failed[run_id(9)]
    assert "Mesos task id: ''" in failed[""]
    [given] = await shell.hand_over()
    assert [task.mesosTaskID.value for task in given.taskIDs] == [run_id(2)]


async def test_the_reason_of_an_engine_is_reported_with_the_task(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    gangs = await shell.dequeue()
    request = pb.SetPlacementsRequest()
    request.failedPlacements.add(reason="3 hosts: 2 too small, 1 has no offer", gang=gangs[0])
    assert not (await shell.tasks.SetPlacements(request, ENGINE)).HasField("error")
    answer = await shell.tasks.GetActiveTasks(pb.GetActiveTasksRequest(), CLIENT)
    [entry] = answer.tasksByState["READY"].taskEntry
    assert entry.reason == "3 hosts: 2 too small, 1 has no offer"
    shell.driver.scheduler.expire(shell.driver.now() + 2)
    [gang] = await shell.dequeue()
    assert (gang.tasks[0].placementRetryCount, gang.tasks[0].placementTimeoutSeconds) == (1, 1200)


async def test_active_tasks_are_filtered(shell: Shell) -> None:
    first, second = await shell.pool("a", reservation=1), await shell.pool("b", reservation=1)
    await shell.enqueue(first, wire_gang(0), wire_gang(1, cpu=1000))
    await shell.enqueue(second, wire_gang(2))
    await shell.dequeue()
    await shell.place(wire_gang(0), host="h9")

    async def runs(**of: Any) -> dict[str, str]:
        return dict((await shell.tasks.GetActiveTasks(pb.GetActiveTasksRequest(**of), CLIENT)).taskStatesMap)

    assert await runs(states=["PENDING", "PLACED"]) == {run_id(0): "PLACED", run_id(1): "PENDING"}
    assert set(await runs(respoolID=second)) == {run_id(2)}
    assert len(await runs(respoolID="root", jobID=JOB)) == 3
    assert await runs(jobID=OTHER_JOB) == {}
    answer = await shell.tasks.GetActiveTasks(pb.GetActiveTasksRequest(states=["PLACED"]), CLIENT)
    [entry] = answer.tasksByState["PLACED"].taskEntry
    assert (entry.taskID, entry.hostname) == (run_id(0), "h9")
    assert entry.lastUpdateTime.startswith("20")
    answer = await shell.tasks.GetActiveTasks(pb.GetActiveTasksRequest(states=["HUNGRY"]), CLIENT)
    assert answer.error.message == "states[0]: 'HUNGRY' is not the name of a TaskState"
    assert (await shell.tasks.GetActiveTasks(pb.GetActiveTasksRequest(respoolID="x"), CLIENT)).error.message


async def test_pending_tasks_come_in_queue_order(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(
        pool,
        wire_gang(9),
        wire_gang(0, cpu=100),
        wire_gang(1),
        wire_gang(2, 3, priority=5, preemptible=False, cpu=20),
    )
    request = pb.GetPendingTasksRequest(limit=10)
    request.respoolID.value = pool
    answer = await shell.tasks.GetPendingTasks(request, CLIENT)
    queues = {
        name: [list(gang.taskIDs) for gang in gangs.pendingGangs]
        for name, gangs in answer.pendingGangsByQueue.items()
    }
    assert queues == {
        "non-preemptible": [[f"{JOB}-2", f"{JOB}-3"]],
        "controller": [],
        "revocable": [],
        "pending": [[f"{JOB}-0"], [f"{JOB}-1"]],
    }
    request.limit = 1
    answer = await shell.tasks.GetPendingTasks(request, CLIENT)
    assert len(answer.pendingGangsByQueue["pending"].pendingGangs) == 1
    request.respoolID.value = "nobody"
    with pytest.raises(NotFound):
        await shell.tasks.GetPendingTasks(request, CLIENT)


async def test_kill_removes_waiting_tasks_and_names_the_state_of_others(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0), wire_gang(1))
    await shell.dequeue()
    await shell.place(wire_gang(0))
    await shell.hand_over()
    await shell.tasks.UpdateTasksState(updates(task_pb2.RUNNING, 0), JOBMGR)
    wrong = peloton_pb2.TaskID(value="nonsense")
    request = pb.KillTasksRequest(tasks=[*task_ids(0, 1, 2), wrong])
    answer = await shell.tasks.KillTasks(request, JOBMGR)
    kill, unknown, malformed = answer.error
    assert "RUNNING" in kill.killError.message
    assert (kill.killError.task.value, unknown.notFound.task.value) == (f"{JOB}-0", f"{JOB}-2")
    assert "nonsense" in malformed.notFound.message
    assert set(await shell.states()) == {run_id(0)}
    empty = await shell.tasks.KillTasks(pb.KillTasksRequest(), JOBMGR)
    assert "at least one task" in empty.error[0].killError.message


@pytest.mark.parametrize("runs", [[], [0], [1], [1, 2]])
async def test_a_kill_without_runs_is_of_whichever_is_held(shell: Shell, runs: list[int]) -> None:
    """An older job manager names none. What is beyond the tasks does not count."""
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    answer = await shell.tasks.KillTasks(pb.KillTasksRequest(tasks=task_ids(0), runs=runs), JOBMGR)
    assert not answer.error
    assert not await shell.states()


async def test_labels_of_tasks_are_counted_by_host_from_when_they_are_placed(shell: Shell) -> None:
    pool = await shell.pool()
    gang = wire_gang(0, 1)
    for task in gang.tasks:
        task.labels.labels.add(key="app", value="db")
    await shell.enqueue(pool, gang, wire_gang(2))
    await shell.dequeue()
    service = PlacingService(shell.driver)
    request = placing_pb2.GetLabelsOnHostsRequest(hostnames=["h1", "h2"])
    assert not (await service.GetLabelsOnHosts(request, CLIENT)).hosts
    await shell.place(wire_gang(0, 1), host="h1")
    await shell.place(wire_gang(2), host="h2")
    (host,) = (await service.GetLabelsOnHosts(request, CLIENT)).hosts
    assert (host.hostname, [(each.key, each.value, each.count) for each in host.labels]) == (
        "h1",
        [("app", "db", 2)],
    )


async def test_tasks_are_found_by_host_and_orphans_by_pool(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0), wire_gang(1))
    await shell.dequeue()
    await shell.place(wire_gang(0, 1), host="h1")
    await shell.hand_over()
    await shell.tasks.UpdateTasksState(updates(task_pb2.RUNNING, 0), JOBMGR)
    request = pb.GetTasksByHostsRequest(hostnames=["h1", "h2"])
    answer = await shell.tasks.GetTasksByHosts(request, CLIENT)
    assert [task.taskId.value for task in answer.hostTasksMap["h1"].tasks] == [run_id(0), run_id(1)]
    assert answer.hostTasksMap["h1"].tasks[0].hostname == "h1"
    assert list(answer.hostTasksMap["h2"].tasks) == []
    request.type = resmgr_pb2.STATEFUL
    assert not (await shell.tasks.GetTasksByHosts(request, CLIENT)).hostTasksMap["h1"].tasks
    await shell.enqueue(pool, wire_gang(0, run=2))
    for name in ("", pool):
        orphans = await shell.tasks.GetOrphanTasks(pb.GetOrphanTasksRequest(respoolID=name), CLIENT)
        assert [task.taskId.value for task in orphans.orphanTasks] == [run_id(0)]


async def test_a_run_that_is_enqueued_with_its_host_is_found_there(shell: Shell) -> None:
    pool = await shell.pool()
    kept = wire_gang(0)
    kept.tasks[0].hostname = "h9"
    assert not (await shell.enqueue(pool, kept, wire_gang(1))).HasField("error")
    assert await shell.states() == {run_id(0): "LAUNCHED", run_id(1): "READY"}
    assert [task.instance for task in shell.driver.scheduler.registry.on_host("h9")] == [0]
    (waiting,) = await shell.dequeue()
    assert [task.taskId.value for task in waiting.tasks] == [run_id(1)]


async def test_events_that_are_pushed_count_too(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    shell.hostmgr.status(run_id(0), mesos_pb2.TASK_RUNNING)
    shell.hostmgr.status("foreign", mesos_pb2.TASK_RUNNING)
    shell.hostmgr.events.append(eventstream_pb2.Event(offset=2, type=eventstream_pb2.Event.HOST_EVENT))
    request = pb.NotifyTaskUpdatesRequest(events=shell.hostmgr.events)
    answer = await shell.tasks.NotifyTaskUpdates(request, CLIENT)
    assert answer.purgeOffset == 2
    assert await shell.states() == {run_id(0): "RUNNING"}


async def test_nothing_is_preempted_so_far(shell: Shell) -> None:
    answer = await shell.tasks.GetPreemptibleTasks(pb.GetPreemptibleTasksRequest(timeout=1), JOBMGR)
    assert answer == pb.GetPreemptibleTasksResponse()


async def test_hosts_by_the_cost_of_moving_their_tasks(shell: Shell) -> None:
    pool = await shell.pool()
    shell.hostmgr.hosts = ["h2", "h1", "empty", "empty"]
    await shell.enqueue(pool, wire_gang(0), wire_gang(1), wire_gang(2))
    await shell.dequeue()
    await shell.place(wire_gang(0, 1), host="h1")
    await shell.place(wire_gang(2), host="h2")
    await shell.hand_over()
    answer = await shell.tasks.GetHostsByScores(pb.GetHostsByScoresRequest(), CLIENT)
    assert list(answer.hosts) == ["empty", "h2", "h1"]
    answer = await shell.tasks.GetHostsByScores(pb.GetHostsByScoresRequest(limit=2), CLIENT)
    assert list(answer.hosts) == ["empty", "h2"]
    shell.hostmgr.down = True
    with pytest.raises(Unavailable):
        await shell.tasks.GetHostsByScores(pb.GetHostsByScoresRequest(), CLIENT)


async def test_reasons_are_followed_as_deltas(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(9), wire_gang(0, cpu=100))
    first = await shell.waiting.WaitForDeltas(waiting_pb2.WaitForDeltasRequest(), JOBMGR)
    assert [(delta.mesos_task_id, delta.reason) for delta in first.deltas] == [
        (run_id(0), "cpu: allocation 1 core + gang 100 cores > entitlement 100 cores in /a")
    ]
    request = waiting_pb2.WaitForDeltasRequest(stream_id=first.stream_id, after=first.last, timeout_ms=20_000)
    waiting = asyncio.create_task(shell.waiting.WaitForDeltas(request, JOBMGR))
    await asyncio.sleep(0)
    await shell.enqueue(pool, wire_gang(1))
    second = await asyncio.wait_for(waiting, 60)
    assert (second.stream_id, second.last) == (first.stream_id, first.last + 1)
    assert second.deltas[0].reason == "behind earlier gangs in queue pending of /a"


async def test_a_reader_of_another_stream_gets_all_reasons_again(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(9), wire_gang(0, cpu=100), wire_gang(1))
    request = waiting_pb2.WaitForDeltasRequest(stream_id="an older one", after=77)
    answer = await shell.waiting.WaitForDeltas(request, JOBMGR)
    assert len(answer.deltas) == 2
    assert answer.stream_id not in ("", "an older one")
    request = waiting_pb2.WaitForDeltasRequest(stream_id=answer.stream_id, after=0, limit=1)
    answer = await shell.waiting.WaitForDeltas(request, JOBMGR)
    assert (len(answer.deltas), answer.last) == (1, 1)


async def test_the_id_of_the_stream_is_returned_at_once(shell: Shell) -> None:
    request = waiting_pb2.WaitForDeltasRequest(timeout_ms=20_000)
    answer = await asyncio.wait_for(shell.waiting.WaitForDeltas(request, JOBMGR), 60)
    assert answer.stream_id == shell.driver.scheduler.reasons.stream_id
    assert answer.leader_id == shell.driver.leader_id != Shell(shell.store).driver.leader_id
    assert (answer.last, len(answer.deltas)) == (0, 0)


async def test_a_caller_without_a_name_gets_no_lease(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0), wire_gang(1))
    request = pb.DequeueGangsRequest(limit=1, type=resmgr_pb2.BATCH)
    await shell.tasks.DequeueGangs(request, Context())
    await shell.tasks.DequeueGangs(request, ENGINE)
    assert shell.driver.scheduler.expire_leases(shell.driver.now() + 60) == 1
    assert sorted((await shell.states()).values()) == ["PLACING", "READY"]
