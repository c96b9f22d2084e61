from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from storage.cassandra.session import Row, Session
from storage.cassandra.tasks import BUCKET, CassandraTasks, Rows
from storage.codec import TASK_RUNTIME

WAITING = TASK_RUNTIME.encode(TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 1, 1, 1, 1))


class Busy:
    """A session whose server takes its time."""

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self.at_once = self.most = 0

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        yield

    async def rows(self, name: str, *values: Any) -> list[Row]:
        if name == "read_buckets":
            return [(bucket,) for bucket in range(self.buckets)]
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_once -= 1
        return [(values[1] * BUCKET, WAITING)]


async def test_all_lists_together_read_few_partitions_at_once() -> None:
    """A new leader reads the tasks of several jobs; what calls need is not to wait behind them all."""
    session = Busy(buckets=30)
    held = cast(Session, session)
    tasks = CassandraTasks(held, Rows(held))

    async def listed(job_id: str) -> list[int]:
        return [instance async for page in tasks.list(job_id) for instance in page]

    found = await asyncio.gather(*(listed(f"job {number}") for number in range(4)))
    assert found == [[bucket * BUCKET for bucket in range(30)]] * 4
    assert session.most == 8
