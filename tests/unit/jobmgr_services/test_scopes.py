"""Roles that are bound to pools, or to the caller's own jobs, over a real gRPC server and a real store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory

from jobmgr.server import NAMES
from jobmgr.services.common.reach import limited
from jobmgr.services.common.scope import LISTING
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as svc
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.api.v1alpha.watch.svc import watch_svc_pb2, watch_svc_pb2_grpc
from peloton.identity.methods import interface, scoped
from peloton.identity.principal import Kind, Principal, Scope, enter
from peloton.model.job import JobQuery
from peloton.model.volume import Volume, VolumeState
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.unit.identity.served import as_user
from tests.unit.jobmgr_services.configs import POOLS, job
from tests.unit.jobmgr_services.fake_workflows import FakeWorkflows
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine
from tests.unit.jobmgr_services.gated import serving

DENIED = grpc.StatusCode.PERMISSION_DENIED
OURS, EVES = "a0000000-0000-4000-8000-00000000000a", "a0000000-0000-4000-8000-00000000000b"
USERS = ("admin", "inside", "outside", "owner", "eve")
ROLES = """
roles:
- {role: admin, accept: ["*"]}
- {role: inside, accept: ["*"], pools: [/teams]}
- {role: outside, accept: ["*"], pools: [/teams/batc, /elsewhere]}
- {role: owner, own: ["*"], pools: [/teams/batch]}
- {role: eve, accept: ["*:Get*", "*:Query*", "*:List*"], own: ["*"]}
"""
METHODS = sorted(
    (service, method)
    for service, methods in interface().items()
    for method in methods
    if service in NAMES and scoped(service, method)
)


class Served:
    def __init__(self, channel: Any, engine: Any, workflows: FakeWorkflows, lines: list[str]) -> None:
        self.channel, self.engine, self.workflows, self.lines = channel, engine, workflows, lines
        self.jobs = job_pb2_grpc.JobManagerStub(channel)
        self.services = stateless_svc_pb2_grpc.JobServiceStub(channel)

    async def create(self, user: str, job_id: str, **fields: Any) -> Any:
        config = job(f'respoolID {{ value: "{POOLS[2].id}" }}')
        for name, value in fields.items():
            setattr(config, name, value)
        request = job_pb2.CreateRequest(config=config)
        request.id.value = job_id
        return await self.jobs.Create(request, metadata=as_user(user), timeout=60)

    async def code(self, user: str, service: str, method: str) -> grpc.StatusCode:
        """Call a method about the job, or with its spec, of the administrator."""
        path = f"/{service}/{method}"
        try:
            if method in ("ListJobs", "ListPods"):
                stream = self.channel.unary_stream(path)(request_for(service, method), metadata=as_user(user))
                async for _ in stream:
                    pass
            else:
                call = self.channel.unary_unary(path)
                await call(request_for(service, method), metadata=as_user(user), timeout=60)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


DESCRIPTORS: Any = descriptor_pool


def request_for(service: str, method: str) -> bytes:
    described = DESCRIPTORS.Default().FindServiceByName(service).FindMethodByName(method).input_type
    request: Any = message_factory.GetMessageClass(described)()
    for field in described.fields:
        kind = field.message_type.name if field.message_type is not None else ""
        if kind in ("JobID", "VolumeID", "UpdateID"):
            getattr(request, field.name).value = OURS
        elif kind == "PodName":
            getattr(request, field.name).value = f"{OURS}-0"
        elif kind == "JobConfig":
            getattr(request, field.name).CopyFrom(job())
        elif kind == "JobSpec":
            getattr(request, field.name).respool_id.value = POOLS[2].id
    return bytes(request.SerializeToString())


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    engine = FakeEngine(store)
    workflows = FakeWorkflows(engine, lambda: NOW)
    async with serving(tmp_path, engine, USERS, ROLES, workflows=workflows) as (channel, lines):
        found = Served(channel, engine, workflows, lines)
        assert not (await found.create("admin", OURS, owner="ann")).HasField("error")
        yield found
    await store.close()


def names_a_job(service: str, method: str) -> bool:
    described = DESCRIPTORS.Default().FindServiceByName(service).FindMethodByName(method).input_type
    kinds = {field.message_type.name for field in described.fields if field.message_type is not None}
    return bool(kinds & {"JobID", "PodName", "JobConfig", "JobSpec", "UpdateID", "VolumeID"})


def test_every_method_is_about_a_job_or_lists_what_may_be_read() -> None:
    """A new one is called by the next test, or has to be added here, with a test of what it leaves out."""
    assert {method for service, method in METHODS if not names_a_job(service, method)} == LISTING


async def test_a_role_of_another_pool_is_refused_by_every_method_about_a_job(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(update_id: str) -> Any:
        return SimpleNamespace(job_id=update_id)

    monkeypatch.setattr(served.engine.store.workflows, "get", get)
    state = VolumeState.CREATED
    await served.engine.store.volumes.write(Volume(OURS, OURS, 0, "h1", 1, "data", state, state, NOW, NOW))
    before = await stored(served)
    codes = {path: await served.code("outside", *path) for path in METHODS if names_a_job(*path)}
    assert len(codes) > 50
    assert {path: code for path, code in codes.items() if code is not DENIED} == {}
    assert await stored(served) == before


async def stored(served: Served) -> list[Any]:
    """What a call could change."""
    store = served.engine.store
    job = served.engine.held[OURS]
    jobs = (await store.jobs.query(JobQuery(limit=100))).jobs
    return [job.runtime, job.spec, jobs, await store.volumes.all(), list(served.workflows.asked)]


async def test_a_role_of_the_pool_is_refused_by_none(served: Served) -> None:
    codes = {path: await served.code("inside", *path) for path in METHODS}
    assert {path for path, code in codes.items() if code is DENIED} == set()


async def test_what_is_about_no_pool_is_refused(served: Served) -> None:
    for service, method in (
        ("peloton.api.v1alpha.admin.svc.AdminService", "Lockdown"),
        ("peloton.private.jobmgr.JobManagerService", "QueryJobCache"),
    ):
        assert await served.code("inside", service, method) is DENIED, method


async def found(served: Served, user: str) -> list[str]:
    metadata = as_user(user)
    queried = await served.jobs.Query(job_pb2.QueryRequest(spec=job_pb2.QuerySpec()), metadata=metadata)
    v1alpha = await served.services.QueryJobs(svc.QueryJobsRequest(), metadata=metadata)
    listed = [
        summary.job_id.value
        async for answer in served.services.ListJobs(svc.ListJobsRequest(), metadata=metadata)
        for summary in answer.jobs
    ]
    ids = sorted(result.id.value for result in queried.results)
    assert queried.pagination.total == v1alpha.pagination.total == len(ids)
    assert sorted(listed) == sorted(record.job_id.value for record in v1alpha.records) == ids
    return ids


async def test_lists_leave_out_what_may_not_be_read(served: Served) -> None:
    assert not (await served.create("eve", EVES)).HasField("error")
    assert await found(served, "admin") == await found(served, "inside") == [OURS, EVES]
    assert await found(served, "outside") == []
    assert await found(served, "owner") == []
    assert await found(served, "eve") == [OURS, EVES]
    active = {
        user: (await served.jobs.GetActiveJobs(job_pb2.GetActiveJobsRequest(), metadata=as_user(user))).ids
        for user in ("inside", "outside")
    }
    assert {user: len(ids) for user, ids in active.items()} == {"inside": 2, "outside": 0}
    by_name = svc.GetJobIDFromJobNameRequest(job_name="hello")
    named = await served.services.GetJobIDFromJobName(by_name, metadata=as_user("inside"))
    assert len(named.job_id) == 2
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.services.GetJobIDFromJobName(by_name, metadata=as_user("outside"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_owner_may_stop_its_own_jobs_only(served: Served) -> None:
    assert not (await served.create("owner", EVES)).HasField("error")
    stop = job_pb2.StopRequest()
    stop.id.value = EVES
    await served.jobs.Stop(stop, metadata=as_user("owner"))
    stop.id.value = OURS
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.jobs.Stop(stop, metadata=as_user("owner"))
    assert caught.value.code() is DENIED
    assert caught.value.details() == (
        "user owner may do this to own jobs below /teams/batch only: the job is in the pool /teams/batch"
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.create("owner", "a0000000-0000-4000-8000-00000000000c", owner="ann")
    assert caught.value.code() is DENIED


async def test_who_created_a_job_is_kept(served: Served) -> None:
    await served.create("owner", EVES)
    request = job_pb2.GetRequest()
    request.id.value = EVES
    config = (await served.jobs.Get(request, metadata=as_user("inside"))).jobInfo.config
    assert (config.owner, config.changeLog.updatedBy) == ("owner", "owner")


def noted(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(served.lines[-1])
    return found


async def test_what_changes_something_is_in_the_audit_log(served: Served) -> None:
    line = noted(served)
    assert line.pop("seconds") > 0 and len(line.pop("request")) == 32 and line.pop("time").endswith("Z")
    assert line == {
        "principal": "admin",
        "kind": "user",
        "roles": ["admin"],
        "method": "peloton.api.v0.job.JobManager/Create",
        "object": {
            "job": OURS,
            "name": "hello",
            "pool": POOLS[2].id,
            "asks": {"instances": 3, "cpu": 0.1, "memory": 16.0},
        },
        "pool": POOLS[2].id,
        "code": "OK",
    }
    before = len(served.lines)
    await found(served, "admin")
    assert len(served.lines) == before


async def test_refusals_are_in_the_audit_log(served: Served) -> None:
    again = await served.create("admin", OURS)
    assert again.HasField("error") and noted(served)["refused"] == "alreadyExists"
    stop = job_pb2.StopRequest()
    stop.id.value = OURS
    for metadata, code, principal in (
        (as_user("outside"), "PERMISSION_DENIED", "outside"),
        (as_user("owner"), "PERMISSION_DENIED", "owner"),
        (as_user("admin", "pw-that-is-wrong"), "UNAUTHENTICATED", ""),
        ((), "UNAUTHENTICATED", ""),
    ):
        request_id = (("x-request-id", "given-by-the-caller"), ("rpc-caller", "a test"))
        with pytest.raises(grpc.aio.AioRpcError):
            await served.jobs.Stop(stop, metadata=(*metadata, *request_id), timeout=60)
        line = noted(served)
        assert (line["code"], line.get("principal", "")) == (code, principal)
        assert (line["request"], line["caller"]) == ("given-by-the-caller", "a test")
    assert "pw-that-is-wrong" not in "".join(served.lines)


async def test_no_content_of_a_request_is_in_the_audit_log(served: Served) -> None:
    request = job_pb2.CreateRequest(config=job())
    request.config.defaultConfig.command.environment.variables.add(name="TOKEN", value="in-the-environment")
    request.secrets.add(path="/x").value.data = b"in-the-secret"
    await served.jobs.Create(request, metadata=as_user("admin"), timeout=60)
    assert "Create" in served.lines[-1]
    for text in ("in-the-", "TOKEN", "echo hello"):
        assert text not in "".join(served.lines)


NEW = "a0000000-0000-4000-8000-00000000000c"


async def owner_of(served: Served, job_id: str) -> str:
    request = job_pb2.GetRequest()
    request.id.value = job_id
    config = (await served.jobs.Get(request, metadata=as_user("admin"))).jobInfo.config
    return str(config.owner)


async def test_the_server_fills_in_the_owner(served: Served) -> None:
    assert not (await served.create("inside", NEW)).HasField("error")
    assert await owner_of(served, NEW) == "inside"
    assert not (await served.create("admin", EVES)).HasField("error")
    assert await owner_of(served, EVES) == "admin"


async def test_nobody_but_an_administrator_names_another_owner(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.create("inside", NEW, owner="ann")
    assert caught.value.code() is DENIED
    assert caught.value.details() == "owner: 'ann' is not user inside: leave it out, and it is 'inside'"
    assert not (await served.create("inside", NEW, owner="inside")).HasField("error")
    assert await owner_of(served, OURS) == "ann", "the administrator named her"


async def test_an_update_keeps_the_owner(served: Served) -> None:
    """The job is ann's: an update by another leaves her name out, repeats it, or is refused."""
    for owner, refused in (("", False), ("ann", False), ("eve", True)):
        request = job_pb2.UpdateRequest(config=job(f"instanceCount: {5 if owner else 4}"))
        request.id.value, request.config.owner = OURS, owner
        call = served.jobs.Update(request, metadata=as_user("inside"))
        assert (await call.code() is DENIED) == refused, owner
        if not refused:
            assert not (await call).HasField("error")
        assert await owner_of(served, OURS) == "ann"


