"""Secrets of pools, as they are stored: what is told of each apart from its contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.errors import NotFound
from peloton.model.ids import PoolId
from peloton.private.jobmgr.secrets import secrets_pb2 as pb
from storage.interface import Secrets

INFO, CONTENTS = "info/", "contents/"
"""What the keys of the rows begin with, before the name."""


class PoolSecrets:
    """Reads and writes the secrets of pools."""

    def __init__(self, stored: Secrets) -> None:
        self._stored = stored

    async def all(self, pool_id: PoolId) -> Sequence[pb.SecretInfo]:
        """Return what is told of the secrets of a pool, by their names."""
        keys = [key for key in await self._stored.keys(pool_id) if key.startswith(INFO)]
        found = [await self.info(pool_id, key.removeprefix(INFO)) for key in keys]
        return [each for each in found if each is not None]

    async def names(self, pool_id: PoolId) -> Sequence[str]:
        """Return the names of the secrets of a pool."""
        keys = await self._stored.keys(pool_id)
        return [key.removeprefix(INFO) for key in keys if key.startswith(INFO)]

    async def info(self, pool_id: PoolId, name: str) -> pb.SecretInfo | None:
        """Return what is told of a secret; None where there is none."""
        try:
            return pb.SecretInfo.FromString(await self._stored.read(pool_id, INFO + name))
        except NotFound:
            return None

    async def contents(self, pool_id: PoolId, name: str) -> Mapping[str, bytes]:
        """Return the contents of a secret by their keys; empty where there is none."""
        try:
            stored = await self._stored.read(pool_id, CONTENTS + name)
        except NotFound:
            return {}
        return dict(pb.SecretContents.FromString(stored).contents)

    async def put(self, pool_id: PoolId, info: pb.SecretInfo, contents: Mapping[str, bytes]) -> None:
        """Write a secret, its contents before what is told of it."""
        name, held = info.name, pb.SecretContents(contents=contents)
        await self._stored.put(pool_id, {CONTENTS + name: held.SerializeToString(deterministic=True)})
        await self._stored.put(pool_id, {INFO + name: info.SerializeToString(deterministic=True)})

    async def drop(self, pool_id: PoolId, name: str) -> None:
        """Delete a secret, what is told of it first."""
        await self._stored.drop(pool_id, [INFO + name])
        await self._stored.drop(pool_id, [CONTENTS + name])
