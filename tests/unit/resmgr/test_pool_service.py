from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2 as pb
from peloton.errors import Unavailable
from peloton.model.pool import PoolConfig
from resmgr.core.state.pools import PoolTree
from storage.interface import Pools
from tests.unit.resmgr.shell import CLIENT, Shell, pool_config, wire_gang


def pool_id(value: str) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=value)


async def create(shell: Shell, config: pb.ResourcePoolConfig) -> pb.CreateResponse:
    return await shell.pools.CreateResourcePool(pb.CreateRequest(config=config), CLIENT)


async def delete(shell: Shell, path: str) -> pb.DeleteResponse:
    request = pb.DeleteRequest(path=pb.ResourcePoolPath(value=path))
    return await shell.pools.DeleteResourcePool(request, CLIENT)


async def lookup(shell: Shell, path: str) -> pb.LookupResponse:
    request = pb.LookupRequest(path=pb.ResourcePoolPath(value=path))
    return await shell.pools.LookupResourcePoolID(request, CLIENT)


async def test_a_pool_is_created_stored_and_found(shell: Shell) -> None:
    made = await shell.pool("a", description="ours", owningTeam="t1")
    [stored] = await shell.store.pools.all()
    assert (stored.id, stored.name, stored.description, stored.version) == (made, "a", "ours", 1)
    assert stored.created_at > 0
    assert (await lookup(shell, "/a")).id.value == made
    answer = await shell.pools.GetResourcePool(
        pb.GetRequest(id=pool_id("root"), includeChildPools=True), CLIENT
    )
    assert [child.path.value for child in answer.childPools] == ["/a"]
    assert answer.poolinfo.path.value == "/"
    info = answer.childPools[0]
    assert (info.config.owningTeam, info.parent.value, info.id.value) == ("t1", "root", made)
    assert [usage.kind for usage in info.usage] == ["cpu", "memory", "disk", "gpu"]
    assert shell.requests == 1


async def test_the_tree_is_the_same_after_loading_it_from_the_store(shell: Shell) -> None:
    parent = await shell.pool("a")
    await shell.pool("b", parent, reservation=5)
    tree = PoolTree()
    tree.load(await shell.store.pools.all())
    assert [pool.config for pool in tree if pool.parent] == [
        pool.config for pool in shell.driver.scheduler.tree if pool.parent
    ]


async def test_the_same_name_again_already_exists(shell: Shell) -> None:
    made = await shell.pool("a")
    answer = await create(shell, pool_config("a"))
    assert answer.error.alreadyExists.id.value == made
    assert "/a" in answer.error.alreadyExists.message
    assert not answer.result.value
    assert len(await shell.store.pools.all()) == 1


WRONG = [
    (pool_config("b", reservation=-1), "resources[0].reservation: -1.0 is not a number from 0 to"),
    (pool_config("b", reservation=math.nan), "resources[0].reservation: nan is not"),
    (pool_config("b", limit=math.inf), "resources[0].limit: inf is not"),
    (pool_config("b", reservation=20, limit=10), "resources[0].limit: 10.0 is not at least the reservation"),
    (pool_config("b", reservation=101, limit=200), "resources[0].reservation: 101.0 is not at most 100"),
    (pool_config(""), "name: '' is not"),
    (pool_config("b", parent="nobody"), "parent: 'nobody' is not"),
    (pool_config("b", policy=7), "policy: 7 is not PriorityFIFO (1)"),
]


@pytest.mark.parametrize(("config", "message"), WRONG, ids=[message for _, message in WRONG])
async def test_a_wrong_config_is_refused_and_nothing_stored(
    shell: Shell, config: pb.ResourcePoolConfig, message: str
) -> None:
    answer = await create(shell, config)
    assert answer.error.invalidResourcePoolConfig.message.startswith(message)
    assert not await shell.store.pools.all()


async def test_a_pool_is_updated(shell: Shell) -> None:
    made = await shell.pool("a")
    request = pb.UpdateRequest(id=pool_id(made), config=pool_config("a", reservation=20, limit=50))
    assert not (await shell.pools.UpdateResourcePool(request, CLIENT)).HasField("error")
    [stored] = await shell.store.pools.all()
    assert (stored.kind("cpu").reservation, stored.version) == (20_000, 2)
    assert shell.driver.scheduler.tree.get(made).entitlement[0] == 50_000


async def test_a_wrong_update_is_refused_unless_forced(shell: Shell) -> None:
    made = await shell.pool("a")
    request = pb.UpdateRequest(id=pool_id(made), config=pool_config("a", reservation=120, limit=120))
    answer = await shell.pools.UpdateResourcePool(request, CLIENT)
    assert "at most 100" in answer.error.invalidResourcePoolConfig.message
    request.Force = True
    assert not (await shell.pools.UpdateResourcePool(request, CLIENT)).HasField("error")
    request.id.value = "nobody"
    assert (await shell.pools.UpdateResourcePool(request, CLIENT)).error.notFound.id.value == "nobody"


async def test_without_an_id_the_root_is_told_with_its_children(shell: Shell) -> None:
    made = [await shell.pool("a"), await shell.pool("b")]
    await shell.pool("c", made[0], reservation=1)
    for request in (pb.GetRequest(), pb.GetRequest(includeChildPools=True)):
        answer = await shell.pools.GetResourcePool(request, CLIENT)
        assert (answer.poolinfo.id.value, answer.poolinfo.path.value) == ("root", "/")
        assert [child.id.value for child in answer.childPools] == made
    named = await shell.pools.GetResourcePool(pb.GetRequest(id=pool_id("root")), CLIENT)
    assert not named.childPools, "where the root is named, its children are asked for as any pool's"


