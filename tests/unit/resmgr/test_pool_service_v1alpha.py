from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.respool import respool_pb2
from peloton.api.v1alpha.respool.svc import respool_svc_pb2 as pb
from peloton.api.v1alpha.respool.svc.respool_svc_pb2_grpc import (
    ResourcePoolServiceStub,
    add_ResourcePoolServiceServicer_to_server,
)
from peloton.rpc.server import RpcServer, service
from resmgr.services.pools_v1alpha import PoolServiceV1Alpha
from tests.unit.resmgr.shell import Shell, wire_gang

NOBODY = "99999999-9999-4999-8999-999999999999"


@pytest_asyncio.fixture
async def stub(shell: Shell) -> AsyncIterator[Any]:
    server = RpcServer(lambda: "no leader")
    made = PoolServiceV1Alpha(shell.changes)
    server.activate([service(add_ResourcePoolServiceServicer_to_server, made)])
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield ResourcePoolServiceStub(channel)
    await server.stop(0)


def pool_id(value: str) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=value)


def spec(name: str = "a", parent: str = "root", reservation: float = 10, limit: float = 50, **of: Any) -> Any:
    kind = of.pop("type", respool_pb2.RESERVATION_TYPE_ELASTIC)
    made = respool_pb2.ResourcePoolSpec(name=name, parent=pool_id(parent), **of)
    for name, factor in (("cpu", 1), ("memory", 10), ("disk", 10)):
        made.resources.add(
            kind=name, reservation=reservation * factor, limit=limit * factor, share=1, type=kind
        )
    return made


async def create(stub: Any, made: Any, wanted: str = "") -> str:
    request = pb.CreateResourcePoolRequest(spec=made, respool_id=pool_id(wanted) if wanted else None)
    return str((await stub.CreateResourcePool(request)).respool_id.value)


async def get(stub: Any, which: str, children: bool = False) -> pb.GetResourcePoolResponse:
    request = pb.GetResourcePoolRequest(respool_id=pool_id(which), include_child_pools=children)
    answer: pb.GetResourcePoolResponse = await stub.GetResourcePool(request)
    return answer


async def update(stub: Any, which: str, made: Any, force: bool = False) -> None:
    await stub.UpdateResourcePool(
        pb.UpdateResourcePoolRequest(respool_id=pool_id(which), spec=made, Force=force)
    )


async def delete(stub: Any, which: str) -> None:
    await stub.DeleteResourcePool(pb.DeleteResourcePoolRequest(respool_id=pool_id(which)))


