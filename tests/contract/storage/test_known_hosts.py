"""Known hosts: kept over a restart, by framework, written by the leader only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import Fenced
from peloton.model.known_host import KnownHost, LossReason
from storage.interface import Store
from tests.contract.storage.conftest import Opener

UP = KnownHost("host0", "10.0.0.1", (("rack", "r1"), ("disk", "ssd")), ("S0", "S7"))
LOST = KnownHost(
    "b/host1", "10.0.0.2", (), ("S1",), 1_700_000_000_000_000_000, LossReason.NOT_BACK, ("j-0-1",), 3
)


async def test_hosts_are_kept_for_other_handles(open_handle: Opener) -> None:
    first = await open_handle()
    assert await first.known_hosts.all("Peloton") == ()
    await first.known_hosts.write("Peloton", (UP, LOST))
    assert await (await open_handle()).known_hosts.all("Peloton") == (LOST, UP)


async def test_frameworks_are_apart(store: Store) -> None:
    await store.known_hosts.write("a", (UP,))
    await store.known_hosts.write("b", (replace(UP, ip="10.0.0.9"), LOST))
    await store.known_hosts.write("a", (), ("b/host1",))
    assert await store.known_hosts.all("a") == (UP,)
    assert await store.known_hosts.all("b") == (LOST, replace(UP, ip="10.0.0.9"))


async def test_hosts_are_replaced_and_forgotten(store: Store) -> None:
    many = tuple(KnownHost(f"host{number:04}", ip="1") for number in range(1234))
    await store.known_hosts.write("f", many)
    for _ in range(2):
        newer = tuple(replace(host, lost_since=5) for host in many[:600])
        await store.known_hosts.write("f", newer, [host.hostname for host in many[700:]])
        assert await store.known_hosts.all("f") == (*newer, *many[600:700])
    await store.known_hosts.write("f", (), [host.hostname for host in many])
    assert await store.known_hosts.all("f") == ()


async def test_a_leader_of_an_older_term_writes_nothing(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("hostmanager", 3)
    await old.known_hosts.write("f", (UP,))
    await new.begin_term("hostmanager", 4)
    with pytest.raises(Fenced):
        await old.known_hosts.write("f", (), ("host0",))
    assert await new.known_hosts.all("f") == (UP,)
