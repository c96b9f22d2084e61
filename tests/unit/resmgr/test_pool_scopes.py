"""Pools that a caller with a role of some subtree may read and change."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest

from peloton.api.v0.respool import respool_pb2 as v0
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.respool.svc import respool_svc_pb2 as pb
from peloton.errors import PermissionDenied
from peloton.identity.principal import Kind, Principal, Scope, enter
from resmgr.services.pools import PoolService
from resmgr.services.pools_v1alpha import PoolServiceV1Alpha
from tests.unit.resmgr.shell import Shell
from tests.unit.resmgr.test_pool_service_v1alpha import spec


class Context:
    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


async def as_bound(call: Any) -> Any:
    """Await a call of a user whose role is bound to /a."""

    async def bound() -> Any:
        enter(Principal("ann", Kind.USER, ("role",)), (Scope(("/a",)),))
        return await call()

    import asyncio

    return await asyncio.get_running_loop().create_task(bound(), context=copy_context())


@pytest.fixture
async def pools(shell: Shell) -> dict[str, str]:
    service, ids = PoolServiceV1Alpha(shell.changes), {"/": "root"}
    for path, parent in (("/a", "/"), ("/a/x", "/a"), ("/b", "/"), ("/b/y", "/b")):
        amounts = {"reservation": 1, "limit": 10} if path.count("/") > 1 else {}
        made = spec(path.rsplit("/", 1)[1], ids[parent], **amounts)
        answer = await service.CreateResourcePool(pb.CreateResourcePoolRequest(spec=made), Context())
        ids[path] = answer.respool_id.value
    return ids


def named(value: str) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=value)


async def test_queries_leave_out_other_subtrees(shell: Shell, pools: dict[str, str]) -> None:
    new, old = PoolServiceV1Alpha(shell.changes), PoolService(shell.changes)
    asked = await as_bound(lambda: new.QueryResourcePools(pb.QueryResourcePoolsRequest(), Context()))
    assert sorted(pool.path.value for pool in asked.respools if pool.path.value != "/") == ["/a", "/a/x"]
    asked = await as_bound(lambda: old.Query(v0.QueryRequest(), Context()))
    assert sorted(pool.path.value for pool in asked.resourcePools if pool.path.value != "/") == ["/a", "/a/x"]
    root = await as_bound(
        lambda: new.GetResourcePool(pb.GetResourcePoolRequest(include_child_pools=True), Context())
    )
    assert pools["/b"] not in {child.value for child in root.respool.children}
    assert "/b" not in {child.path.value for child in root.child_respools}
    with pytest.raises(PermissionDenied, match="user ann may read pools below /a only: not /b"):
        await as_bound(
            lambda: new.GetResourcePool(pb.GetResourcePoolRequest(respool_id=named(pools["/b"])), Context())
        )


async def test_only_pools_below_are_changed(shell: Shell, pools: dict[str, str]) -> None:
    new = PoolServiceV1Alpha(shell.changes)
    small = {"reservation": 1, "limit": 5}

    def create(parent: str) -> Any:
        request = pb.CreateResourcePoolRequest(spec=spec("z", pools[parent], **small))
        return lambda: new.CreateResourcePool(request, Context())

    def change(which: str, parent: str) -> Any:
        request = pb.UpdateResourcePoolRequest(
            respool_id=named(pools[which]), spec=spec(which.rsplit("/", 1)[1], pools[parent], **small)
        )
        return lambda: new.UpdateResourcePool(request, Context())

    def delete(which: str) -> Any:
        request = pb.DeleteResourcePoolRequest(respool_id=named(pools[which]))
        return lambda: new.DeleteResourcePool(request, Context())

    for call in (create("/b"), create("/"), change("/b/y", "/b"), change("/a", "/"), change("/a/x", "/b")):
        with pytest.raises(PermissionDenied, match="user ann may change pools below /a only"):
            await as_bound(call)
    for which in ("/", "/a", "/b", "/b/y"):
        with pytest.raises(PermissionDenied):
            await as_bound(delete(which))
    await as_bound(create("/a"))
    await as_bound(change("/a/x", "/a"))
    await as_bound(delete("/a/x"))
    made = {pool.config.name: pool.config.updated_by for pool in shell.changes.tree}
    assert made["z"] == "ann" and "x" not in made and "y" in made