async def refused(call: Any) -> tuple[str, str]:
    """Name of the status, and its text."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code().name, error.value.details() or ""


async def test_a_pool_is_created_read_changed_and_deleted(shell: Shell, stub: Any) -> None:
    given = spec(description="ours", owning_team="t1", policy=respool_pb2.SCHEDULING_POLICY_PRIORITY_FIFO)
    given.controller_limit.max_percent = 30
    given.slack_limit.maxPercent = 40
    made = await create(stub, given)
    info = (await get(stub, made)).respool
    assert (info.respool_id.value, info.path.value, info.parent.value) == (made, "/a", "root")
    assert info.spec.revision.version == 1 and info.spec.revision.created_at > 0
    read = respool_pb2.ResourcePoolSpec()
    read.CopyFrom(info.spec)
    read.ClearField("revision")
    assert read == given
    assert [usage.kind for usage in info.usages] == ["cpu", "memory", "disk", "gpu"]
    await update(stub, made, spec("b", limit=60))
    path = pb.LookupResourcePoolIDRequest(path=respool_pb2.ResourcePoolPath(value="/b"))
    assert (await stub.LookupResourcePoolID(path)).respool_id.value == made
    assert (await get(stub, "root", children=True)).child_respools[0].spec.revision.version == 2
    everything = await stub.QueryResourcePools(pb.QueryResourcePoolsRequest())
    assert [pool.path.value for pool in everything.respools] == ["/", "/b"]
    assert [pool.name for pool in await shell.store.pools.all()] == ["b"]
    await delete(stub, made)
    assert not await shell.store.pools.all()
    assert (await refused(get(stub, made)))[0] == "NOT_FOUND"


async def test_both_versions_show_the_same_tree(shell: Shell, stub: Any) -> None:
    old = await shell.pool("old")
    wanted = str(uuid.uuid4())
    assert await create(stub, spec("new"), wanted) == wanted
    assert (await get(stub, old)).respool.path.value == "/old"
    assert (await shell.usage(wanted))["cpu"] == 0


async def test_without_an_id_the_root_is_told_with_its_children(stub: Any) -> None:
    made = await create(stub, spec())
    answer = await stub.GetResourcePool(pb.GetResourcePoolRequest())
    assert answer.respool.respool_id.value == "root"
    assert [child.respool_id.value for child in answer.child_respools] == [made]


async def test_refusals_are_statuses(shell: Shell, stub: Any) -> None:
    made = await create(stub, spec())
    assert await refused(create(stub, spec())) == (
        "ALREADY_EXISTS",
        f"name: there is a pool /a already, with id {made}",
    )
    assert (await refused(create(stub, spec("b"), made)))[0] == "ALREADY_EXISTS"
    for wrong, text in (
        (create(stub, spec("b"), "mine"), "respool_id: 'mine' is not a UUID"),
        (create(stub, spec("b", reservation=60)), "resources[0].limit: 50"),
        (create(stub, spec("b", parent=NOBODY)), "parent: "),
        (create(stub, spec("b", policy=7)), "policy: 7"),
        (update(stub, made, spec(reservation=-1)), "resources[0].reservation: -1"),
        (update(stub, made, spec(parent=NOBODY)), "a pool keeps its parent"),
        (update(stub, "root", spec()), "the root is fixed"),
    ):
        code, message = await refused(wrong)
        assert code == "INVALID_ARGUMENT" and text in message, message
    for unknown in (
        update(stub, NOBODY, spec()),
        delete(stub, NOBODY),
        get(stub, NOBODY),
        stub.LookupResourcePoolID(
            pb.LookupResourcePoolIDRequest(path=respool_pb2.ResourcePoolPath(value="/z"))
        ),
    ):
        assert (await refused(unknown))[0] == "NOT_FOUND"
    assert (await refused(delete(stub, "root")))[0] == "FAILED_PRECONDITION"
    await create(stub, spec("c", made, reservation=1))
    code, message = await refused(delete(stub, made))
    assert code == "FAILED_PRECONDITION" and "c" in message


async def test_a_busy_pool_is_not_deleted(shell: Shell, stub: Any) -> None:
    made = await create(stub, spec())
    await shell.enqueue(made, wire_gang(0, cpu=20), wire_gang(1, cpu=20), wire_gang(2, cpu=20))
    code, message = await refused(delete(stub, made))
    assert code == "FAILED_PRECONDITION"
    assert "/a has 3 tasks" in message
    assert (await get(stub, made)).respool.path.value == "/a"


async def test_a_limit_lowered_under_the_allocation_admits_nothing_until_it_fits(
    shell: Shell, stub: Any
) -> None:
    made = await create(stub, spec())
    await shell.enqueue(made, *(wire_gang(i, cpu=10) for i in range(4)))
    gangs = await shell.dequeue()
    assert len(gangs) == 4
    await update(stub, made, spec(limit=30))
    await shell.enqueue(made, wire_gang(9, cpu=5))
    assert (await shell.states())[wire_gang(9).tasks[0].taskId.value] == "PENDING"
    [waiting] = [task for task in shell.driver.scheduler.registry if task.instance == 9]
    assert waiting.reason == "cpu: allocation 40 cores + gang 5 cores > entitlement 30 cores in /a"
    usage = {usage.kind: usage.allocation for usage in (await get(stub, made)).respool.usages}
    assert usage["cpu"] == 40, "nothing is taken away by the update itself"
    for instance in (0, 1):
        shell.driver.scheduler.kill(waiting.job.id, instance)
    while shell.driver.cycle():
        pass
    assert waiting.state.name == "READY"


async def test_static_and_elastic_may_be_changed_while_tasks_run(shell: Shell, stub: Any) -> None:
    static = await create(stub, spec("s", limit=100, reservation=40, type=2))
    other = await create(stub, spec("o", limit=100, reservation=10))
    await shell.enqueue(other, *(wire_gang(i, cpu=10) for i in range(10)))
    scheduler = shell.driver.scheduler

    def cores(pool: str) -> float:
        scheduler.entitle()
        return scheduler.tree.get(pool).entitlement[0] / 1000

    assert (cores(static), cores(other)) == (40, 60), "a static reservation is kept though nobody asks"
    await update(stub, static, spec("s", limit=100, reservation=40))
    assert cores(other) == 100
    await update(stub, static, spec("s", limit=100, reservation=40, type=2))
    assert cores(other) == 60
