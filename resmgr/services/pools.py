"""The v0 service of resource pools; refusals are in `error` (docs/behaviour/system.md, Answers)."""

from __future__ import annotations

import uuid
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2 as pb
from peloton.api.v0.respool import respool_pb2_grpc
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.ids import ROOT_POOL
from peloton.model.pool import PoolConfig
from peloton.model.resources import KINDS, MILLI
from peloton.rpc.server import author
from peloton.wire.pool import pool_config, pool_config_to
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolBusy, PoolExists, PoolNotLeaf
from resmgr.services.pool_changes import PoolChanges
from resmgr.services.scope import require_change, require_new_child, require_visible, visible

ALIASES = ("peloton.api.respool.ResourceManager",)
"""The name that published clients call (docs/behaviour/system.md, Ports and service names)."""
_POLICIES = (pb.UNKNOWN, pb.PriorityFIFO)


class PoolService(respool_pb2_grpc.ResourceManagerServicer):
    """Serve the pool tree to clients of the v0 API."""

    def __init__(self, changes: PoolChanges) -> None:
        self._changes = changes
        self._tree = changes.tree

    async def CreateResourcePool(self, request: pb.CreateRequest, context: Any) -> pb.CreateResponse:
        """Create a pool."""
        pool_id, error = str(uuid.uuid4()), pb.CreateResponse.Error
        async with self._changes.exclusive():
            try:
                config = _config(pool_id, request.config)
                require_new_child(self._tree.find(config.parent))
                await self._changes.create(config, author(context))
            except PoolExists as exists:
                same = pb.ResourcePoolAlreadyExists(id=_id(exists.pool_id), message=str(exists))
                return pb.CreateResponse(error=error(alreadyExists=same))
            except InvalidArgument as wrong:
                invalid = pb.InvalidResourcePoolConfig(id=_id(pool_id), message=str(wrong))
                return pb.CreateResponse(error=error(invalidResourcePoolConfig=invalid))
        return pb.CreateResponse(result=_id(pool_id))

    async def UpdateResourcePool(self, request: pb.UpdateRequest, context: Any) -> pb.UpdateResponse:
        """Change a pool."""
        error = pb.UpdateResponse.Error
        async with self._changes.exclusive():
            try:
                held = self._tree.get(request.id.value)
                require_change(held)
                config = _config(held.id, request.config)
                require_new_child(self._tree.find(config.parent))
                await self._changes.update(config, author(context), request.Force)
            except NotFound as missing:
                found = pb.ResourcePoolNotFound(id=request.id, message=str(missing))
                return pb.UpdateResponse(error=error(notFound=found))
            except InvalidArgument as wrong:
                invalid = pb.InvalidResourcePoolConfig(id=request.id, message=str(wrong))
                return pb.UpdateResponse(error=error(invalidResourcePoolConfig=invalid))
        return pb.UpdateResponse()

    async def DeleteResourcePool(self, request: pb.DeleteRequest, context: Any) -> pb.DeleteResponse:
        """Delete a pool."""
        error = pb.DeleteResponse.Error
        async with self._changes.exclusive():
            pool: Pool | None = None
            try:
                pool = self._tree.lookup(request.path.value)
                require_change(pool)
                await self._changes.delete(pool)
            except (NotFound, InvalidArgument) as missing:
                found = pb.ResourcePoolPathNotFound(path=request.path, message=str(missing))
                return pb.DeleteResponse(error=error(notFound=found))
            except PoolBusy as busy:
                is_busy = pb.ResourcePoolIsBusy(id=_id_of(pool), message=str(busy))
                return pb.DeleteResponse(error=error(isBusy=is_busy))
            except PoolNotLeaf as parent:
                not_leaf = pb.ResourcePoolIsNotLeaf(id=_id_of(pool), message=str(parent))
                return pb.DeleteResponse(error=error(isNotLeaf=not_leaf))
            except Refused as refused:
                not_deleted = pb.ResourcePoolNotDeleted(id=_id_of(pool), message=str(refused))
                return pb.DeleteResponse(error=error(notDeleted=not_deleted))
        return pb.DeleteResponse()

    async def GetResourcePool(self, request: pb.GetRequest, context: Any) -> pb.GetResponse:
        """Return a pool and, if requested, its children; without an id the root with its children."""
        wanted = request.id.value
        try:
            pool = self._tree.get(wanted or ROOT_POOL)
        except NotFound as missing:
            found = pb.ResourcePoolNotFound(id=request.id, message=str(missing))
            return pb.GetResponse(error=pb.GetResponse.Error(notFound=found))
        require_visible(pool)
        children = pool.children.values() if request.includeChildPools or not wanted else ()
        return pb.GetResponse(poolinfo=_info(pool), childPools=map(_info, filter(visible, children)))

    async def LookupResourcePoolID(self, request: pb.LookupRequest, context: Any) -> pb.LookupResponse:
        """Return the id of the pool of a path."""
        error = pb.LookupResponse.Error
        try:
            pool = self._tree.lookup(request.path.value)
        except InvalidArgument as wrong:
            invalid = pb.InvalidResourcePoolPath(path=request.path, message=str(wrong))
            return pb.LookupResponse(error=error(invalidPath=invalid))
        except NotFound as missing:
            found = pb.ResourcePoolPathNotFound(path=request.path, message=str(missing))
            return pb.LookupResponse(error=error(notFound=found))
        require_visible(pool)
        return pb.LookupResponse(id=_id(pool.id))

    async def Query(self, request: pb.QueryRequest, context: Any) -> pb.QueryResponse:
        """Return all pools that the caller may read."""
        return pb.QueryResponse(resourcePools=map(_info, filter(visible, self._tree)))


def _config(pool_id: str, wire: pb.ResourcePoolConfig) -> PoolConfig:
    config = pool_config(pool_id, wire)
    if wire.policy not in _POLICIES:
        raise InvalidArgument("policy", wire.policy, "PriorityFIFO (1)")
    return config


def _id(pool_id: str) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=pool_id)


def _id_of(pool: Pool | None) -> peloton_pb2.ResourcePoolID | None:
    return _id(pool.id) if pool is not None else None


def _info(pool: Pool) -> pb.ResourcePoolInfo:
    allocation = pool.allocation()
    firm, slack = allocation["non-slack"].values(), allocation["slack"].values()
    return pb.ResourcePoolInfo(
        id=_id(pool.id),
        config=pool_config_to(pool.config),
        parent=_id(pool.parent.id) if pool.parent is not None else None,
        children=[_id(child.id) for child in pool.children.values() if visible(child)],
        usage=[
            pb.ResourceUsage(kind=kind, allocation=firm[i] / MILLI, slack=slack[i] / MILLI)
            for i, kind in enumerate(KINDS)
        ],
        path=pb.ResourcePoolPath(value=pool.path),
    )
