"""Secrets in the calls of clients (docs/behaviour/operation.md, Secrets).

Messages name ids and paths, never contents.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from jobmgr.services.common.pool_secrets import PoolSecrets
from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.amounts import byte_size
from peloton.model.ids import JobId, PoolId, is_uuid
from peloton.model.payload import SecretBytes, SecretRef
from peloton.model.plural import plural
from peloton.wire.secrets import check_no_secrets, check_takes_secrets, mounted
from peloton.wire.validation.workload import gives_tokens
from storage.interface import Secrets

MOST_BYTES = 1024 * 1024
"""Of all secrets of a job together."""
MOST_SECRETS = 100


@dataclass(frozen=True, slots=True)
class GivenSecret:
    """A secret in a request."""

    id: str
    path: str
    data: bytes | None
    """None where the request has no content."""
    source: tuple[str, str] | None = None
    """The secret of the pool, and the part of it, that it has its content of."""

    def __repr__(self) -> str:
        """Return the secret without its content."""
        return f"GivenSecret({self.id!r}, {self.path!r})"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What to store: references for the config, and contents that are new."""

    refs: tuple[SecretRef, ...]
    contents: SecretBytes

    def __repr__(self) -> str:
        """Return the references without the contents."""
        return f"Prepared({self.refs!r})"


def _source(wire: v0.Secret | v1alpha.Secret) -> tuple[str, str] | None:
    return (wire.source.name, wire.source.key) if wire.HasField("source") else None


def given_v0(wire: Iterable[v0.Secret]) -> list[GivenSecret]:
    """Decode secrets of the v0 API."""
    return [
        GivenSecret(
            each.id.value, each.path, each.value.data if each.HasField("value") else None, _source(each)
        )
        for each in wire
    ]


def given_v1alpha(wire: Iterable[v1alpha.Secret]) -> list[GivenSecret]:
    """Decode secrets of the v1alpha API."""
    return [
        GivenSecret(
            each.secret_id.value,
            each.path,
            each.value.data if each.HasField("value") else None,
            _source(each),
        )
        for each in wire
    ]


def shown_v0(refs: Iterable[SecretRef]) -> list[v0.Secret]:
    """Return secrets for an answer of the v0 API: ids and paths."""
    return [v0.Secret(id=v0.SecretID(value=ref.id), path=ref.path) for ref in refs]


def shown_v1alpha(refs: Iterable[SecretRef]) -> list[v1alpha.Secret]:
    """Return secrets for an answer of the v1alpha API: ids and paths."""
    return [v1alpha.Secret(secret_id=v1alpha.SecretID(value=ref.id), path=ref.path) for ref in refs]


NOT_ENABLED = (
    "taken by this server: secrets are not enabled; whoever runs it sets `enable_secrets: true` in the job "
    "manager's settings, or ENABLE_SECRETS=true in its environment (docs/settings.md)"
)


class SecretChecks:
    """Check the secrets of requests and compare them with those that are stored."""

    def __init__(
        self,
        stored: Secrets,
        enabled: bool,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        tokens: bool = True,
    ) -> None:
        """Refuse secrets unless `enabled`, and tasks that ask for tokens unless there are `tokens`."""
        self._tokens = tokens
        self._stored = stored
        self._enabled = enabled
        self._new_id = new_id

    async def prepare(
        self,
        job_id: JobId,
        given: Sequence[GivenSecret],
        config: job_pb2.JobConfig,
        existing: Sequence[SecretRef] = (),
    ) -> Prepared:
        """Return what to store for a job that has the config, and had the existing secrets before.

        Each existing secret must be given again, by its id, or by its path where no id is given. One that
        comes without content, or with the same, keeps its content; another content gets another key.
        Raises InvalidArgument, with the path of the field.
        """
        self._check_tokens(config)
        if given and not self._enabled:
            raise InvalidArgument("secrets", _counted(given), NOT_ENABLED)
        given = [await self._with_source(each, i, config.respoolID.value) for i, each in enumerate(given)]
        held = _matched(given, existing)
        missing = [ref for ref in existing if ref not in held]
        if missing:
            expected = f"complete: the job has the secret {missing[0].id} ({missing[0].path}), send it again"
            raise InvalidArgument("secrets", _counted(given), expected)
        if not given:
            return Prepared((), {})
        _check(given)
        _check_container(given, config)
        return await self._prepared(job_id, given, held)

    async def _with_source(self, secret: GivenSecret, i: int, pool_id: PoolId) -> GivenSecret:
        """Return a secret with the content of the pool's that it names. Raises InvalidArgument."""
        if secret.source is None:
            return secret
        if secret.data is not None:
            raise InvalidArgument(f"secrets[{i}].value", "given", "left out beside source")
        name, key = secret.source
        contents = await PoolSecrets(self._stored).contents(pool_id, name)
        if not contents:
            raise InvalidArgument(f"secrets[{i}].source.name", name, "the name of a secret of the job's pool")
        if key not in contents:
            raise InvalidArgument(f"secrets[{i}].source.key", key, f"one of {', '.join(sorted(contents))}")
        return replace(secret, data=contents[key])

    def kept(self, existing: Sequence[SecretRef], config: job_pb2.JobConfig) -> Prepared:
        """Return the existing secrets for a job that gets another config by a call that takes no secrets.

        Raises InvalidArgument where the config has no place for them.
        """
        self._check_tokens(config)
        if existing:
            _check_container([GivenSecret(ref.id, ref.path, None) for ref in existing], config)
        return Prepared(tuple(existing), {})

    def _check_tokens(self, config: job_pb2.JobConfig) -> None:
        if gives_tokens(config) and not self._tokens:
            raise InvalidArgument(
                "workload.token",
                "true",
                "given by this server, which asks callers who they are: task_access.keys_file is not set",
            )

    async def _prepared(
        self, job_id: JobId, given: Sequence[GivenSecret], held: Sequence[SecretRef | None]
    ) -> Prepared:
        refs: list[SecretRef] = []
        contents: dict[str, bytes] = {}
        for i, (secret, old) in enumerate(zip(given, held, strict=True)):
            key = "" if old is None else old.key
            if secret.data is None and not key:
                raise InvalidArgument(f"secrets[{i}].value", "nothing", "given: a new secret has a content")
            if secret.data is not None and not (key and await self._is_stored(job_id, key, secret.data)):
                key = self._new_id()
                contents[key] = secret.data
            own = secret.id or (self._new_id() if old is None else old.id)
            refs.append(SecretRef(own, secret.path, key))
        return Prepared(tuple(refs), contents)

    async def _is_stored(self, job_id: JobId, key: str, data: bytes) -> bool:
        try:
            return await self._stored.read(job_id, key) == data
        except (NotFound, Refused):  # it was lost, or cannot be decrypted: it is stored again
            return False


