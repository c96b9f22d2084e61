from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from peloton.model.states import TaskState
from peloton.model.task import PodEvent, TaskRuntime
from storage.cassandra.session import Row, Session
from storage.cassandra.tasks import BUCKET, CassandraTasks, Rows, encoded_events, encoded_tasks
from storage.codec import POD_EVENT, TASK_RUNTIME
from storage.event_order import STEP

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


class Written:
    """A session that takes apart what is written: each row, with its statement's number of the mutation."""

    def __init__(self) -> None:
        self.mutations: list[list[tuple[str, tuple[Any, ...]]]] = []

    async def write_together(self, parts: Any) -> None:
        rows = [row for name, values in parts if name != "put_bucket" for row in apart(name, values)]
        self.mutations += [rows] if rows else []


def apart(name: str, values: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Return what a statement writes, as statements of one row each."""
    if name == "put_tasks":
        when, text, job_id, bucket, instances = values
        return [("put_task", (job_id, bucket, instance, text, when)) for instance in instances]
    if name == "put_events":
        when, text, job_id, bucket, instances, *key = values
        return [("put_event", (job_id, bucket, instance, *key, text, when)) for instance in instances]
    return [(name, tuple(values))]


def runtime_of(message: str) -> TaskRuntime:
    return TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 1, 1, 1, 1, message=message)


def event_of(instance: int, at: int, message: str) -> PodEvent:
    state, goal = TaskState.PENDING, TaskState.SUCCEEDED
    return PodEvent(
        job_id="job",
        instance=instance,
        run=1,
        timestamp=at,
        state=state,
        goal=goal,
        config_version=1,
        desired_config_version=1,
        previous_run=0,
        desired_run=1,
        message=message,
    )


async def written(tasks: dict[int, TaskRuntime], events: list[PodEvent]) -> Written:
    session = Written()
    rows = chain(encoded_tasks("job", tasks, 7), encoded_events("job", events, 7))
    await Rows(cast(Session, session)).write("job", rows, 7)
    return session


MESSAGES = st.sampled_from(["", "a", "b", "x" * 700_000])
INSTANCES = st.integers(0, 3) | st.integers(BUCKET - 2, BUCKET + 1)


@given(
    st.dictionaries(INSTANCES, MESSAGES),
    st.lists(st.tuples(INSTANCES, st.integers(1, 2), MESSAGES)),
)
async def test_each_row_is_written_once_however_rows_are_put_together(
    messages: dict[int, str], events: list[tuple[int, int, str]]
) -> None:
    tasks = {instance: runtime_of(message) for instance, message in messages.items()}
    told = [event_of(*one) for one in events]
    session = await written(tasks, told)
    rows_of: dict[tuple[Any, ...], str] = {}
    for at, each in tasks.items():
        rows_of["put_task", "job", at // BUCKET, at] = TASK_RUNTIME.encode(each)
    step = STEP[TaskState.PENDING]
    for one in told:
        key = ("put_event", "job", one.instance // BUCKET, one.instance, 1, one.timestamp, step)
        rows_of[key] = POD_EVENT.encode(one)
    rows = [(name, *values) for mutation in session.mutations for name, values in mutation]
    assert sorted(rows) == sorted((*key, text, 7) for key, text in rows_of.items())
    for mutation in session.mutations:
        assert len({values[:2] for _, values in mutation}) == 1, "one partition"
        assert len(mutation) == 1 or sum(len(values[-2]) for _, values in mutation) <= 1024 * 1024


async def test_neighbours_with_equal_contents_are_one_statement() -> None:
    tasks = {instance: runtime_of("" if instance < 1500 else str(instance)) for instance in range(1503)}
    events = [event_of(instance, 5 if instance < 900 else 6, "") for instance in range(1000)]
    names = [(bound[0], rows) for _, bound, rows, _ in encoded_tasks("job", tasks, 7)]
    assert names == [*[("put_tasks", 500)] * 3, *[("put_task", 1)] * 3]
    assert [(bound[0], rows) for _, bound, rows, _ in encoded_events("job", events, 7)] == [
        ("put_events", 500),
        ("put_events", 400),
        ("put_events", 100),
    ]


async def test_a_mutation_has_at_most_a_thousand_rows() -> None:
    tasks = {instance: runtime_of("") for instance in range(1000)}
    session = await written(tasks, [event_of(instance, 5, "") for instance in range(700)])
    assert [len(mutation) for mutation in session.mutations] == [1000, 700]
