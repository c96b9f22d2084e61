"""Secrets are encrypted in each store, bound to their place, and keys can be changed."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from peloton.config.private import write_private
from peloton.errors import Refused
from storage.interface import Store
from storage.secret_keys import MAGIC
from storage.selection.migrate import main

from .conftest import Backend, Opener
from .samples import job_id, job_runtime, spec
from .test_secrets import with_refs

JOB, OTHER = job_id(1), job_id(2)
SECRET = b"correct horse battery staple"
CONTENTS = {"key a": SECRET, "key b": b"b" * 100_000 + SECRET}


def a_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


class Sealed:
    """The database of a test, opened with keys, and what the command says of it."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._keys, self._config = folder / "keys", folder / "storage.yaml"
        self._opened: list[Store] = []

    async def open(self, *keys: str) -> Store:
        """Open it with keys; without one, as it would be without encryption."""
        write_private(self._keys, "\n".join(keys) + "\n")
        changed = {"secret_keys_file": self._keys if keys else None}
        settings = self._backend.settings().model_copy(update=changed)
        # JSON is YAML.
        self._config.write_text(json.dumps({"storage": settings.model_dump(mode="json")}))
        self._opened.append(await self._backend.open(settings))
        return self._opened[-1]

    def rekey(self) -> None:
        """Encrypt all with the newest of the keys with which it was opened last."""
        main(["rekey", "-c", str(self._config)])

    def written(self) -> bytes:
        return self._backend.written()

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@pytest.fixture
async def sealed(open_handle: Opener, backend: Backend, tmp_path: Path) -> Sealed:
    await (await open_handle()).close()
    return Sealed(backend, tmp_path)


async def contents(store: Store) -> dict[str, bytes]:
    return {key: await store.secrets.read(JOB, key) for key in CONTENTS}


async def test_the_store_has_no_secret_in_plain(sealed: Sealed) -> None:
    key = a_key()
    store = await sealed.open(key)
    await store.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    await store.jobs.add_config(JOB, with_refs(spec(2)), {"key c": SECRET})
    assert await contents(store) == CONTENTS and await store.secrets.read(JOB, "key c") == SECRET
    assert await contents(await sealed.open(key)) == CONTENTS
    assert MAGIC in sealed.written() and SECRET not in sealed.written()
    for other in ((a_key(),), ()):
        stranger = await sealed.open(*other)
        with pytest.raises(Refused, match="is encrypted with a key that"):
            await stranger.secrets.read(JOB, "key a")
    await sealed.close()


async def test_keys_are_changed_while_the_store_is_open(
    sealed: Sealed, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = a_key(), a_key()
    plain = await sealed.open()
    await plain.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    await plain.jobs.create(OTHER, with_refs(spec()), job_runtime(), None, CONTENTS)
    await plain.jobs.delete(OTHER)
    assert SECRET in sealed.written()
    for keys, changed in (((first,), 2), ((first,), 0), ((second, first), 2), ((second,), 0)):
        store = await sealed.open(*keys)
        assert await contents(store) == CONTENTS  # before, too: older keys read
        sealed.rekey()
        assert capsys.readouterr().out.startswith(f"{changed} secrets encrypted with the newest key")
        assert await contents(store) == CONTENTS
        assert SECRET not in sealed.written()
    with pytest.raises(Refused, match="is encrypted with a key that"):
        await (await sealed.open(first)).secrets.read(JOB, "key a")
    await (await sealed.open(second)).jobs.delete(JOB)
    sealed.rekey()
    assert capsys.readouterr().out.startswith("0 secrets encrypted"), "nothing that was deleted is back"
    await sealed.close()


async def test_rekey_needs_the_older_keys(sealed: Sealed) -> None:
    store = await sealed.open(a_key())
    await store.jobs.create(JOB, with_refs(spec()), job_runtime(), None, CONTENTS)
    await sealed.open(a_key())
    with pytest.raises(SystemExit, match=r"encrypted with a key that storage\.secret_keys_file has not"):
        sealed.rekey()
    await sealed.open()
    with pytest.raises(SystemExit, match="secret_keys_file: is needed"):
        sealed.rekey()
    await sealed.close()
