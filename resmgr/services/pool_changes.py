"""Changes of the pool tree, the same for both services of pools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from peloton.errors import AlreadyExists
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import PoolConfig
from resmgr.core.pools import Pool, PoolTree
from resmgr.drivers.loop import Driver
from storage.interface import Pools


class PoolChanges:
    """Changes take turns: checked against the tree, stored, then made in the tree. Where the store could not
    tell whether it made one, no other follows before it holds again what the tree does."""

    def __init__(self, driver: Driver, pools: Pools, fresh_capacity: Callable[[], Awaitable[None]]) -> None:
        """`fresh_capacity` asks for the cluster's capacity as it is now, as well as it can."""
        self._driver = driver
        self._pools = pools
        self._fresh_capacity = fresh_capacity
        self._turn = asyncio.Lock()
        self._doubtful: set[PoolId] = set()
        """What is stored of these may not be what the tree holds."""

    @property
    def tree(self) -> PoolTree:
        return self._driver.scheduler.tree

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """For what is read before a change and must still hold when it is made. Only `*_in_turn` may be
        called inside. Raises Unavailable where the store cannot take what an earlier change left in doubt.
        What was stored when this leader began is queued first: the pool in which it waits has tasks."""
        await self._driver.recovered.wait()
        async with self._turn:
            for pool_id in tuple(self._doubtful):
                held = self.tree.find(pool_id)
                await (self._delete(pool_id) if held is None else self._write(held.config))
            yield

    async def create_in_turn(self, config: PoolConfig, who: str) -> None:
        """Raises InvalidArgument, PoolExists, and AlreadyExists for an id that is taken."""
        if config.id in {pool.id for pool in self.tree}:
            raise AlreadyExists(f"there is a pool with the id {config.id} already")
        await self._know_capacity(config)
        now = self._driver.clock.wall()
        config = replace(config, version=1, created_at=now, updated_at=now, updated_by=who)
        self.tree.check_new(config)
        await self._write(config)
        self.tree.insert(config)
        self._changed()

    async def update_in_turn(self, config: PoolConfig, who: str, force: bool) -> None:
        """A limit may be lowered under what is allocated: nothing more is admitted until it fits. Raises
        NotFound and InvalidArgument."""
        held = self.tree.get(config.id).config
        await self._know_capacity(config)
        config = replace(
            config,
            version=held.version + 1,
            created_at=held.created_at,
            updated_at=self._driver.clock.wall(),
            updated_by=who,
        )
        self.tree.check_update(config, force)
        await self._write(config)
        self.tree.replace(config)
        self._changed()

    async def delete_in_turn(self, pool: Pool) -> None:
        """Raises PoolBusy, PoolNotLeaf, or Refused for the root. The pool leaves the tree first, so that
        nothing is queued in it while the store forgets it."""
        self.tree.delete(pool.id)
        try:
            await self._delete(pool.id)
        finally:
            if pool.id in self._doubtful:
                self.tree.insert(pool.config)
            self._changed()

    async def _write(self, config: PoolConfig) -> None:
        self._doubtful.add(config.id)
        await self._pools.write(config)
        self._doubtful.discard(config.id)

    async def _delete(self, pool_id: PoolId) -> None:
        self._doubtful.add(pool_id)
        await self._pools.delete(pool_id)
        self._doubtful.discard(pool_id)

    async def _know_capacity(self, config: PoolConfig) -> None:
        if config.parent == ROOT_POOL:
            await self._fresh_capacity()

    def _changed(self) -> None:
        self._driver.scheduler.entitle()
        self._driver.touched()
