"""The services over the goal-state engine itself, without the other daemons: what is asked is there to be
read when the call returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
import pytest

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.server import services
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.task import task_pb2, task_pb2_grpc
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.api.v1alpha.pod.svc import pod_svc_pb2_grpc
from peloton.clock import SystemClock
from peloton.model.pool import PoolConfig
from peloton.private.jobmgrsvc import jobmgrsvc_pb2_grpc
from peloton.rpc.server import RpcServer
from storage.config import SqliteSettings
from storage.interface import Pools
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_services.configs import POOLS, job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.fakes import FakeHostmgr
from tests.unit.jobmgr_services.test_tasks import ranges

DEADLINE = 60.0


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Served]:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    engine, hostmgr = Engine(store), FakeHostmgr()
    lanes = asyncio.create_task(engine.lanes.run())
    server = RpcServer(lambda: "nobody leads")
    server.activate(services(engine, Workflows(engine), SystemClock(), hostmgr, hostmgr))
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        jobs, tasks = job_pb2_grpc.JobManagerStub(channel), task_pb2_grpc.TaskManagerStub(channel)
        pods = pod_svc_pb2_grpc.PodServiceStub(channel)
        v1alpha = stateless_svc_pb2_grpc.JobServiceStub(channel)
        private = jobmgrsvc_pb2_grpc.JobManagerServiceStub(channel)
        yield Served(channel, engine, hostmgr, jobs, tasks, private, pods, v1alpha)
    await server.stop(0)
    lanes.cancel()
    await asyncio.wait([lanes])
    await store.close()


async def states(served: Served, wanted: list[int]) -> None:
    """Wait until the tasks' states are these."""
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = await served.tasks.List(task_pb2.ListRequest(jobId=job_id()))
            held = answer.result.value
            if [held[i].runtime.state for i in sorted(held)] == wanted:
                return
            await asyncio.sleep(0.01)


async def test_a_job_from_create_to_delete(real: Served) -> None:
    assert not (await real.create()).HasField("error")
    assert (await real.create()).error.HasField("alreadyExists")
    await states(real, [task_pb2.INITIALIZED] * 3)

    more = job_pb2.UpdateRequest(id=job_id(), config=job("instanceCount: 4"))
    assert (await real.jobs.Update(more)).message == "added 1 instance"
    await states(real, [task_pb2.INITIALIZED] * 4)
    info = (await real.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo
    assert info.config.instanceCount == 4
    assert info.config.changeLog.version == info.runtime.configurationVersion == 2

    with status(grpc.StatusCode.INTERNAL, "Job is not in a terminal state"):
        await real.jobs.Delete(job_pb2.DeleteRequest(id=job_id()))
    stopped = await real.tasks.Stop(task_pb2.StopRequest(jobId=job_id(), ranges=ranges((1, 2))))
    assert list(stopped.stoppedInstanceIds) == [1] and not stopped.invalidInstanceIds
    one = await real.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=1))
    assert one.result.runtime.goalState == task_pb2.KILLED
    rest = await real.tasks.Stop(task_pb2.StopRequest(jobId=job_id()))
    assert set(rest.stoppedInstanceIds) >= {0, 2, 3}
    assert (await real.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo.runtime.goalState == job_pb2.KILLED
    assert "being stopped" in (await real.jobs.Update(more)).error.invalidConfig.message


async def test_unknown_jobs(real: Served) -> None:
    assert (await real.jobs.Get(job_pb2.GetRequest(id=job_id()))).error.HasField("notFound")
    assert (await real.tasks.Stop(task_pb2.StopRequest(jobId=job_id()))).error.notFound.id.value == JOB
    with status(grpc.StatusCode.NOT_FOUND, "job not found"):
        await real.jobs.Delete(job_pb2.DeleteRequest(id=job_id()))
    with status(grpc.StatusCode.NOT_FOUND):
        await real.jobs.Refresh(job_pb2.RefreshRequest(id=job_id()))


async def test_a_creation_reads_the_pools_once(real: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a busy loop a read takes some 10 ms."""
    pools: Pools = real.engine.store.pools
    read, reads = pools.all, []

    async def counted() -> Sequence[PoolConfig]:
        reads.append(1)
        return await read()

    monkeypatch.setattr(pools, "all", counted)
    assert not (await real.create()).HasField("error")
    assert len(reads) == 1