async def test_unknown_pools_and_paths(shell: Shell) -> None:
    answer = await shell.pools.GetResourcePool(pb.GetRequest(id=pool_id("nobody")), CLIENT)
    assert answer.error.notFound.id.value == "nobody"
    missing = await lookup(shell, "/nobody")
    assert (missing.error.notFound.path.value, missing.id.value) == ("/nobody", "")
    assert (await lookup(shell, "nobody")).error.invalidPath.path.value == "nobody"
    assert (await lookup(shell, "")).error.HasField("invalidPath")
    assert (await delete(shell, "/nobody")).error.HasField("notFound")


async def test_a_pool_is_deleted_when_it_is_an_idle_leaf(shell: Shell) -> None:
    made = await shell.pool("a")
    child = await shell.pool("b", made, reservation=1)
    assert (await delete(shell, "/a")).error.isNotLeaf.id.value == made
    await shell.enqueue(child, wire_gang(0))
    busy = (await delete(shell, "/a/b")).error.isBusy
    assert busy.id.value == child
    assert "allocation cpu:1" in busy.message
    assert (await delete(shell, "/")).error.HasField("notDeleted")
    shell.driver.scheduler.kill("11111111-1111-4111-8111-111111111111", 0)
    assert not (await delete(shell, "/a/b")).HasField("error")
    assert not (await delete(shell, "/a")).HasField("error")
    assert not await shell.store.pools.all()
    assert len((await shell.pools.Query(pb.QueryRequest(), CLIENT)).resourcePools) == 1


async def test_a_pool_whose_deletion_failed_in_the_store_stays(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await shell.pool("a")

    async def broken(pool: str) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(shell.store.pools, "delete", broken)
    with pytest.raises(Unavailable):
        await delete(shell, "/a")
    assert (await lookup(shell, "/a")).id.value == made
    assert not (await shell.enqueue(made, wire_gang(0))).HasField("error")


async def test_a_pool_whose_tasks_are_yet_to_be_queued_again_has_tasks(shell: Shell) -> None:
    """A new leader serves before its tasks are queued."""
    made = await shell.pool("a")
    shell.driver.recovered.clear()
    deleting = asyncio.create_task(delete(shell, "/a"))
    below = asyncio.create_task(create(shell, pool_config("b", made)))
    await asyncio.sleep(0)
    await shell.enqueue(made, wire_gang(0))
    shell.driver.recovered.set()
    assert (await deleting).error.HasField("isBusy")
    assert (await below).error.HasField("invalidResourcePoolConfig")


class Doubtful:
    """Pools that are written and deleted without an answer, or not written at all."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self.answers = self.writes = True

    async def write(self, pool: PoolConfig) -> None:
        if self.writes:
            await self._pools.write(pool)
        self._answer()

    async def delete(self, pool_id: str) -> None:
        if self.writes:
            await self._pools.delete(pool_id)
        self._answer()

    async def all(self) -> Sequence[PoolConfig]:
        return await self._pools.all()

    def _answer(self) -> None:
        if not (self.answers and self.writes):
            raise Unavailable("who knows")


async def test_an_unconfirmed_pool_is_deleted_before_the_next_change(shell: Shell) -> None:
    """Else there would be two of its name, and the next leader would see one of them."""
    doubtful = shell.changes._pools = Doubtful(shell.store.pools)
    doubtful.answers = False
    with pytest.raises(Unavailable):
        await shell.pool("a")
    assert len(await shell.store.pools.all()) == 1
    doubtful.writes = False
    with pytest.raises(Unavailable):
        await shell.pool("a")
    doubtful.answers = doubtful.writes = True
    made = await shell.pool("a")
    assert [pool.id for pool in await shell.store.pools.all()] == [made]


async def test_what_may_not_be_stored_is_stored_before_the_next_change(shell: Shell) -> None:
    made = await shell.pool("a", limit=10)
    doubtful = shell.changes._pools = Doubtful(shell.store.pools)
    doubtful.answers = False
    update = pb.UpdateRequest(id=pool_id(made), config=pool_config("a", limit=20))
    with pytest.raises(Unavailable):
        await shell.pools.UpdateResourcePool(update, CLIENT)
    with pytest.raises(Unavailable):
        await delete(shell, "/a")
    doubtful.answers = True
    await shell.pool("b")
    stored = {pool.name: pool.kind("cpu").limit for pool in await shell.store.pools.all()}
    assert stored["a"] == 10_000, "as the tree has it, which got neither change"
    tree = PoolTree()
    tree.load(await shell.store.pools.all())
    assert {pool.path for pool in tree} == {pool.path for pool in shell.driver.scheduler.tree}


def test_siblings_that_are_stored_with_one_name_are_all_there() -> None:
    tree = PoolTree()
    renamed = tree.load(
        [
            PoolConfig("2", "a", "root", {}, created_at=20),
            PoolConfig("1", "a", "root", {}, created_at=10),
            PoolConfig("3", "b", "2", {}, created_at=30),
        ]
    )
    assert [pool.path for pool in tree] == ["/", "/a", "/a~2", "/a~2/b"]
    assert [pool.id for pool in renamed] == ["2"]


async def test_the_root_pool_has_the_capacity(shell: Shell) -> None:
    answer = await shell.pools.GetResourcePool(pb.GetRequest(id=pool_id("root")), CLIENT)
    amounts = {kind.kind: (kind.reservation, kind.limit) for kind in answer.poolinfo.config.resources}
    assert amounts == {"cpu": (100, 100), "memory": (1000, 1000), "disk": (1000, 1000), "gpu": (10, 10)}
