"""Locked components: kept over a restart, repeated writes, terms."""

from __future__ import annotations

import pytest

from peloton.errors import Fenced
from peloton.model.lockdown import Component
from storage.interface import Store
from tests.contract.storage.conftest import Opener


async def test_no_component_is_locked_at_first(store: Store) -> None:
    assert await store.lockdowns.all() == frozenset()


async def test_each_component_is_kept_for_other_handles(open_handle: Opener) -> None:
    first = await open_handle()
    for component in Component:
        await first.lockdowns.write(component)
    second = await open_handle()
    assert await second.lockdowns.all() == frozenset(Component)


async def test_repeated_writes_and_deletions_change_nothing(store: Store) -> None:
    for _ in range(2):
        await store.lockdowns.write(Component.KILL)
    await store.lockdowns.write(Component.READ)
    assert await store.lockdowns.all() == {Component.KILL, Component.READ}
    for _ in range(2):
        await store.lockdowns.delete(Component.KILL)
    assert await store.lockdowns.all() == {Component.READ}
    await store.lockdowns.write(Component.KILL)
    assert await store.lockdowns.all() == {Component.KILL, Component.READ}


async def test_a_leader_of_an_older_term_neither_locks_nor_unlocks(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmanager", 3)
    await old.lockdowns.write(Component.LAUNCH)
    await new.begin_term("jobmanager", 4)
    with pytest.raises(Fenced):
        await old.lockdowns.write(Component.KILL)
    with pytest.raises(Fenced):
        await old.lockdowns.delete(Component.LAUNCH)
    assert await new.lockdowns.all() == {Component.LAUNCH}
