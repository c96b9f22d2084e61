"""The drivers that carry out the core's instructions."""

from __future__ import annotations

from typing import Any

import pytest

from jobmgr.engine.engine import Engine
from jobmgr.engine.outbox import Queue
from storage.interface import Store
from tests.unit.jobmgr_core.world import Running, World
from tests.waiting import until


async def test_each_queue_of_instructions_has_a_driver(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[int] = set()
    take = Queue.take

    async def noted(queue: Queue[Any], limit: int) -> list[Any]:
        taken.add(id(queue))
        return await take(queue, limit)

    monkeypatch.setattr(Queue, "take", noted)
    async with Running(Engine(store), World()) as running:
        queues = {n: q for n, q in vars(running.engine.outbox).items() if isinstance(q, Queue)}
        assert len(queues) > 10
        await until(
            lambda: all(id(queue) in taken for queue in queues.values()), "drivers wait for instructions"
        )
