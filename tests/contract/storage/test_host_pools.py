"""Host pools: kept over a restart, empty ones too, by framework, written by the leader only."""

from __future__ import annotations

import pytest

from peloton.errors import Fenced
from peloton.model.host_pool import HostPoolChange, PooledHost, StoredHostPools
from storage.interface import Store
from tests.contract.storage.conftest import Opener


async def test_there_are_no_pools_at_first(store: Store) -> None:
    assert await store.host_pools.all("Peloton") == StoredHostPools()


async def test_pools_and_hosts_are_kept_for_other_handles(open_handle: Opener) -> None:
    first = await open_handle()
    moving, there = PooledHost("host0", "default", "shared"), PooledHost("host1", "shared")
    await first.host_pools.write(
        "Peloton", HostPoolChange(created=("shared", "empty"), placed=(there, moving))
    )
    second = await open_handle()
    assert await second.host_pools.all("Peloton") == StoredHostPools(("empty", "shared"), (moving, there))


async def test_frameworks_are_apart(store: Store) -> None:
    for framework, pool in (("a", "shared"), ("b", "stateless")):
        change = HostPoolChange(created=(pool,), placed=(PooledHost("host0", pool),))
        await store.host_pools.write(framework, change)
    await store.host_pools.write("a", HostPoolChange(deleted=("stateless",), forgotten=("host1",)))
    assert await store.host_pools.all("a") == StoredHostPools(("shared",), (PooledHost("host0", "shared"),))
    assert await store.host_pools.all("b") == StoredHostPools(
        ("stateless",), (PooledHost("host0", "stateless"),)
    )


async def test_repeated_changes_change_nothing(store: Store) -> None:
    for _ in range(2):
        await store.host_pools.write("f", HostPoolChange(("a",), (), (PooledHost("host0", "a"),)))
    for _ in range(2):
        await store.host_pools.write("f", HostPoolChange(placed=(PooledHost("host0", "default", "a"),)))
    assert await store.host_pools.all("f") == StoredHostPools(("a",), (PooledHost("host0", "default", "a"),))
    for _ in range(2):
        await store.host_pools.write("f", HostPoolChange(deleted=("a",), forgotten=("host0",)))
    assert await store.host_pools.all("f") == StoredHostPools()
    await store.host_pools.write("f", HostPoolChange(created=("a",)))
    assert await store.host_pools.all("f") == StoredHostPools(("a",))


async def test_a_change_of_many_hosts(store: Store) -> None:
    hosts = tuple(PooledHost(f"host{number:04}", "a") for number in range(1234))
    await store.host_pools.write("f", HostPoolChange(("a",), (), hosts))
    assert await store.host_pools.all("f") == StoredHostPools(("a",), hosts)
    rest = hosts[1000:]
    names = tuple(host.hostname for host in hosts[:1000])
    await store.host_pools.write("f", HostPoolChange(forgotten=names))
    assert await store.host_pools.all("f") == StoredHostPools(("a",), rest)


async def test_a_leader_of_an_older_term_changes_no_pool(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("hostmanager", 3)
    await old.host_pools.write("f", HostPoolChange(created=("a",)))
    await new.begin_term("hostmanager", 4)
    with pytest.raises(Fenced):
        await old.host_pools.write("f", HostPoolChange(deleted=("a",)))
    assert await new.host_pools.all("f") == StoredHostPools(("a",))
