"""The calls of a task by its token: every method, about its own job, about others', and after its run."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory

from jobmgr.engine.task_access import TaskAccess
from jobmgr.server import NAMES
from jobmgr.services.common.spec_rules import SpecRules
from jobmgr.services.common.task_callers import is_alive
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.update.svc import update_svc_pb2, update_svc_pb2_grpc
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2, stateless_svc_pb2_grpc
from peloton.api.v1alpha.watch.svc import watch_svc_pb2, watch_svc_pb2_grpc
from peloton.identity.methods import ACCESS, FOR_TASKS, RENEW, TASK_ACCESS, interface, split
from peloton.identity.task_tokens import TaskClaim, TaskDoor, TaskKeys
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.private.access import access_pb2, access_pb2_grpc
from peloton.private.jobmgr.access import access_pb2 as task_access_pb2
from peloton.private.jobmgr.access import access_pb2_grpc as task_access_pb2_grpc
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.unit.identity.served import as_user
from tests.unit.jobmgr_services.configs import EXECUTOR, PARENT, POOLS, SERVICE, job
from tests.unit.jobmgr_services.fake_workflows import FakeWorkflows
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine, task
from tests.unit.jobmgr_services.gated import serving

OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
OWN, OTHER = "a0000000-0000-4000-8000-00000000000a", "a0000000-0000-4000-8000-00000000000b"
KEYS = TaskKeys([b"k" * 32])
RUN = Run(OWN, 0, 2)
SECOND = NOW // 10**9
OLDER = ("peloton.api.job.JobManager", "peloton.api.task.TaskManager")
SERVED = sorted(
    (service, method) for service, methods in interface().items() for method in methods if service in NAMES
) + [(older, method) for older in OLDER for method in interface()[older.replace(".api.", ".api.v0.")]]
DESCRIPTORS: Any = descriptor_pool


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


def token(run: Run = RUN, expires: int = SECOND + 60) -> str:
    return KEYS.sign(TaskClaim(run, expires))


class Served:
    def __init__(self, channel: Any, engine: FakeEngine, now: list[int]) -> None:
        self.channel, self.engine, self.now = channel, engine, now
        self.jobs = job_pb2_grpc.JobManagerStub(channel)
        self.services = stateless_svc_pb2_grpc.JobServiceStub(channel)
        self.access = task_access_pb2_grpc.TaskAccessServiceStub(channel)

    async def create(self, job_id: str, base: str = "", **fields: Any) -> None:
        request = job_pb2.CreateRequest(config=job(**({"base": base} if base else {})))
        request.id.value = job_id
        request.config.owner = "ann"
        for name, value in fields.items():
            setattr(request.config.defaultConfig.command, name, value)
        answer = await self.jobs.Create(request, metadata=as_user("admin"), timeout=60)
        assert not answer.HasField("error"), answer

    async def code(
        self, service: str, method: str, job_id: str, shown: str = "", *, ends: bool = True
    ) -> grpc.StatusCode:
        """Call a method about a job, with the token of the task; of a stream, read the beginning."""
        path, sent = f"/{service}/{method}", request_for(service, method, job_id)
        metadata = bearer(shown or token())
        try:
            if method in ("ListJobs", "ListPods", "Watch"):
                stream = self.channel.unary_stream(path)(sent, metadata=metadata, timeout=60)
                await stream.read()
                stream.cancel()
            else:
                await self.channel.unary_unary(path)(sent, metadata=metadata, timeout=60)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return OK


def request_for(service: str, method: str, job_id: str) -> bytes:
    """Return a request in which all ids are of a job."""
    service = split(f"/{service}/{method}")[0]
    described = DESCRIPTORS.Default().FindServiceByName(service).FindMethodByName(method).input_type
    request: Any = message_factory.GetMessageClass(described)()
    fill(request, job_id)
    return bytes(request.SerializeToString())


def fill(request: Any, job_id: str) -> None:
    values = {"PodName": f"{job_id}-0", "PodID": f"{job_id}-0-2", "TaskID": f"{job_id}-0"}
    values |= dict.fromkeys(("JobID", "UpdateID", "VolumeID"), job_id)
    for field in request.DESCRIPTOR.fields:
        kind = field.message_type.name if field.message_type is not None else ""
        if field.name in ("taskId", "runId") and not kind:
            setattr(
                request, field.name, f"{job_id}-0-2" if isinstance(getattr(request, field.name), str) else 2
            )
        elif kind == "JobConfig":
            getattr(request, field.name).CopyFrom(job())
        elif kind == "PodFilter":
            request.pod_filter.job_id.value = job_id
        elif kind in values and not field.is_repeated:
            getattr(request, field.name).value = values[kind]


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    engine = FakeEngine(store)
    lanes: Any = engine.lanes
    lanes.on_commit = lambda told: None

    async def row(named: str) -> Any:
        return SimpleNamespace(job_id=named)

    monkeypatch.setattr(store.workflows, "get", row)
    monkeypatch.setattr(store.volumes, "get", row)
    now = [NOW]
    clock: Callable[[], int] = lambda: now[0]  # noqa: E731 - a name for its type
    access = TaskAccess(lambda: "h:1", clock, KEYS, 60.0)
    door = TaskDoor(KEYS, clock, partial(is_alive, engine))
    roles = 'roles:\n- {role: admin, accept: ["*"]}'
    workflows = FakeWorkflows(engine, lambda: NOW)
    async with serving(tmp_path, engine, ["admin"], roles, None, workflows, tasks=door, access=access) as (
        channel,
        _,
    ):
        found = Served(channel, engine, now)
        for job_id in (OWN, OTHER):
            await found.create(job_id)
            await engine.put(job_id, {0: task(state=TaskState.RUNNING, run=2)})
        yield found
    await store.close()


def granted(service: str, method: str) -> bool:
    service, method = split(f"/{service}/{method}")
    return method in FOR_TASKS.get(service, ())


async def test_a_task_reaches_its_own_job_by_the_listed_methods_only(served: Served) -> None:
    codes = {path: await served.code(*path, OWN) for path in SERVED}
    refused = {path for path, code in codes.items() if code in (DENIED, UNAUTHENTICATED)}
    assert refused == {path for path in SERVED if not granted(*path)}
    assert len(refused) > 40 and len(codes) - len(refused) > 30


async def test_every_method_refuses_every_other_job(served: Served) -> None:
    await served.engine.end(OTHER)
    others = [OTHER, *(str(uuid.uuid4()) for _ in range(3)), "", f"{OWN}0", OWN.upper()]
    codes = {
        (*path, other): await served.code(*path, other)
        for path in SERVED
        for other in others
        if path[1] not in ("Cancel", RENEW) and not (path[1] == "Watch" and not other)
    }
    wrong = {path: code for path, code in codes.items() if code is not DENIED}
    assert wrong == {}
    assert served.engine.requests == []


@pytest.mark.parametrize("state", [state for state in TaskState if state.terminal])
async def test_the_token_of_an_ended_run_is_refused_by_every_method(served: Served, state: TaskState) -> None:
    assert await served.code("peloton.api.v0.job.JobManager", "Get", OWN) is OK
    await served.engine.put(OWN, {0: task(state=state, run=2)})
    codes = {path: await served.code(*path, OWN) for path in SERVED}
    assert set(codes.values()) == {UNAUTHENTICATED}


async def test_the_token_of_a_former_run_is_refused(served: Served) -> None:
    get = partial(served.code, "peloton.api.v0.job.JobManager", "Get", OWN)
    assert await get(token(Run(OWN, 0, 1))) is UNAUTHENTICATED
    await served.engine.put(OWN, {0: task(state=TaskState.RUNNING, run=3)})
    assert await get() is UNAUTHENTICATED
    assert await get(token(Run(OWN, 0, 3))) is OK
    assert await get(token(Run(OWN, 1, 1))) is UNAUTHENTICATED, "an instance that has not run"
    await served.engine.end(OWN)
    assert await get(token(Run(OWN, 0, 3))) is UNAUTHENTICATED


async def test_a_token_is_renewed_while_the_run_lives(served: Served) -> None:
    get = partial(served.code, "peloton.api.v0.job.JobManager", "Get", OWN)
    served.now[0] += 61 * 10**9
    assert await get() is UNAUTHENTICATED
    renew = partial(served.access.GetToken, task_access_pb2.GetTokenRequest(), timeout=60)
    answer = await renew(metadata=bearer(token()))
    assert answer.expires == SECOND + 61 + 60
    assert await get(answer.token) is OK
    await served.engine.put(OWN, {0: task(state=TaskState.FAILED, run=2)})
    assert await renew(metadata=bearer(answer.token)).code() is UNAUTHENTICATED


async def test_nobody_else_renews(served: Served) -> None:
    call = served.access.GetToken(task_access_pb2.GetTokenRequest(), metadata=as_user("admin"), timeout=60)
    assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert await call.details() == (
        "user admin has no token to renew: tasks have, on a cluster that gives them tokens"
    )


async def test_a_name_and_a_token_are_refused(served: Served) -> None:
    request = job_pb2.GetRequest()
    request.id.value = OWN
    call = served.jobs.Get(request, metadata=(*as_user("admin", "wrong"), *bearer(token())), timeout=60)
    assert await call.code() is UNAUTHENTICATED


async def test_a_watch_shows_the_own_job_only_and_ends_after_the_run(served: Served) -> None:
    watching = watch_svc_pb2_grpc.WatchServiceStub(served.channel)
    request = watch_svc_pb2.WatchRequest()
    for name in (f"{OTHER}-0", f"{OWN}-0"):
        request.pod_filter.pod_names.add(value=name)
    call = watching.Watch(request, metadata=bearer(token()), timeout=60)
    assert await call.code() is DENIED
    del request.pod_filter.pod_names[0]
    call = watching.Watch(request, metadata=bearer(token()), timeout=60)
    watch_id = (await call.read()).watch_id
    cancel = watch_svc_pb2.CancelRequest(watch_id=watch_id)
    assert await watching.Cancel(cancel, metadata=bearer(token(Run(OWN, 0, 2)))).code() is OK


def update(job_id: str = OWN) -> update_svc_pb2.CreateUpdateRequest:
    request = update_svc_pb2.CreateUpdateRequest()
    request.jobId.value = job_id
    request.jobConfig.CopyFrom(job(base=SERVICE))
    request.updateConfig.batchSize = 1
    return request


WIDER: dict[str, Callable[[job_pb2.JobConfig], object]] = {
    "owner": lambda config: setattr(config, "owner", "eve"),
    "pool": lambda config: setattr(config.respoolID, "value", PARENT),
    "user": lambda config: setattr(config.defaultConfig.command, "user", "root"),
    "user of an instance": lambda config: setattr(config.instanceConfig[0].command, "user", "root"),
    "container": lambda config: setattr(config.defaultConfig.container, "type", 1),
    "executor": lambda config: config.MergeFrom(job(f"defaultConfig {{ {EXECUTOR} }}", "")),
}


@pytest.mark.parametrize("what", WIDER)
async def test_an_update_by_a_task_widens_nothing(served: Served, what: str) -> None:
    service = "a0000000-0000-4000-8000-00000000000c"
    await served.create(service, SERVICE)
    await served.engine.put(service, {0: task(state=TaskState.RUNNING, run=1)})
    updates = update_svc_pb2_grpc.UpdateServiceStub(served.channel)
    request = update(service)
    WIDER[what](request.jobConfig)
    shown = bearer(token(Run(service, 0, 1)))
    call = updates.CreateUpdate(request, metadata=shown, timeout=60)
    assert await call.code() is DENIED
    assert what.partition(" ")[0] in await call.details()


async def test_a_task_without_a_user_gains_none_by_an_update_that_leaves_it_out(served: Served) -> None:
    service = "a0000000-0000-4000-8000-00000000000c"
    await served.create(service, SERVICE, user="nobody")
    await served.engine.put(service, {0: task(state=TaskState.RUNNING, run=1)})
    updates = update_svc_pb2_grpc.UpdateServiceStub(served.channel)
    call = updates.CreateUpdate(update(service), metadata=bearer(token(Run(service, 0, 1))), timeout=60)
    assert await call.code() is DENIED


async def test_a_task_adds_instances_to_its_job(served: Served) -> None:
    request = job_pb2.UpdateRequest(config=job("instanceCount: 4"))
    request.id.value = OWN
    answer = await served.jobs.Update(request, metadata=bearer(token()), timeout=60)
    assert not answer.HasField("error"), answer
    held = served.engine.held[OWN].spec
    assert (held.instance_count, held.owner) == (4, "ann")


async def test_a_task_patches_the_number_of_its_pods(served: Served) -> None:
    service = "a0000000-0000-4000-8000-00000000000c"
    await served.create(service, SERVICE)
    await served.engine.put(service, {0: task(state=TaskState.RUNNING, run=1)})
    shown = bearer(token(Run(service, 0, 1)))
    request = stateless_svc_pb2.PatchJobRequest()
    request.job_id.value, request.version.value = service, "1-1-1"
    request.spec.instance_count = 5
    call = served.services.PatchJob(request, metadata=shown, timeout=60)
    assert await call.code() not in (DENIED, UNAUTHENTICATED)
    request.spec.respool_id.value = PARENT
    assert await served.services.PatchJob(request, metadata=shown, timeout=60).code() is DENIED


async def test_a_server_that_asks_and_has_no_keys_refuses_jobs_that_want_tokens(tmp_path: Path) -> None:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    access = TaskAccess(lambda: "h:1", lambda: NOW, asks=True)
    rules = SpecRules(tokens=access.enough)
    roles = 'roles:\n- {role: admin, accept: ["*"]}'
    async with serving(tmp_path, FakeEngine(store), ["admin"], roles, access=access, rules=rules) as (
        channel,
        _,
    ):
        request = job_pb2.CreateRequest(config=job("defaultConfig { workload { token: true } }"))
        create = job_pb2_grpc.JobManagerStub(channel).Create
        answer = await create(request, metadata=as_user("admin"), timeout=60)
    await store.close()
    assert answer.error.invalidConfig.message == (
        "workload.token: 'true' is not given by this server, which asks callers who they are: "
        "task_access.keys_file is not set"
    )


async def test_a_task_may_ask_who_it_is(served: Served) -> None:
    """The service is the daemons' own: here it is not served, and the gate decides first."""
    access = access_pb2_grpc.AccessServiceStub(served.channel)
    call = access.GetCaller(access_pb2.GetCallerRequest(), metadata=bearer(token()), timeout=60)
    assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
    assert ACCESS not in FOR_TASKS and TASK_ACCESS in FOR_TASKS