def named_again(existing: Sequence[SecretRef], given: Sequence[GivenSecret]) -> tuple[SecretRef, ...]:
    """Return the existing secrets that are given again."""
    found = [ref for ref in _matched(given, existing) if ref is not None]
    return tuple(ref for ref in existing if ref in found)


def check_no_secret_volumes(config: job_pb2.JobConfig) -> None:
    """Refuse contents in a config, which is stored and shown. Raises InvalidArgument."""
    for path, task in [("defaultConfig", config.defaultConfig), *_overrides(config)]:
        check_no_secrets(task, path)


def _matched(given: Sequence[GivenSecret], existing: Sequence[SecretRef]) -> list[SecretRef | None]:
    """Return the existing secret that each of the given ones is."""
    by_id = {ref.id: ref for ref in existing}
    by_path = {ref.path: ref for ref in existing}
    return [by_id.get(each.id) if each.id else by_path.get(each.path) for each in given]


def _check(given: Sequence[GivenSecret]) -> None:
    if len(given) > MOST_SECRETS:
        raise InvalidArgument("secrets", _counted(given), f"at most {MOST_SECRETS} secrets")
    ids, paths, size = set[str](), set[str](), 0
    for i, secret in enumerate(given):
        at = f"secrets[{i}]"
        if secret.id and not is_uuid(secret.id):
            raise InvalidArgument(f"{at}.id", secret.id, "a UUID of 36 characters")
        if secret.id and secret.id in ids:
            raise InvalidArgument(f"{at}.id", secret.id, "an id of its own")
        _check_path(secret.path, f"{at}.path")
        if secret.path in paths:
            raise InvalidArgument(f"{at}.path", secret.path, "a path of its own")
        if secret.data == b"":
            raise InvalidArgument(f"{at}.value.data", "empty", "a content of at least one byte")
        ids.add(secret.id)
        paths.add(secret.path)
        size += len(secret.data or b"")
    if size > MOST_BYTES:
        raise InvalidArgument("secrets", byte_size(size), f"at most {byte_size(MOST_BYTES)} in all")


def _check_path(path: str, at: str) -> None:
    parsed = PurePosixPath(path)
    plain = path.startswith("/") and not path.startswith("//") and str(parsed) == path
    if not plain or ".." in parsed.parts or parsed.name == "" or "\0" in path:
        raise InvalidArgument(at, path, "the absolute path of a file, such as /etc/secrets/key")


def _check_container(given: Sequence[GivenSecret], config: job_pb2.JobConfig) -> None:
    """Check that Mesos can put the files into the containers, and at paths of their own."""
    paths = {secret.path for secret in given}
    overrides = [(path, task) for path, task in _overrides(config) if task.HasField("container")]
    for path, task in [("defaultConfig", config.defaultConfig), *overrides]:
        check_takes_secrets(task, path)
        for at, mount in mounted(task, path):
            if mount in paths:
                raise InvalidArgument(at, mount, "a path of its own: a secret has it")


def _overrides(config: job_pb2.JobConfig) -> list[tuple[str, task_pb2.TaskConfig]]:
    return [(f"instanceConfig[{i}]", task) for i, task in config.instanceConfig.items()]


def _counted(given: Sequence[GivenSecret]) -> str:
    return plural(len(given), "secret")
