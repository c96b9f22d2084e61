"""SecretService: secrets of pools, and jobs that take theirs of them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from jobmgr.services.private.secrets import MOST_KEYS
from peloton.api.v0 import peloton_pb2 as v0
from peloton.private.jobmgr.secrets import secrets_pb2 as pb
from peloton.private.jobmgr.secrets import secrets_pb2_grpc
from tests.unit.jobmgr_services.configs import POOL
from tests.unit.jobmgr_services.conftest import JOB, Served, served, status
from tests.unit.jobmgr_services.test_secrets import HIDDEN, Calls, calls

__all__ = ["calls", "served"]
ID = v0.ResourcePoolID(value=POOL)
Stub = Any  # the generated type is of blocking calls


@pytest.fixture
def stub(calls: Calls) -> Stub:
    return secrets_pb2_grpc.SecretServiceStub(calls.channel)


async def make(stub: Stub, name: str = "db", pool: Any = ID, **contents: bytes) -> pb.SecretInfo:
    info = pb.SecretInfo(name=name, labels={"app": "a"})
    request = pb.CreateSecretRequest(pool_id=pool, info=info, contents=contents or {"key": HIDDEN})
    answer: pb.CreateSecretResponse = await stub.CreateSecret(request)
    return answer.info


async def change(stub: Stub, info: pb.SecretInfo, **contents: bytes) -> pb.SecretInfo:
    request = pb.ReplaceSecretRequest(pool_id=ID, info=info, contents=contents)
    answer: pb.ReplaceSecretResponse = await stub.ReplaceSecret(request)
    return answer.info


async def listed(stub: Stub) -> list[pb.SecretInfo]:
    return list((await stub.ListSecrets(pb.ListSecretsRequest(pool_id=ID))).secrets)


def taken(name: str = "db", key: str = "key") -> v0.Secret:
    return v0.Secret(path="/etc/key", source=v0.SecretSource(name=name, key=key))


async def test_a_secret_is_listed_without_its_contents(stub: Stub) -> None:
    made = await make(stub)
    assert (list(made.keys), made.revision, dict(made.labels)) == (["key"], 1, {"app": "a"})
    assert await listed(stub) == [made]
    assert HIDDEN not in made.SerializeToString()
    with status(grpc.StatusCode.ALREADY_EXISTS, "has a secret db already"):
        await make(stub)
    await stub.DeleteSecret(pb.DeleteSecretRequest(pool_id=ID, name="db"))
    assert await listed(stub) == []
    for call in (
        stub.DeleteSecret(pb.DeleteSecretRequest(pool_id=ID, name="db")),
        change(stub, made, key=b"x"),
    ):
        with status(grpc.StatusCode.NOT_FOUND, "no secret db"):
            await call


async def test_an_empty_part_stays_and_a_job_takes_what_is_there_now(stub: Stub, calls: Calls) -> None:
    made = await make(stub, key=HIDDEN, other=b"x")
    changed = await change(stub, made, key=b"", more=b"y")
    assert (list(changed.keys), changed.revision, changed.id) == (["key", "more"], 2, made.id)
    assert await change(stub, changed, key=b"", more=b"y") == changed
    assert await calls.create(taken()) == ""
    (ref,) = (await calls.engine.store.jobs.config(JOB, 1)).payload.secrets
    assert await calls.engine.store.secrets.read(JOB, ref.key) == HIDDEN


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (taken("none"), "the name of a secret of the job's pool"),
        (taken(key="none"), "one of key"),
        (v0.Secret(path="/k", source=taken().source, value=v0.Secret.Value(data=b"x")), "beside source"),
    ],
)
async def test_what_a_job_cannot_take(stub: Stub, calls: Calls, secret: v0.Secret, why: str) -> None:
    await make(stub)
    assert why in await calls.create(secret)


@pytest.mark.parametrize(
    ("name", "contents", "why"),
    [
        ("Db", {"key": b"x"}, "info.name"),
        ("db", {"a/b": b"x"}, "named by letters"),
        ("db", {"..": b"x"}, "named by letters"),
        ("db", {"key": b""}, "at least one byte"),
        ("db", {"key": b"x" * 1_048_577}, "at most 1 MiB in all"),
        ("db", {f"k{i}": b"x" for i in range(MOST_KEYS + 1)}, f"at most {MOST_KEYS}"),
    ],
)
async def test_what_is_no_secret(stub: Stub, name: str, contents: dict[str, bytes], why: str) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, why):
        await make(stub, name, **contents)
    assert await listed(stub) == []


async def test_an_immutable_one_keeps_its_contents(stub: Stub) -> None:
    made = await make(stub)
    made.immutable = True
    fixed = await change(stub, made, key=b"")
    assert fixed.immutable
    with status(grpc.StatusCode.FAILED_PRECONDITION, "is immutable"):
        await change(stub, fixed, key=b"other")


async def test_a_pool_that_is_not_there(stub: Stub) -> None:
    with status(grpc.StatusCode.NOT_FOUND, "there is no pool nowhere"):
        await make(stub, pool=v0.ResourcePoolID(value="nowhere"))


async def test_a_server_without_secrets_makes_none(served: Served) -> None:
    stub = secrets_pb2_grpc.SecretServiceStub(served.channel)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "secrets are not enabled"):
        await make(stub)
    assert await listed(stub) == []
