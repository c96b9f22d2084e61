from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
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


class Held:
    """A session of a server that has one row."""

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        yield

    async def rows(self, name: str, *values: Any) -> list[Row]:
        return [(0,)] if name == "read_buckets" else [(7, self.runtime)]


async def test_a_row_without_the_field_is_throttled_where_its_message_says_so() -> None:
    failed = TaskRuntime(TaskState.FAILED, TaskState.RUNNING, 1, 1, 1, 1)
    message = "Task throttled due to failure"
    older = json.loads(TASK_RUNTIME.encode(replace(failed, message=message)))[:23]
    for runtime, throttled in (
        (json.dumps(older), True),
        (TASK_RUNTIME.encode(failed), False),
        (TASK_RUNTIME.encode(replace(failed, throttled=True)), True),
    ):
        held = cast(Session, Held(runtime))
        pages = [page async for page in CassandraTasks(held, Rows(held)).list("job")]
        assert [page[7].throttled for page in pages] == [throttled]
