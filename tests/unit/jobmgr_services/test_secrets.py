"""Secrets in the calls of both APIs: each refusal with its message, and what is stored and shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from jobmgr.services.common.spec_rules import SpecRules
from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.task import task_pb2
from peloton.api.v0.update.svc import update_svc_pb2, update_svc_pb2_grpc
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.clock import ManualClock
from peloton.errors import Refused
from peloton.model.ids import is_uuid
from peloton.model.payload import SecretRef
from peloton.rpc.server import RpcServer
from peloton.wire.meaning import fingerprint
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_services.configs import POOLS, SERVICE, job
from tests.unit.jobmgr_services.conftest import JOB, job_id, status
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine, FakeHostmgr, served_by
from tests.unit.wire import specs

HIDDEN = b"hidden content"
ID, OTHER = "a0000000-0000-4000-8000-0000000000a1", "a0000000-0000-4000-8000-0000000000a2"
MESOS = "defaultConfig { container { type: MESOS } }"
POD = "default_spec { mesos_spec { type: CONTAINER_TYPE_MESOS } }"


class Calls:
    def __init__(self, channel: Any, engine: Any) -> None:
        self.channel = channel
        self.engine = engine
        self.jobs = job_pb2_grpc.JobManagerStub(channel)
        self.services = stateless_svc_pb2_grpc.JobServiceStub(channel)
        self.updates = update_svc_pb2_grpc.UpdateServiceStub(channel)

    async def create(self, *secrets: v0.Secret, text: str = MESOS, base: str = "") -> str:
        """Create the job; why it was refused."""
        config = job(text, base) if base else job(text)
        request = job_pb2.CreateRequest(id=job_id(), config=config, secrets=secrets)
        return str((await self.jobs.Create(request)).error.invalidConfig.message)

    async def update(self, *secrets: v0.Secret, text: str = MESOS) -> str:
        request = job_pb2.UpdateRequest(id=job_id(), config=job(text), secrets=secrets)
        answer = await self.jobs.Update(request)
        return str(answer.error.invalidConfig.message or answer.message)

    async def shown(self) -> list[v0.Secret]:
        return list((await self.jobs.Get(job_pb2.GetRequest(id=job_id()))).secrets)

    def refs(self) -> tuple[SecretRef, ...]:
        found: tuple[SecretRef, ...] = self.engine.held[JOB].spec.payload.secrets
        return found

    async def contents(self) -> list[bytes]:
        return [await self.engine.store.secrets.read(JOB, ref.key) for ref in self.refs()]


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncIterator[Calls]:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in POOLS:
        await store.pools.write(pool)
    engine, hostmgr = FakeEngine(store), FakeHostmgr()
    server = RpcServer(lambda: "nobody leads")
    server.activate(served_by(engine, ManualClock(epoch=NOW), hostmgr, rules=SpecRules(secrets=True)))
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Calls(channel, engine)
    await server.stop(0)
    await store.close()


def secret(path: str = "/etc/key", data: bytes | None = HIDDEN, id: str = "") -> v0.Secret:
    wire = v0.Secret(path=path)
    if id:
        wire.id.value = id
    if data is not None:
        wire.value.data = data
    return wire


async def test_a_secret_is_stored_apart_and_shown_without_its_content(calls: Calls) -> None:
    assert await calls.create(secret(), secret("/etc/other", b"more", ID)) == ""
    first, second = await calls.shown()
    assert is_uuid(first.id.value) and (second.id.value, second.path) == (ID, "/etc/other")
    assert not first.HasField("value") and not second.HasField("value")
    assert await calls.contents() == [HIDDEN, b"more"]
    config = await calls.engine.store.jobs.config(JOB, 1)
    assert HIDDEN not in config.payload.data and first.id.value.encode() not in config.payload.data
    got = await calls.jobs.Get(job_pb2.GetRequest(id=job_id()))
    assert HIDDEN not in got.SerializeToString()
    assert got.jobInfo.config.defaultConfig == job(MESOS).defaultConfig


@pytest.mark.parametrize(
    ("secrets", "text", "message"),
    [
        ([secret()], "", "defaultConfig.container.type: 'no container' is not MESOS"),
        (
            [secret()],
            "defaultConfig { container { type: DOCKER docker { image: 'x' } } }",
            "container.type: 'DOCKER' is not MESOS",
        ),
        (
            [secret()],
            MESOS + "instanceConfig { key: 1 value { container { type: DOCKER docker { image: 'x' } } } }",
            "instanceConfig[1].container.type: 'DOCKER' is not MESOS",
        ),
        ([secret(id="x")], MESOS, "secrets[0].id: 'x' is not a UUID"),
        ([secret(""), secret()], MESOS, "secrets[0].path: '' is not the absolute path of a file"),
        ([secret("etc/key")], MESOS, "secrets[0].path: 'etc/key' is not"),
        ([secret("/etc/../key")], MESOS, "secrets[0].path: '/etc/../key' is not"),
        ([secret("/etc/")], MESOS, "secrets[0].path: '/etc/' is not"),
        ([secret("/")], MESOS, "secrets[0].path: '/' is not"),
        ([secret(), secret()], MESOS, "secrets[1].path: '/etc/key' is not a path of its own"),
        ([secret(id=ID), secret("/b", id=ID)], MESOS, f"secrets[1].id: '{ID}' is not an id of its own"),
        ([secret(data=None)], MESOS, "secrets[0].value: 'nothing' is not given: a new secret has a content"),
        ([secret(data=b"")], MESOS, "secrets[0].value.data: 'empty' is not a content"),
        ([secret(data=b"x" * (1 << 20)), secret("/b")], MESOS, "is not at most 1 MiB in all"),
        ([secret(f"/{i}") for i in range(101)], MESOS, "secrets: '101 secrets' is not at most 100"),
        (
            [secret("/mnt")],
            "defaultConfig { container { type: MESOS volumes { mode: RO container_path: '/mnt' } } }",
            "defaultConfig.container.volumes[0].container_path: '/mnt' is not a path of its own",
        ),
    ],
)
async def test_refusals(calls: Calls, secrets: list[v0.Secret], text: str, message: str) -> None:
    found = await calls.create(*secrets, text=text)
    assert message in found and HIDDEN.decode() not in found
    assert (await calls.jobs.Get(job_pb2.GetRequest(id=job_id()))).error.HasField("notFound")


@pytest.mark.parametrize("where", ["defaultConfig {", "instanceConfig { key: 1 value {"])
async def test_a_config_cannot_carry_a_content(calls: Calls, where: str) -> None:
    volume = "mode: RO container_path: '/k' source { secret { value { data: 'hidden content' } } }"
    text = f"{where} container {{ type: MESOS volumes {{ {volume} }} }} {'} ' * where.count('{')}"
    found = await calls.create(text=text)
    assert ".container.volumes[0].source: 'a secret' is not allowed in a config" in found
    assert "hidden" not in found


async def test_an_update_must_send_existing_secrets_again(calls: Calls) -> None:
    await calls.create(secret(id=ID))
    more = MESOS + "instanceCount: 5"
    expected = f"secrets: '0 secrets' is not complete: the job has the secret {ID} (/etc/key), send it again"
    assert await calls.update(text=more) == expected
    assert "send it again" in await calls.update(secret("/etc/other"), text=more)
    (held,) = calls.refs()
    assert await calls.update(secret(id=ID), text=more) == "added 2 instances"
    assert calls.refs() == (held,)
    assert await calls.update(secret(data=None, id=ID), text=more) == "nothing to change"
    assert await calls.update(secret(data=None), text=more) == "nothing to change"  # known by its path
    assert await calls.contents() == [HIDDEN]


async def test_an_update_changes_and_adds_secrets(calls: Calls) -> None:
    await calls.create(secret(id=ID))
    (old,) = calls.refs()
    assert (
        await calls.update(secret("/moved", b"new", ID), secret("/b", b"b", OTHER)) == "changed the secrets"
    )
    moved, added = calls.refs()
    assert (moved.id, moved.path, added.id) == (ID, "/moved", OTHER)
    assert moved.key != old.key and await calls.contents() == [b"new", b"b"]
    assert (await calls.engine.store.jobs.config(JOB, 1)).payload.secrets == (old,)
    assert await calls.engine.store.secrets.read(JOB, old.key) == HIDDEN  # for runs of the version before


async def test_a_lost_content_is_stored_again(calls: Calls) -> None:
    await calls.create(secret(id=ID))
    calls.engine.held[JOB].spec = replace(
        spec := calls.engine.held[JOB].spec,
        payload=replace(spec.payload, secrets=(SecretRef(ID, "/etc/key", "lost"),)),
    )
    assert await calls.update(secret(id=ID)) == "changed the secrets"
    assert await calls.contents() == [HIDDEN]


async def test_a_content_that_cannot_be_decrypted_is_stored_again(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    await calls.create(secret(id=ID))
    (lost,) = calls.refs()
    read = calls.engine.store.secrets.read

    async def damaged(job: str, key: str) -> bytes:
        if key == lost.key:
            raise Refused("it was changed in the store")
        return bytes(await read(job, key))

    monkeypatch.setattr(calls.engine.store.secrets, "read", damaged)
    assert await calls.update(secret(id=ID)) == "changed the secrets"
    assert await calls.contents() == [HIDDEN]


async def test_a_changed_content_is_a_changed_config_of_the_instances(calls: Calls) -> None:
    await calls.create(secret(id=ID))
    before = calls.engine.held[JOB].spec.payload.secrets
    await calls.update(secret(data=b"new", id=ID))
    config, after = task_pb2.TaskConfig(), calls.engine.held[JOB].spec.payload.secrets
    assert fingerprint(config, after) != fingerprint(config, before)


async def test_deleting_a_job_deletes_its_secrets(calls: Calls) -> None:
    await calls.create(secret())
    (ref,) = calls.refs()
    await calls.engine.end(JOB)
    await calls.jobs.Delete(job_pb2.DeleteRequest(id=job_id()))
    with pytest.raises(Exception, match="has no secret under the key"):
        await calls.engine.store.secrets.read(JOB, ref.key)


def pod_secret(path: str = "/etc/key", data: bytes | None = HIDDEN, id: str = "") -> v1alpha.Secret:
    wire = v1alpha.Secret(path=path)
    if id:
        wire.secret_id.value = id
    if data is not None:
        wire.value.data = data
    return wire


async def start(calls: Calls, *secrets: v1alpha.Secret, text: str = POD) -> str:
    request = pb.CreateJobRequest(job_id=v1alpha.JobID(value=JOB), spec=specs.job(text), secrets=secrets)
    return str((await calls.services.CreateJob(request)).version.value)


async def test_services_have_secrets(calls: Calls) -> None:
    await start(calls, pod_secret(id=ID))
    got = await calls.services.GetJob(pb.GetJobRequest(job_id=v1alpha.JobID(value=JOB)))
    assert [(each.secret_id.value, each.path) for each in got.secrets] == [(ID, "/etc/key")]
    assert HIDDEN not in got.SerializeToString()
    spec = got.job_info.spec
    assert spec.default_spec.mesos_spec == specs.job(POD).default_spec.mesos_spec
    assert not spec.default_spec.volumes and not spec.default_spec.containers[0].volume_mounts
    assert await calls.contents() == [HIDDEN]


@pytest.mark.parametrize(
    ("secrets", "text", "message"),
    [
        ([pod_secret()], "", "default_spec.containers[0].container.type: 'no container' is not MESOS"),
        ([pod_secret("key")], POD, "secrets[0].path: 'key' is not the absolute path"),
        ([pod_secret(id="x")], POD, "secrets[0].secret_id: 'x' is not a UUID"),
    ],
)
async def test_refused_services(calls: Calls, secrets: list[v1alpha.Secret], text: str, message: str) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, message):
        await start(calls, *secrets, text=text)


async def test_replacing_and_patching_a_service(calls: Calls) -> None:
    version = await start(calls, pod_secret(id=ID))
    wire = v1alpha.JobID(value=JOB), v1alpha.EntityVersion(value=version)
    new = specs.job(POD + "instance_count: 4")
    whole = pb.ReplaceJobRequest(job_id=wire[0], version=wire[1], spec=new)
    patch = pb.PatchJobRequest(job_id=wire[0], version=wire[1], spec=new)
    for call, request in ((calls.services.ReplaceJob, whole), (calls.services.PatchJob, patch)):
        with status(grpc.StatusCode.INVALID_ARGUMENT, "send it again"):
            await call(request)
    diff = pb.GetReplaceJobDiffRequest(job_id=wire[0], version=wire[1], spec=new)
    assert len((await calls.services.GetReplaceJobDiff(diff)).instances_added) == 1
    whole.secrets.append(pod_secret(data=b"new", id=ID))
    await calls.services.ReplaceJob(whole)
    stored = await calls.engine.store.jobs.config(JOB, 2)
    (ref,) = stored.payload.secrets
    assert await calls.engine.store.secrets.read(JOB, ref.key) == b"new"


async def test_a_replacement_may_drop_secrets(calls: Calls) -> None:
    version = await start(calls, pod_secret(id=ID), pod_secret("/etc/other", id=OTHER))
    request = pb.ReplaceJobRequest(spec=specs.job(POD), drop_other_secrets=True)
    request.job_id.value, request.version.value = JOB, version
    request.secrets.append(pod_secret("/etc/other", data=None))
    await calls.services.ReplaceJob(request)
    before = (await calls.engine.store.jobs.config(JOB, 1)).payload.secrets
    after = (await calls.engine.store.jobs.config(JOB, 2)).payload.secrets
    assert [ref for ref in before if ref.path == "/etc/other"] == list(after)


async def test_the_v0_update_of_a_service_keeps_its_secrets(calls: Calls) -> None:
    await calls.create(secret(id=ID), base=SERVICE)
    refs = calls.refs()
    calls.engine.held[JOB].tasks[:] = []
    config = job(MESOS + "instanceCount: 4", SERVICE)
    request = update_svc_pb2.CreateUpdateRequest(jobId=job_id(), jobConfig=config)
    await calls.updates.CreateUpdate(request)
    assert (await calls.engine.store.jobs.config(JOB, 2)).payload.secrets == refs
    request.jobConfig.defaultConfig.ClearField("container")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "MESOS, which a job with secrets must have"):
        await calls.updates.CreateUpdate(request)
