"""Secrets in the store: apart from configs, written with them, gone with their job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import AlreadyExists, NotFound
from peloton.model.job import JobSpec
from peloton.model.payload import SecretRef
from peloton.model.workflow import Workflow
from peloton.wire.payload import same_config, summary
from storage.codec import decode_payload, encode_payload
from storage.interface import Store

from .conftest import Opener
from .samples import job_id, job_runtime, spec

JOB, OTHER = job_id(1), job_id(2)
REFS = (SecretRef("an id", "/etc/a\u2014\0b", "key a"), SecretRef("another id", "/etc/b", "key b"))
CONTENTS = {"key a": b"\x00\xffbytes", "key b": b"b" * 100_000}


def with_refs(of: JobSpec, refs: tuple[SecretRef, ...] = REFS) -> JobSpec:
    return replace(of, payload=replace(of.payload, secrets=refs))


async def missing(store: Store, job: str, key: str) -> bool:
    try:
        await store.secrets.read(job, key)
    except NotFound:
        return True
    return False


async def test_secrets_are_read_back_and_the_config_names_them(open_handle: Opener) -> None:
    store = await open_handle()
    await store.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    for handle in (store, await open_handle()):
        held = await handle.jobs.config(JOB, 1)
        assert held.payload == with_refs(spec()).payload
        assert {ref.key: await handle.secrets.read(JOB, ref.key) for ref in REFS} == CONTENTS
        assert await missing(handle, JOB, "key c")
        assert await missing(handle, OTHER, "key a")


async def test_a_version_brings_secrets_of_its_own(store: Store) -> None:
    await store.jobs.create(JOB, with_refs(spec(), REFS[:1]), job_runtime(), None, {"key a": b"old"})
    await store.jobs.add_config(JOB, with_refs(spec(2)), {"key b": b"new"})
    assert (await store.jobs.config(JOB, 1)).payload.secrets == REFS[:1]
    assert (await store.jobs.config(JOB, 2)).payload.secrets == REFS
    assert await store.secrets.read(JOB, "key a") == b"old"
    assert await store.secrets.read(JOB, "key b") == b"new"


async def test_secrets_go_with_their_job_only(store: Store) -> None:
    for job in (JOB, OTHER):
        await store.jobs.create(job, with_refs(spec()), job_runtime(), None, CONTENTS)
    await store.jobs.delete(JOB)
    assert await missing(store, JOB, "key a") and await missing(store, JOB, "key b")
    assert await store.secrets.read(OTHER, "key a") == CONTENTS["key a"]


async def test_a_refused_creation_stores_no_secret(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    with pytest.raises(AlreadyExists):
        await store.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    assert await missing(store, JOB, "key a")


def test_references_survive_the_codec_and_the_summary() -> None:
    plain, held = spec().payload, with_refs(spec()).payload
    assert decode_payload(encode_payload(held)) == held
    assert decode_payload(encode_payload(plain)) == plain
    assert summary(held).secrets == REFS
    assert not same_config(plain, held)


def test_no_content_shows_in_any_object() -> None:
    assert "bytes" not in repr(with_refs(spec()))
    assert "secret" not in Workflow.__dataclass_fields__


POOL = "b3f1c2de-0000-4000-8000-000000000009"


async def test_secrets_of_a_pool(open_handle: Opener) -> None:
    store = await open_handle()
    assert list(await store.secrets.keys(POOL)) == []
    await store.secrets.put(POOL, {"b": b"two", "a": b"one"})
    await store.secrets.put(POOL, {"a": b"three"})
    await store.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    for handle in (store, await open_handle()):
        assert list(await handle.secrets.keys(POOL)) == ["a", "b"]
        assert await handle.secrets.read(POOL, "a") == b"three"
    await store.secrets.drop(POOL, ["a", "never"])
    assert list(await store.secrets.keys(POOL)) == ["b"]
    assert await missing(store, POOL, "a")
    await store.pools.delete(POOL)
    assert list(await store.secrets.keys(POOL)) == []
    assert await store.secrets.read(JOB, "key a") == CONTENTS["key a"]
