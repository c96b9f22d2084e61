"""Changes of the pool tree, the same for both services of pools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from peloton.errors import AlreadyExists
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import PoolConfig
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolTree
from resmgr.drivers.loop import Driver
from storage.interface import Pools


class PoolChanges:
    """Make changes one at a time: check against the tree, store, then change the tree.

    After a change with an unknown outcome in the store, no other one is made before store and tree agree
    again.
    """

    def __init__(self, driver: Driver, pools: Pools, fresh_capacity: Callable[[], Awaitable[None]]) -> None:
        """Connect to the store; `fresh_capacity` updates the cluster's capacity if hostmgr answers."""
        self._driver = driver
        self._pools = pools
        self._fresh_capacity = fresh_capacity
        self._lock = asyncio.Lock()
        self._unconfirmed: set[PoolId] = set()
        """Pools whose stored config may differ from the tree's."""

    @property
    def tree(self) -> PoolTree:
        """Return the scheduler's tree."""
        return self._driver.scheduler.tree

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the lock for a change and what is read for it. The changing methods require it.

        Wait until the tasks stored before this term are queued: their pools are not empty. Raises Unavailable
        where the store cannot take what an earlier change left unconfirmed.
        """
        await self._driver.recovered.wait()
        async with self._lock:
            for pool_id in tuple(self._unconfirmed):
                held = self.tree.find(pool_id)
                await (self._delete(pool_id) if held is None else self._write(held.config))
            yield

    async def create(self, config: PoolConfig, who: str) -> None:
        """Create a pool. Raises InvalidArgument, PoolExists, and AlreadyExists for an id that is taken."""
        if config.id in {pool.id for pool in self.tree}:
            raise AlreadyExists(f"there is a pool with the id {config.id} already")
        await self._know_capacity(config)
        now = self._driver.clock.wall()
        config = replace(config, version=1, created_at=now, updated_at=now, updated_by=who)
        self.tree.check_new(config)
        await self._write(config)
        self.tree.insert(config)
        self._changed()

    async def update(self, config: PoolConfig, who: str, force: bool) -> None:
        """Change a pool. Raises NotFound and InvalidArgument.

        A limit may be lowered below the allocation: no gang is admitted until it fits.
        """
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

    async def delete(self, pool: Pool) -> None:
        """Delete a pool. Raises PoolBusy, PoolNotLeaf, or Refused for the root.

        The pool leaves the tree first, so that no gang is queued in it while the store deletes it.
        """
        self.tree.delete(pool.id)
        try:
            await self._delete(pool.id)
        finally:
            if pool.id in self._unconfirmed:
                self.tree.insert(pool.config)
            self._changed()

    async def _write(self, config: PoolConfig) -> None:
        self._unconfirmed.add(config.id)
        await self._pools.write(config)
        self._unconfirmed.discard(config.id)

    async def _delete(self, pool_id: PoolId) -> None:
        self._unconfirmed.add(pool_id)
        await self._pools.delete(pool_id)
        self._unconfirmed.discard(pool_id)

    async def _know_capacity(self, config: PoolConfig) -> None:
        if config.parent == ROOT_POOL:
            await self._fresh_capacity()

    def _changed(self) -> None:
        self._driver.scheduler.entitle()
        self._driver.wake()
