"""SecretService: secrets of pools, which are written and never read back."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from jobmgr.engine.engine import Engine
from jobmgr.services.common.pool_secrets import PoolSecrets
from jobmgr.services.common.secrets import MOST_BYTES, NOT_ENABLED
from peloton.clock import Clock, rfc3339
from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused, ResourceExhausted
from peloton.identity.principal import require
from peloton.model.amounts import byte_size
from peloton.model.ids import PoolId
from peloton.model.plural import plural
from peloton.model.pool import pool_path
from peloton.private.jobmgr.secrets import secrets_pb2 as pb
from peloton.private.jobmgr.secrets import secrets_pb2_grpc

MOST_SECRETS = 1000
"""Of a pool."""
MOST_KEYS = 100
MOST_TOLD_BYTES = 64 * 1024
"""Of labels, annotations and the like of one secret."""
LONGEST_NAME, LONGEST_KEY = 253, 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_KEY = re.compile(r"(?!\.\.?$)[-._a-zA-Z0-9]+", re.ASCII)


class SecretService(secrets_pb2_grpc.SecretServiceServicer):
    """Keeps the secrets of pools."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        enabled: bool,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """Refuse all that changes secrets unless `enabled`."""
        self._engine = engine
        self._clock = clock
        self._enabled = enabled
        self._new_id = new_id
        self._stored = PoolSecrets(engine.store.secrets)
        self._locks: WeakValueDictionary[PoolId, asyncio.Lock] = WeakValueDictionary()

    async def CreateSecret(self, request: pb.CreateSecretRequest, context: object) -> pb.CreateSecretResponse:
        """Make a secret. Raises AlreadyExists, InvalidArgument, NotFound, ResourceExhausted."""
        pool_id = await self._pool(request.pool_id.value)
        _check(request.info, request.contents)
        info = _told(request.info, request.contents)
        info.id, info.revision, info.creation_time = self._new_id(), 1, rfc3339(self._clock.wall())
        lock = self._locks.setdefault(pool_id, asyncio.Lock())
        async with lock:
            names = await self._stored.names(pool_id)
            if info.name in names:
                raise AlreadyExists(f"the pool has a secret {info.name} already")
            if len(names) >= MOST_SECRETS:
                raise ResourceExhausted(
                    f"the pool has {plural(len(names), 'secret')}, as many as it may have"
                )
            await self._stored.put(pool_id, info, request.contents)
        return pb.CreateSecretResponse(info=info)

    async def ReplaceSecret(
        self, request: pb.ReplaceSecretRequest, context: object
    ) -> pb.ReplaceSecretResponse:
        """Change a secret. Raises InvalidArgument, NotFound, and Refused for one that is immutable."""
        pool_id = await self._pool(request.pool_id.value)
        lock = self._locks.setdefault(pool_id, asyncio.Lock())
        async with lock:
            held = await self._stored.info(pool_id, request.info.name)
            if held is None:
                raise NotFound(f"the pool has no secret {request.info.name[:LONGEST_NAME]}")
            before = await self._stored.contents(pool_id, held.name)
            contents = {key: data or before.get(key, b"") for key, data in request.contents.items()}
            _check(request.info, contents)
            if held.immutable and (contents != before or not request.info.immutable):
                raise Refused(f"the secret {held.name} is immutable: delete it, and make it anew")
            info = _told(request.info, contents)
            info.id, info.creation_time, info.revision = held.id, held.creation_time, held.revision
            if info != held or contents != before:
                info.revision += 1
                await self._stored.put(pool_id, info, contents)
        return pb.ReplaceSecretResponse(info=info)

    async def DeleteSecret(self, request: pb.DeleteSecretRequest, context: object) -> pb.DeleteSecretResponse:
        """Delete a secret. Raises NotFound."""
        pool_id = await self._pool(request.pool_id.value)
        lock = self._locks.setdefault(pool_id, asyncio.Lock())
        async with lock:
            if request.name not in await self._stored.names(pool_id):
                raise NotFound(f"the pool has no secret {request.name[:LONGEST_NAME]}")
            await self._stored.drop(pool_id, request.name)
        return pb.DeleteSecretResponse()

    async def ListSecrets(self, request: pb.ListSecretsRequest, context: object) -> pb.ListSecretsResponse:
        """Return the secrets of a pool without their contents. Raises NotFound."""
        pool_id = await self._pool(request.pool_id.value, changes=False)
        return pb.ListSecretsResponse(secrets=await self._stored.all(pool_id))

    async def _pool(self, pool_id: PoolId, changes: bool = True) -> PoolId:
        """Return the id of a pool that is there, and of which the caller may change the secrets."""
        pools = await self._engine.store.pools.all()
        if not any(each.id == pool_id for each in pools):
            raise NotFound(f"there is no pool {pool_id[:LONGEST_NAME]}")
        require(pool_path(pool_id, pools), "", "the secret")
        if changes and not self._enabled:
            raise Refused(f"secrets are not {NOT_ENABLED}")
        return pool_id


def _told(given: pb.SecretInfo, contents: Mapping[str, bytes]) -> pb.SecretInfo:
    info = pb.SecretInfo(
        name=given.name,
        type=given.type,
        labels=given.labels,
        annotations=given.annotations,
        immutable=given.immutable,
    )
    info.keys.extend(sorted(contents))
    return info


def _check(info: pb.SecretInfo, contents: Mapping[str, bytes]) -> None:
    """Raise InvalidArgument for a secret that is not one."""
    if len(info.name) > LONGEST_NAME or not _NAME.fullmatch(info.name):
        wanted = "lowercase letters, digits, `-` and `.`, with a letter or digit at both ends"
        raise InvalidArgument("info.name", info.name[:LONGEST_NAME], wanted)
    if info.ByteSize() > MOST_TOLD_BYTES:
        wanted = f"at most {byte_size(MOST_TOLD_BYTES)} of labels and annotations"
        raise InvalidArgument("info", byte_size(info.ByteSize()), wanted)
    if len(contents) > MOST_KEYS:
        raise InvalidArgument("contents", f"{len(contents):,} of them", f"at most {MOST_KEYS}")
    for key, data in contents.items():
        if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
            raise InvalidArgument("contents", key[:LONGEST_KEY], "named by letters, digits, `-`, `_` and `.`")
        if not data:
            raise InvalidArgument(f"contents[{key}]", "empty", "a content of at least one byte")
    if (size := sum(map(len, contents.values()))) > MOST_BYTES:
        raise InvalidArgument("contents", byte_size(size), f"at most {byte_size(MOST_BYTES)} in all")
