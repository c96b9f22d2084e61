"""Secrets of jobs are encrypted in the store, and keys can be changed."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest

from peloton.config.errors import ConfigError
from peloton.errors import Refused
from storage.config import SqliteSettings
from storage.secret_keys import MAGIC, PLAIN, read_keys
from storage.sqlite.store import open_sqlite
from tests.contract.storage.samples import job_id, job_runtime, spec
from tests.contract.storage.test_secrets import with_refs

JOB = job_id(1)
SECRET = b"correct horse battery staple"
CONTENTS = {"key a": SECRET, "key b": SECRET}


def a_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def key_file(folder: Path, *keys: str) -> Path:
    file = folder / "keys"
    file.touch(0o600)
    file.write_text("\n".join(keys) + "\n")
    return file


def test_a_secret_is_read_with_its_key_only(tmp_path: Path) -> None:
    first, second = a_key(), a_key()
    keys = read_keys(key_file(tmp_path, first))
    sealed = keys.seal(JOB, "k", SECRET)
    assert SECRET not in sealed and sealed != keys.seal(JOB, "k", SECRET)
    assert keys.open(JOB, "k", sealed) == SECRET
    rotated = read_keys(key_file(tmp_path, second, first))
    assert rotated.open(JOB, "k", sealed) == SECRET
    assert keys.is_newest(sealed) and not rotated.is_newest(sealed)
    for others in (read_keys(key_file(tmp_path, second)), PLAIN):
        with pytest.raises(Refused, match=r"encrypted with a key that storage\.secret_keys_file has not"):
            others.open(JOB, "k", sealed)
    assert first not in repr(keys)


def test_a_secret_that_was_changed_or_moved_is_refused(tmp_path: Path) -> None:
    keys = read_keys(key_file(tmp_path, a_key()))
    sealed = keys.seal(JOB, "k", SECRET)
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for job, key, stored in ((JOB, "k", changed), (JOB, "other", sealed), (job_id(2), "k", sealed)):
        with pytest.raises(Refused, match="was changed in the store"):
            keys.open(job, key, stored)


@pytest.mark.parametrize("text", ["", "short", "x" * 44, base64.b64encode(b"k" * 31).decode()])
def test_a_key_of_another_length_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="should have a key on each line, 32 bytes in Base64"):
        read_keys(key_file(tmp_path, text))


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = key_file(tmp_path, a_key())
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="its mode 0644 lets others use it"):
        read_keys(file)


def stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.name.startswith("peloton.db"))


async def write(settings: SqliteSettings) -> None:
    store = await open_sqlite(settings)
    await store.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    assert await store.secrets.read(JOB, "key a") == SECRET
    files = [file for file in settings.path.parent.iterdir() if file.name.startswith("peloton.db")]
    assert len(files) == 3 and {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    await store.close()


async def test_the_store_has_no_secret_in_plain(tmp_path: Path) -> None:
    path = tmp_path / "made" / "peloton.db"
    await write(SqliteSettings(path=path, secret_keys_file=key_file(tmp_path, a_key())))
    assert MAGIC in stored_bytes(path.parent) and SECRET not in stored_bytes(path.parent)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