async def test_a_user_without_a_name_owns_nothing(served: Served) -> None:
    """Also no job without an owner."""
    enter(Principal("", Kind.USER), (Scope(own=True),))
    query = await limited(JobQuery(), served.engine)
    assert query.within == ()


async def test_a_watch_is_ended_by_its_watcher_only(served: Served) -> None:
    watching = watch_svc_pb2_grpc.WatchServiceStub(served.channel)
    request = watch_svc_pb2.WatchRequest()
    request.pod_filter.SetInParent()
    served.engine.lanes = SimpleNamespace(on_commit=lambda told: None)
    call = watching.Watch(request, metadata=as_user("inside"), timeout=60)
    cancel = watch_svc_pb2.CancelRequest(watch_id=(await call.read()).watch_id)
    assert await watching.Cancel(cancel, metadata=as_user("outside")).code() is grpc.StatusCode.NOT_FOUND
    assert await watching.Cancel(cancel, metadata=as_user("inside")).code() is grpc.StatusCode.OK
    assert await call.code() is grpc.StatusCode.CANCELLED


async def test_a_job_beyond_the_grant_is_not_watched(served: Served) -> None:
    watching = watch_svc_pb2_grpc.WatchServiceStub(served.channel)
    request = watch_svc_pb2.WatchRequest()
    request.stateless_job_filter.job_ids.add(value=OURS)
    call = watching.Watch(request, metadata=as_user("outside"), timeout=60)
    assert await call.code() is DENIED
    assert await call.details() == f"user outside may not watch the job {OURS}"


async def test_refusals_by_role_name_the_caller_in_the_audit_log(served: Served) -> None:
    """Of methods that the role does not grant at all, which are refused before the method is begun."""
    for user, service, method in (
        ("owner", "peloton.api.v1alpha.admin.svc.AdminService", "Lockdown"),
        ("eve", "peloton.private.jobmgr.JobManagerService", "RefreshThrottled"),
        ("inside", "peloton.private.hostmgr.hostsvc.InternalHostService", "LaunchTasks"),
    ):
        for again in range(2):  # the first one checks the password, the second one remembers it
            before = len(served.lines)
            assert (
                await served.channel.unary_unary(f"/{service}/{method}")(
                    b"", metadata=as_user(user), timeout=60
                ).code()
                is DENIED
            )
            assert len(served.lines) == before + 1, (method, again)
            line = noted(served)
            assert (line["principal"], line["kind"], line["roles"]) == (user, "user", [user])
            assert line["code"] == "PERMISSION_DENIED" and user in line["why"]
