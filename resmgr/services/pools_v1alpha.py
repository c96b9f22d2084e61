"""The v1alpha service of resource pools; refusals are gRPC statuses (docs/behaviour/system.md, Answers)."""

from __future__ import annotations

import uuid
from typing import Any

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.respool import respool_pb2
from peloton.api.v1alpha.respool.svc import respool_svc_pb2 as pb
from peloton.api.v1alpha.respool.svc import respool_svc_pb2_grpc
from peloton.errors import InvalidArgument
from peloton.model.ids import ROOT_POOL, PoolId, is_uuid
from peloton.model.resources import KINDS, MILLI
from peloton.rpc.server import author
from peloton.wire.pool_v1alpha import pool_config, pool_spec_to
from resmgr.core.state.pool import Pool
from resmgr.services.pool_changes import PoolChanges
from resmgr.services.scope import require_change, require_new_child, require_visible, visible


class PoolServiceV1Alpha(respool_svc_pb2_grpc.ResourcePoolServiceServicer):
    """Serve the pool tree to clients of the v1alpha API. A PelotonError becomes the call's status."""

    def __init__(self, changes: PoolChanges) -> None:
        self._changes = changes

    async def CreateResourcePool(
        self, request: pb.CreateResourcePoolRequest, context: Any
    ) -> pb.CreateResourcePoolResponse:
        """Create a pool."""
        pool_id = _new_id(request.respool_id.value)
        async with self._changes.exclusive():
            config = pool_config(pool_id, request.spec)
            require_new_child(self._changes.tree.find(config.parent))
            await self._changes.create(config, author(context))
        return pb.CreateResourcePoolResponse(respool_id=_id(pool_id))

    async def GetResourcePool(
        self, request: pb.GetResourcePoolRequest, context: Any
    ) -> pb.GetResourcePoolResponse:
        """Return a pool and, if requested, its children; without an id the root with its children."""
        wanted = request.respool_id.value
        pool = self._changes.tree.get(wanted or ROOT_POOL)
        require_visible(pool)
        children = pool.children.values() if request.include_child_pools or not wanted else ()
        return pb.GetResourcePoolResponse(
            respool=_info(pool), child_respools=map(_info, filter(visible, children))
        )

    async def DeleteResourcePool(
        self, request: pb.DeleteResourcePoolRequest, context: Any
    ) -> pb.DeleteResourcePoolResponse:
        """Delete a pool."""
        async with self._changes.exclusive():
            pool = self._changes.tree.get(request.respool_id.value)
            require_change(pool)
            await self._changes.delete(pool)
        return pb.DeleteResourcePoolResponse()

    async def UpdateResourcePool(
        self, request: pb.UpdateResourcePoolRequest, context: Any
    ) -> pb.UpdateResourcePoolResponse:
        """Change a pool."""
        async with self._changes.exclusive():
            held = self._changes.tree.get(request.respool_id.value)
            require_change(held)
            config = pool_config(held.id, request.spec)
            require_new_child(self._changes.tree.find(config.parent))
            await self._changes.update(config, author(context), request.Force)
        return pb.UpdateResourcePoolResponse()

    async def LookupResourcePoolID(
        self, request: pb.LookupResourcePoolIDRequest, context: Any
    ) -> pb.LookupResourcePoolIDResponse:
        """Return the id of the pool of a path."""
        pool = self._changes.tree.lookup(request.path.value)
        require_visible(pool)
        return pb.LookupResourcePoolIDResponse(respool_id=_id(pool.id))

    async def QueryResourcePools(
        self, request: pb.QueryResourcePoolsRequest, context: Any
    ) -> pb.QueryResourcePoolsResponse:
        """Return all pools that the caller may read."""
        return pb.QueryResourcePoolsResponse(respools=map(_info, filter(visible, self._changes.tree)))


def _new_id(requested: str) -> PoolId:
    """Return the requested id or a new one. Raises InvalidArgument for an id that is not a UUID."""
    if requested and not is_uuid(requested):
        raise InvalidArgument("respool_id", requested, "a UUID, or empty")
    return requested or str(uuid.uuid4())


def _id(pool_id: PoolId) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=pool_id)


def _info(pool: Pool) -> respool_pb2.ResourcePoolInfo:
    allocation = pool.allocation()
    firm, slack = allocation["non-slack"].values(), allocation["slack"].values()
    return respool_pb2.ResourcePoolInfo(
        respool_id=_id(pool.id),
        spec=pool_spec_to(pool.config),
        parent=_id(pool.parent.id) if pool.parent is not None else None,
        children=[_id(child.id) for child in pool.children.values() if visible(child)],
        usages=[
            respool_pb2.ResourceUsage(kind=kind, allocation=firm[i] / MILLI, slack=slack[i] / MILLI)
            for i, kind in enumerate(KINDS)
        ],
        path=respool_pb2.ResourcePoolPath(value=pool.path),
    )
