"""Each request to the services gets an answer or one of Peloton's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobmgr.clients.matching import AgentsClient
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.v0.jobs import JobManager
from jobmgr.services.v0.tasks import TaskManager
from jobmgr.services.v1alpha.jobs import JobService
from jobmgr.services.v1alpha.pods import PodService
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2
from peloton.clock import ManualClock
from peloton.errors import PelotonError
from peloton.model.states import TaskState
from peloton.model.task import PodEvent
from peloton.wire.v1alpha.job_status import entity_version
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.property.jobmgr_validation.messages import mutate
from tests.unit.jobmgr_services.configs import POOLS, job
from tests.unit.jobmgr_services.conftest import JOB
from tests.unit.jobmgr_services.fake_workflows import FakeWorkflows
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine, FakeHostmgr, task
from tests.unit.wire.specs import job as service_spec

JOB_CALLS = ("Create", "Get", "Query", "Update", "Delete", "Stop", "Refresh", "GetCache", "GetActiveJobs")
TASK_CALLS = (
    "Get",
    "List",
    "Start",
    "Stop",
    "Restart",
    "Query",
    "BrowseSandbox",
    "Refresh",
    "GetCache",
    "GetPodEvents",
    "DeletePodEvents",
)
SERVICE_CALLS = tuple(
    method.name
    for method in stateless_svc_pb2.DESCRIPTOR.services_by_name["JobService"].methods
    if not method.server_streaming
)
POD_CALLS = tuple(method.name for method in pod_svc_pb2.DESCRIPTOR.services_by_name["PodService"].methods)
SERVICE = "a0000000-0000-4000-8000-00000000000c"


class World:
    """The servicers over a store with one job, and an event loop to call them in."""

    def __init__(self, path: Path) -> None:
        self.runner = asyncio.Runner()
        self.runner.run(self._begin(path))

    async def _begin(self, path: Path) -> None:
        self.store = await open_sqlite(SqliteSettings(path=path))
        for pool in POOLS:
            await self.store.pools.write(pool)
        engine, hostmgr = FakeEngine(self.store), FakeHostmgr()
        workflows: Any = FakeWorkflows(engine, lambda: NOW)
        hostmgr.answers = {"GetMesosAgentInfo": PelotonError("away")}
        self.jobs, self.tasks = (
            JobManager(engine, workflows, ManualClock(epoch=NOW)),
            TaskManager(engine, Sandboxes(lambda cluster: AgentsClient(hostmgr))),
        )
        self.services = JobService(engine, workflows, ManualClock(epoch=NOW))
        self.pods = PodService(engine, Sandboxes(lambda cluster: AgentsClient(hostmgr)))
        await self.jobs.Create(job_pb2.CreateRequest(id=peloton_pb2.JobID(value=JOB), config=job()), None)
        await engine.put(JOB, {0: task(run=2, host="h", agent_id="S"), 1: task()})
        created = stateless_svc_pb2.CreateJobRequest(spec=service_spec())
        created.job_id.value = SERVICE
        await self.services.CreateJob(created, None)
        await engine.put(SERVICE, {0: task(run=2, host="h", agent_id="S"), 1: task()})
        event = PodEvent(JOB, 0, 1, TaskState.FAILED, TaskState.SUCCEEDED, NOW, 1, 1, agent_id="S")
        await self.store.write_all(JOB, {}, [event])

    def call(self, servicer: Any, method: str, request: Message) -> None:
        try:
            answer = self.runner.run(getattr(servicer, method)(request, None))
        except (PelotonError, NotImplementedError) as error:
            assert str(error)
        else:
            assert isinstance(answer.SerializeToString(), bytes)

    def close(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    held = World(tmp_path_factory.mktemp("store") / "peloton.db")
    yield held
    held.close()


EASY = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EASY
@given(st.data())
def test_job_calls(world: World, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(JOB_CALLS))
    request = getattr(job_pb2, f"{method}Request")()
    if "id" in request.DESCRIPTOR.fields_by_name and data.draw(st.booleans()):
        request.id.value = JOB
    if method in ("Create", "Update"):
        request.config.CopyFrom(job("instanceCount: 4"))
    if request.DESCRIPTOR.fields:
        mutate(data.draw, request, most=8)
    world.call(world.jobs, method, request)


@EASY
@given(st.data())
def test_task_calls(world: World, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(TASK_CALLS))
    request = getattr(task_pb2, f"{method}Request")()
    if data.draw(st.booleans()):
        request.jobId.value = JOB
    mutate(data.draw, request, most=8)
    world.call(world.tasks, method, request)


@EASY
@given(st.data())
def test_service_calls(world: World, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(SERVICE_CALLS))
    request = getattr(stateless_svc_pb2, f"{method}Request")()
    fields = request.DESCRIPTOR.fields_by_name
    if "job_id" in fields:
        request.job_id.value = data.draw(st.sampled_from([SERVICE, SERVICE, JOB, "x"]))
    if "version" in fields and data.draw(st.booleans()):
        runtime = world.runner.run(world.services._engine.summary(SERVICE)).runtime
        request.version.value = str(entity_version(runtime))
    if "spec" in fields and method != "QueryPods" and method != "QueryJobs":
        request.spec.CopyFrom(service_spec())
    mutate(data.draw, request, most=4)
    world.call(world.services, method, request)


@EASY
@given(st.data())
def test_pod_calls(world: World, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(POD_CALLS))
    request = getattr(pod_svc_pb2, f"{method}Request")()
    name = data.draw(st.sampled_from([f"{SERVICE}-0", f"{SERVICE}-1", f"{SERVICE}-2", f"{JOB}-0", "x"]))
    request.pod_name.value = name
    if "pod_id" in request.DESCRIPTOR.fields_by_name:
        request.pod_id.value = data.draw(st.sampled_from(["", f"{name}-1", f"{name}-99", "7"]))
    if data.draw(st.booleans()):
        mutate(data.draw, request, most=2)
    world.call(world.pods, method, request)
