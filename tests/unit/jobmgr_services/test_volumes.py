"""Both volume services over the goal-state engine itself, without the other daemons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc
import pytest

from jobmgr.core.state.events import Launched, Placed, Placement, Statuses
from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v0.volume import volume_pb2
from peloton.api.v0.volume.svc import volume_svc_pb2 as v0_pb
from peloton.api.v0.volume.svc import volume_svc_pb2_grpc as v0_grpc
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.volume.svc import volume_svc_pb2 as v1alpha_pb
from peloton.api.v1alpha.volume.svc import volume_svc_pb2_grpc as v1alpha_grpc
from peloton.model.ids import Run
from peloton.model.lockdown import Component
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus
from peloton.model.volume import Volume, VolumeState, volume_id
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_with_engine import real, states

__all__ = ["real"]
OTHER = "b0000000-0000-4000-8000-00000000000b"
FIRST = volume_id(JOB, 0, 1)
STATEFUL = "defaultConfig { volume { containerPath: 'data' sizeMB: 64 } }"


class Api:
    """One of the two volume services."""

    def __init__(self, served: Served, new: bool) -> None:
        self._new = new
        self._pb: Any = v1alpha_pb if new else v0_pb
        stubs: Any = v1alpha_grpc if new else v0_grpc
        self._stub = stubs.VolumeServiceStub(served.channel)

    async def list(self, job: str = JOB) -> Any:
        request = self._pb.ListVolumesRequest()
        (request.job_id if self._new else request.jobId).value = job
        return (await self._stub.ListVolumes(request)).volumes

    def _id(self, request: Any, volume: str) -> Any:
        (request.volume_id if self._new else request.id).value = volume
        return request

    async def get(self, volume: str = FIRST) -> Any:
        return (await self._stub.GetVolume(self._id(self._pb.GetVolumeRequest(), volume))).result

    async def delete(self, volume: str = FIRST) -> Any:
        return await self._stub.DeleteVolume(self._id(self._pb.DeleteVolumeRequest(), volume))


@pytest.fixture(params=["v0", "v1alpha"])
def api(real: Served, request: pytest.FixtureRequest) -> Api:
    return Api(real, request.param == "v1alpha")


async def launched(real: Served) -> None:
    """A stateful service of three instances, the first of which runs on a host."""
    assert not (await real.create(f"type: SERVICE {STATEFUL}")).HasField("error")
    await states(real, [task_pb2.INITIALIZED] * 3)
    lanes, run = real.engine.lanes, Run(JOB, 0, 1)
    for answer in lanes.submit(Placed([Placement("host-1", "agent-1", "offer", (), (run,))])).values():
        await answer
    lanes.post(Launched([run]))
    report = TaskStatus(f"{JOB}-0-1", TaskState.RUNNING, 1, "agent-1", uuid=b"u")
    for answer in lanes.submit(Statuses([(run, report)])).values():
        await answer


async def stopped(real: Served) -> None:
    await real.tasks.Stop(task_pb2.StopRequest(jobId=job_id()))
    run, report = Run(JOB, 0, 1), TaskStatus(f"{JOB}-0-1", TaskState.KILLED, 2, "agent-1", uuid=b"v")
    for answer in real.engine.lanes.submit(Statuses([(run, report)])).values():
        await answer


async def test_a_volume_is_listed_and_got(real: Served, api: Api) -> None:
    await launched(real)
    listed = await api.list()
    assert set(listed) == {FIRST}
    assert await api.get() == listed[FIRST]
    found = (await Api(real, new=False).get(), await Api(real, new=True).get())
    assert found[0].jobId == v0.JobID(value=JOB) and found[0].instanceId == 0
    assert found[1].pod_name == v1alpha.PodName(value=f"{JOB}-0")
    for each in found:
        assert each.hostname == "host-1"
        assert each.state == volume_pb2.CREATED
    assert (found[0].sizeMB, found[0].containerPath) == (64, "data")
    assert (found[1].size_mb, found[1].container_path) == (64, "data")
    assert found[0].createTime == found[1].create_time != ""
    assert found[0].goalState == found[1].desired_state == volume_pb2.CREATED


async def test_a_job_without_volumes_has_none(real: Served, api: Api) -> None:
    await real.create("type: SERVICE")
    assert not await api.list()


@pytest.mark.parametrize("job", [OTHER, "nonsense", ""])
async def test_volumes_of_unknown_jobs(api: Api, job: str) -> None:
    with status(grpc.StatusCode.NOT_FOUND, "job not found" if job != OTHER else ""):
        await api.list(job)


@pytest.mark.parametrize("volume", [volume_id(OTHER, 0, 1), "nonsense", ""])
async def test_unknown_volumes(api: Api, volume: str) -> None:
    with status(grpc.StatusCode.NOT_FOUND, f"volume not found: {volume or '(empty)'}"):
        await api.get(volume)
    with status(grpc.StatusCode.NOT_FOUND, f"volume not found: {volume or '(empty)'}"):
        await api.delete(volume)


async def test_a_volume_in_use_is_not_deleted(real: Served, api: Api) -> None:
    await launched(real)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "in use: run 1 of instance 0 is RUNNING on host-1"):
        await api.delete()
    assert (await Api(real, new=False).get()).goalState == volume_pb2.CREATED


async def test_a_deletion_may_be_repeated(real: Served, api: Api) -> None:
    await launched(real)
    await stopped(real)
    for _ in range(2):
        await api.delete()
        found = await Api(real, new=False).get()
        assert (found.state, found.goalState) == (volume_pb2.CREATED, volume_pb2.DELETED)
    (queued,) = await real.engine.outbox.destroy.take(10)
    assert (queued.id, queued.hostname) == (FIRST, "host-1")
    info = (await real.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=0))).result
    assert (info.runtime.volumeID.value, info.runtime.desiredHost) == ("", "")


async def test_the_volume_of_a_deleted_job_is_listed_until_it_is_deleted(real: Served, api: Api) -> None:
    left = Volume(
        volume_id(OTHER, 3, 1), OTHER, 3, "host-2", 8, "data", VolumeState.CREATED, VolumeState.CREATED, 1, 1
    )
    await real.engine.store.volumes.write(left)
    assert set(await api.list(OTHER)) == {left.id}
    await api.delete(left.id)
    stored = await real.engine.store.volumes.get(left.id)
    assert stored == replace(left, goal=VolumeState.DELETED, updated_at=stored.updated_at)
    assert [each.id for each in await real.engine.outbox.destroy.take(10)] == [left.id]


async def test_a_lockdown_refuses_reads_and_writes(real: Served, api: Api) -> None:
    await launched(real)
    await real.engine.lockdown.lock(Component.WRITE)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "Write"):
        await api.delete()
    await api.get()
    await real.engine.lockdown.lock(Component.READ)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "Read"):
        await api.list()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("type: DAEMON", "defaultConfig.volume: 'a volume' is not allowed in a DAEMON job"),
        (
            "type: SERVICE sla { revocable: true preemptible: true }",
            "defaultConfig.revocable: True is not allowed in a task",
        ),
        ("type: BATCH sla { minimumRunningInstances: 2 }", "sla.minimumRunningInstances: 2 is not 0 or 1"),
    ],
)
async def test_stateful_tasks_are_neither_revocable_nor_in_gangs(real: Served, text: str, told: str) -> None:
    answer: job_pb2.CreateResponse = await real.create(f"{STATEFUL} {text}")
    assert told in answer.error.invalidConfig.message
