"""Every method of resmgr about pools and jobs, from the descriptors, called with a role of another pool."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory

from peloton.api.v0.respool.respool_pb2_grpc import add_ResourceManagerServicer_to_server
from peloton.api.v1alpha.respool.svc.respool_svc_pb2_grpc import add_ResourcePoolServiceServicer_to_server
from peloton.errors import PermissionDenied
from peloton.identity.methods import interface, scoped
from peloton.private.resmgr.explain.explain_pb2_grpc import add_ExplainServiceServicer_to_server
from peloton.rpc.server import service
from resmgr.services.explain import ExplainService
from resmgr.services.pools import PoolService
from resmgr.services.pools_v1alpha import PoolServiceV1Alpha
from tests.unit.resmgr.shell import Shell, wire_gang
from tests.unit.resmgr.test_pool_scopes import Context, as_bound
from tests.unit.resmgr.world import JOB

IN_JOBMGR = ("job", "task", "update", "volume", "pod", "watch", "plan", "jobmgr")
"""What the packages of the services have in their names that jobmgr serves; its own tests call them."""
LISTS = {
    ("peloton.api.v0.respool.ResourceManager", "Query"),
    ("peloton.api.v1alpha.respool.ResourcePoolService", "QueryResourcePools"),
}
"""They name no pool, and leave out what may not be read."""
DESCRIPTORS: Any = descriptor_pool


def methods() -> list[tuple[str, str]]:
    return sorted(
        (name, method)
        for name, found in interface().items()
        for method in found
        if scoped(name, method) and not set(name.split(".")) & set(IN_JOBMGR)
    )


def request_for(name: str, method: str, pools: dict[str, str]) -> Any:
    """A request about the pool /b/y, or a new one in /b, or the job in /b/y."""
    described = DESCRIPTORS.Default().FindServiceByName(name).FindMethodByName(method).input_type
    request = message_factory.GetMessageClass(described)()
    for field in described.fields:
        kind = field.message_type.name if field.message_type is not None else ""
        if kind == "ResourcePoolID":
            getattr(request, field.name).value = pools["/b/y"]
        elif kind == "ResourcePoolPath":
            getattr(request, field.name).value = "/b/y"
        elif kind in ("ResourcePoolConfig", "ResourcePoolSpec"):
            getattr(request, field.name).name = "y" if "Update" in method else "new"
            getattr(request, field.name).parent.value = pools["/b"]
        elif kind == "JobID":
            getattr(request, field.name).value = JOB
    return request


@pytest.fixture
async def pools(shell: Shell) -> dict[str, str]:
    ids = {"/": "root"}
    for path, parent in (("/a", "/"), ("/b", "/"), ("/b/y", "/b")):
        ids[path] = await shell.pool(path.rsplit("/", 1)[1], ids[parent])
    await shell.enqueue(ids["/b/y"], wire_gang(0))
    return ids


def test_all_that_resmgr_serves_is_called() -> None:
    """A new method about pools or jobs is either here or in the test of jobmgr's."""
    from jobmgr.server import NAMES

    of_jobmgr = {name for name in interface() if name in NAMES}
    of_resmgr = {name for name, _ in methods()}
    rest = {name for name, found in interface().items() if any(scoped(name, each) for each in found)}
    assert rest == (rest & of_jobmgr) | of_resmgr
    assert not of_jobmgr & of_resmgr
    assert len(methods()) > 10


@pytest.mark.parametrize(("name", "method"), methods())
async def test_a_role_of_another_pool_is_refused(
    shell: Shell, pools: dict[str, str], name: str, method: str
) -> None:
    before = [(pool.path, pool.config) for pool in shell.changes.tree]
    handlers = {
        served: each.methods
        for each in (
            service(add_ResourceManagerServicer_to_server, PoolService(shell.changes)),
            service(add_ResourcePoolServiceServicer_to_server, PoolServiceV1Alpha(shell.changes)),
            service(add_ExplainServiceServicer_to_server, ExplainService(shell.driver)),
        )
        for served in each.names
    }
    request = request_for(name, method, pools)

    async def call() -> Any:
        return await handlers[name][method].unary_unary(request, Context())

    if (name, method) in LISTS:
        answer = (await as_bound(call)).SerializeToString()
        assert pools["/b"].encode() not in answer and pools["/b/y"].encode() not in answer
        assert pools["/a"].encode() in answer
    else:
        with pytest.raises(PermissionDenied):
            await as_bound(call)
    assert [(pool.path, pool.config) for pool in shell.changes.tree] == before
