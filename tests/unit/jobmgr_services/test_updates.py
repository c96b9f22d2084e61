"""UpdateService, and the rolling calls of JobManager, over the engine without the other daemons."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from jobmgr.engine.workflows import Workflows
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.update import update_pb2
from peloton.api.v0.update.svc import update_svc_pb2 as pb
from peloton.api.v0.update.svc import update_svc_pb2_grpc
from tests.unit.jobmgr_services.configs import PARENT, job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_with_engine import real

__all__ = ["real"]
SERVICE = "type: SERVICE"
NOBODY = "f0000000-0000-4000-8000-00000000000f"
NEW = SERVICE + ' defaultConfig { command { value: "new" } }'


class Updates:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.stub = update_svc_pb2_grpc.UpdateServiceStub(served.channel)

    async def create(self, text: str = NEW, job: str = JOB, opaque: str = "", **options: Any) -> str:
        config = update_pb2.UpdateConfig(**options)
        request = pb.CreateUpdateRequest(jobId=job_id(job), jobConfig=_job(text), updateConfig=config)
        request.opaque_data.data = opaque
        answer = await self.stub.CreateUpdate(request)
        return str(answer.updateID.value)

    async def get(self, update: str, **options: Any) -> update_pb2.UpdateInfo:
        answer = await self.stub.GetUpdate(pb.GetUpdateRequest(updateId=_id(update), **options))
        info: update_pb2.UpdateInfo = answer.updateInfo
        return info

    async def state(self, update: str) -> str:
        return update_pb2.State.Name((await self.get(update)).status.state)

    async def call(self, name: str, update: str, **fields: Any) -> None:
        request = getattr(pb, f"{name}Request")(updateId=_id(update), **fields)
        await getattr(self.stub, name)(request)


def _id(value: str) -> peloton_pb2.UpdateID:
    return peloton_pb2.UpdateID(value=value)


_job = job


@pytest.fixture
async def updates(real: Served) -> Updates:
    """With a service of three instances, none of which is launched."""
    assert not (await real.create(SERVICE)).HasField("error")
    return Updates(real)


async def test_an_update_is_created_and_read(updates: Updates) -> None:
    made = await updates.create(batchSize=2, startPaused=True, opaque="mine")
    info = await updates.get(made)
    assert (info.updateId.value, info.jobId.value, info.opaque_data.data) == (made, JOB, "mine")
    assert (info.configVersion, info.prevConfigVersion) == (2, 1)
    assert (info.config.batchSize, info.config.startPaused) == (2, True)
    assert not (await updates.get(made, statusOnly=True)).HasField("config")
    listed = await updates.stub.ListUpdates(pb.ListUpdatesRequest(jobID=job_id()))
    assert [each.updateId.value for each in listed.updateInfo] == [made]
    job = await updates.served.jobs.Get(job_pb2.GetRequest(id=job_id()))
    assert job.jobInfo.runtime.updateID.value == made
    assert job.jobInfo.config.defaultConfig.command.value == "new"


async def test_an_update_is_paused_resumed_and_aborted(updates: Updates) -> None:
    made = await updates.create()
    opaque = peloton_pb2.OpaqueData(data="later")
    for _ in range(2):
        await updates.call("PauseUpdate", made, opaque_data=opaque)
        assert await updates.state(made) == "PAUSED"
    assert (await updates.get(made)).opaque_data.data == "later"
    for _ in range(2):
        await updates.call("ResumeUpdate", made)
        assert await updates.state(made) == "ROLLING_FORWARD"
    await updates.call("AbortUpdate", made)
    assert await updates.state(made) == "ABORTED"
    for name in ("PauseUpdate", "ResumeUpdate", "RollbackUpdate", "AbortUpdate"):
        with status(grpc.StatusCode.INVALID_ARGUMENT, "is ABORTED"):
            await updates.call(name, made)


async def test_an_update_is_rolled_back(updates: Updates) -> None:
    made = await updates.create(batchSize=1, startPaused=True)
    await updates.call("RollbackUpdate", made)
    assert await updates.state(made) in ("ROLLING_BACKWARD", "ROLLED_BACK")
    job = await updates.served.jobs.Get(job_pb2.GetRequest(id=job_id()))
    assert job.jobInfo.runtime.configVersion == 1


async def test_the_cache_names_the_instances(updates: Updates) -> None:
    made = await updates.create(NEW + " instanceCount: 4", batchSize=1, startPaused=True)
    cache = await updates.stub.GetUpdateCache(pb.GetUpdateCacheRequest(updateId=_id(made)))
    assert (cache.jobId.value, list(cache.instancesAdded)) == (JOB, [3])
    assert list(cache.instancesTotal) == [0, 1, 2, 3]


async def test_a_newer_update_aborts_the_one_that_runs(updates: Updates) -> None:
    first = await updates.create()
    second = await updates.create(SERVICE + ' defaultConfig { command { value: "newer" } }')
    assert (await updates.state(first), first != second) == ("ABORTED", True)


async def test_a_repeated_update_is_the_same_one(updates: Updates) -> None:
    first = await updates.create(opaque="one")
    assert await updates.create(opaque="two") == first
    assert (await updates.get(first)).opaque_data.data == "two"


@pytest.mark.parametrize(
    "name", ["PauseUpdate", "ResumeUpdate", "RollbackUpdate", "AbortUpdate", "GetUpdate", "GetUpdateCache"]
)
@pytest.mark.parametrize("update", [NOBODY, "", "no id"])
async def test_an_unknown_update_is_not_found(updates: Updates, name: str, update: str) -> None:
    with status(grpc.StatusCode.NOT_FOUND, "update not found"):
        await updates.call(name, update)


async def test_a_rollback_may_be_repeated(updates: Updates) -> None:
    made = await updates.create(batchSize=1)
    await _has_current(updates, made, [0])
    for _ in range(2):
        await updates.call("RollbackUpdate", made)
        assert await updates.state(made) == "ROLLING_BACKWARD"


async def test_an_update_that_a_newer_one_replaced_cannot_be_steered(updates: Updates) -> None:
    first = await updates.create()
    second = await updates.create(SERVICE + ' defaultConfig { command { value: "newer" } }')
    told = f"it has ended; the last one of the job is UPDATE {second}, which is ROLLING_FORWARD"
    for name, done in (
        ("PauseUpdate", "paused"),
        ("ResumeUpdate", "resumed"),
        ("RollbackUpdate", "rolled back"),
        ("AbortUpdate", "aborted"),
    ):
        text = f"workflow: '{first}' is not one that can be {done}: {told}"
        with status(grpc.StatusCode.INVALID_ARGUMENT, text):
            await updates.call(name, first)
    with status(grpc.StatusCode.NOT_FOUND, "update not found in memory: only the last workflow of a service"):
        await updates.stub.GetUpdateCache(pb.GetUpdateCacheRequest(updateId=_id(first)))


async def test_what_is_no_update_is_not_rolled_back(updates: Updates) -> None:
    answer = await updates.served.jobs.Restart(
        job_pb2.RestartRequest(id=job_id(), restartConfig=job_pb2.RestartConfig(batchSize=1))
    )
    text = "workflow: 'RESTART' is not possible: only an update of a job that was there before can be rolled"
    with status(grpc.StatusCode.INVALID_ARGUMENT, text):
        await updates.call("RollbackUpdate", answer.updateID.value)


async def test_a_soft_abort_waits_for_what_is_in_flight(updates: Updates) -> None:
    made = await updates.create(batchSize=1)
    await _has_current(updates, made, [0])
    for _ in range(2):
        await updates.call("AbortUpdate", made, softAbort=True)
        assert await updates.state(made) == "ROLLING_FORWARD"
    await updates.call("AbortUpdate", made)
    assert await updates.state(made) == "ABORTED"


async def test_a_limit_below_zero_is_invalid(updates: Updates) -> None:
    request = pb.ListUpdatesRequest(jobID=job_id(), limit=-1)
    with status(grpc.StatusCode.INVALID_ARGUMENT, "limit: -1 is not a number from 0, which stands for 10"):
        await updates.stub.ListUpdates(request)


async def test_a_job_that_is_being_deleted_is_not_updated(updates: Updates) -> None:
    await Workflows(updates.served.engine).delete_job(JOB, force=True)
    with status(grpc.StatusCode.FAILED_PRECONDITION, f"job {JOB} is being deleted"):
        await updates.create()


async def test_an_unknown_job_is_not_found(updates: Updates) -> None:
    with status(grpc.StatusCode.NOT_FOUND):
        await updates.create(job=NOBODY)
    with status(grpc.StatusCode.NOT_FOUND):
        await updates.stub.ListUpdates(pb.ListUpdatesRequest(jobID=job_id(NOBODY)))


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("", {}, "type"),
        (NEW + f' respoolID {{ value: "{PARENT}" }}', {}, "respool"),
        (NEW + " instanceCount: 100001", {}, "instanceCount"),
        (NEW, {"batchPercentage": 101.0}, "updateConfig.batchPercentage"),
    ],
)
async def test_what_is_invalid_is_told(
    updates: Updates, text: str, options: dict[str, Any], told: str
) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, told):
        await updates.create(text, **options)
    listed = await updates.stub.ListUpdates(pb.ListUpdatesRequest(jobID=job_id()))
    assert not listed.updateInfo


async def test_a_stale_version_is_aborted(updates: Updates) -> None:
    with status(grpc.StatusCode.ABORTED, "changeLog.version 7 is stale"):
        await updates.create(NEW + " changeLog { version: 7 }")


async def test_a_batch_job_has_no_updates(real: Served) -> None:
    await real.create()
    with status(grpc.StatusCode.INVALID_ARGUMENT, "only services"):
        await Updates(real).create("")


async def test_a_rolling_restart_is_a_workflow_and_excludes_updates(updates: Updates) -> None:
    request = job_pb2.RestartRequest(id=job_id(), restartConfig=job_pb2.RestartConfig(batchSize=1))
    answer = await updates.served.jobs.Restart(request)
    assert answer.resourceVersion == 2
    assert await updates.state(answer.updateID.value) in ("INITIALIZED", "ROLLING_FORWARD")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "is not possible while RESTART"):
        await updates.create()
    with status(grpc.StatusCode.ABORTED, "is stale"):
        await updates.served.jobs.Start(job_pb2.StartRequest(id=job_id(), resourceVersion=1))


async def test_a_service_is_stopped_in_batches_and_started(updates: Updates) -> None:
    jobs = updates.served.jobs
    stopped = await jobs.Stop(job_pb2.StopRequest(id=job_id(), stopConfig=job_pb2.StopConfig(batchSize=2)))
    await _has_current(updates, stopped.updateID.value, [0, 1])
    await updates.call("AbortUpdate", stopped.updateID.value)
    started = await jobs.Start(job_pb2.StartRequest(id=job_id()))
    await _has_current(updates, started.updateID.value, [0, 1, 2])  # none of them runs yet
    job = await jobs.Get(job_pb2.GetRequest(id=job_id()))
    assert job_pb2.JobState.Name(job.jobInfo.runtime.goalState) == "RUNNING"


async def test_a_batch_job_is_not_changed_by_batches(real: Served) -> None:
    await real.create()
    for method, request in (
        (real.jobs.Stop, job_pb2.StopRequest(id=job_id(), stopConfig=job_pb2.StopConfig(batchSize=1))),
        (real.jobs.Start, job_pb2.StartRequest(id=job_id(), startConfig=job_pb2.StartConfig(batchSize=1))),
    ):
        with status(grpc.StatusCode.INVALID_ARGUMENT, "only services are changed by batches"):
            await method(request)


async def _has_current(updates: Updates, update: str, wanted: list[int]) -> None:
    request = pb.GetUpdateCacheRequest(updateId=_id(update))
    async with asyncio.timeout(60):
        while True:
            if list((await updates.stub.GetUpdateCache(request)).instancesCurrent) == wanted:
                return
            await asyncio.sleep(0.01)
