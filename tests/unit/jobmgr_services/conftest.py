"""The services over a real gRPC server and a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.task import task_pb2_grpc
from peloton.api.v1alpha.admin.svc import admin_svc_pb2_grpc
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.api.v1alpha.pod.svc import pod_svc_pb2_grpc
from peloton.clock import ManualClock
from peloton.private.jobmgrsvc import jobmgrsvc_pb2_grpc
from peloton.rpc.server import RpcServer
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_services.configs import POOLS, job
from tests.unit.jobmgr_services.fake_workflows import FakeWorkflows
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine, FakeHostmgr, served_by

JOB = "a0000000-0000-4000-8000-00000000000a"


def job_id(value: str = JOB) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=value)


@contextmanager
def status(code: grpc.StatusCode, text: str = "") -> Iterator[None]:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        yield
    assert failure.value.code() is code, failure.value
    assert text in (failure.value.details() or "")


@dataclass
class Served:
    channel: Any
    engine: Any
    hostmgr: FakeHostmgr
    jobs: Any
    tasks: Any
    private: Any
    pods: Any = None
    services: Any = None
    workflows: Any = None
    admin: Any = None

    async def create(self, text: str = "", job: str = JOB, suspended: bool = False) -> job_pb2.CreateResponse:
        request = job_pb2.CreateRequest(id=job_id(job), config=_job(text), suspended=suspended)
        answer: job_pb2.CreateResponse = await self.jobs.Create(request)
        return answer


_job = job


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    engine, hostmgr = FakeEngine(store), FakeHostmgr()
    server = RpcServer(lambda: "nobody leads")
    workflows = FakeWorkflows(engine, lambda: NOW)
    server.activate(served_by(engine, ManualClock(epoch=NOW), hostmgr, workflows=workflows))
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Served(
            channel,
            engine,
            hostmgr,
            job_pb2_grpc.JobManagerStub(channel),
            task_pb2_grpc.TaskManagerStub(channel),
            jobmgrsvc_pb2_grpc.JobManagerServiceStub(channel),
            pod_svc_pb2_grpc.PodServiceStub(channel),
            stateless_svc_pb2_grpc.JobServiceStub(channel),
            workflows,
            admin_svc_pb2_grpc.AdminServiceStub(channel),
        )
    await server.stop(0)
    await store.close()


@pytest.fixture
async def with_job(served: Served) -> Served:
    """With a job of three instances that is active and has no task yet."""
    assert not (await served.create()).HasField("error")
    return served
