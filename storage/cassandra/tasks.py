"""Task runtimes and pod events: partitions of 1,000 instances, found through the job's list of buckets.

The list is written along with a bucket's first rows. A handle remembers which it has written.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

from cachetools import FIFOCache

from peloton.errors import NotFound
from peloton.model.ids import JobId, task_id
from peloton.model.task import PodEvent, TaskRuntime
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.session import Row, Session
from storage.codec import POD_EVENT, TASK_RUNTIME
from storage.event_order import STEP

BUCKET = 1000
"""Instances of one job in one partition. Must never change: it is part of the stored keys."""
_BUCKETS_PER_PAGE = 10
_BUCKETS_AT_ONCE = 8
"""Partitions that all lists together read at once: a new leader reads all partitions, and calls must not wait
for that."""
_LARGEST_MUTATION_CHARACTERS = 1024 * 1024
"""Most characters of runtimes and events in one mutation; a server refuses mutations above 16 MiB."""
_MOST_ROWS = 1000
_ROWS_AT_ONCE = 500
_REMEMBERED = 100_000
LARGEST = 2**31 - 1
"""Largest number of an instance or a run. Requests may contain larger ones, which do not exist."""


Encoded = tuple[int, Bound, int, int]
"""A statement that writes rows of a bucket: bucket, statement, number of rows and of characters in them."""


class Rows:
    """Write rows that belong to instances. Called within the gate of the job."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listed: FIFOCache[tuple[JobId, int], None] = FIFOCache(_REMEMBERED)

    def forget(self) -> None:
        """Forget which buckets are listed, since others may have deleted them."""
        self._listed.clear()

    async def write(self, job_id: JobId, statements: Iterable[Encoded], when: int) -> None:
        """Write rows, encoding and binding a large job's rows in steps that leave the event loop free."""
        by_bucket: defaultdict[int, list[Encoded]] = defaultdict(list)
        unseen = 0
        for one in statements:
            by_bucket[one[0]].append(one)
            unseen += one[2]
            if unseen >= _ROWS_AT_ONCE:
                unseen = 0
                await asyncio.sleep(0)
        sent = [asyncio.ensure_future(self._list(job_id, by_bucket, when))]
        for part in (part for of_bucket in by_bucket.values() for part in _parts(of_bucket)):
            sent.append(asyncio.ensure_future(self._session.write_together(part)))
            await asyncio.sleep(0)
        await asyncio.gather(*sent)

    async def buckets(self, job_id: JobId) -> list[int]:
        """Return the buckets of a job, ascending."""
        return [bucket for (bucket,) in await self._session.rows("read_buckets", job_id)]

    async def delete(self, job_id: JobId, when: int) -> None:
        """Delete all rows of the job, the list of buckets last, so that this may be repeated."""
        buckets = await self.buckets(job_id)
        for bucket in buckets:
            self._listed.pop((job_id, bucket), None)
        await asyncio.gather(
            *(
                self._session.write(statement, when, job_id, bucket)
                for statement in ("delete_tasks", "delete_events")
                for bucket in buckets
            )
        )
        if buckets:
            await self._session.write("delete_buckets", when, job_id)

    async def _list(self, job_id: JobId, buckets: Iterable[int], when: int) -> None:
        new = [bucket for bucket in buckets if (job_id, bucket) not in self._listed]
        if not new:
            return
        await self._session.write_together([("put_bucket", (job_id, bucket, when)) for bucket in new])
        self._listed.update(dict.fromkeys((job_id, bucket) for bucket in new))


def encoded_tasks(job_id: JobId, runtimes: Mapping[int, TaskRuntime], when: int) -> Iterator[Encoded]:
    """Encode rows of tasks. Neighbours with equal runtimes, as waiting tasks have, are one statement."""
    assert not runtimes or (min(runtimes) >= 0 and max(runtimes) <= LARGEST), "an instance has no column"
    encode = TASK_RUNTIME.encoder()
    run: list[int] = []
    last, bucket, most = "", 0, 0
    for instance, runtime in runtimes.items():
        text = encode(runtime)
        if text == last and instance // BUCKET == bucket and len(run) < most:
            run.append(instance)
            continue
        if run:
            yield _tasks(job_id, bucket, run, last, when)
        run, last, bucket, most = [instance], text, instance // BUCKET, _most(text)
    if run:
        yield _tasks(job_id, bucket, run, last, when)


def _tasks(job_id: JobId, bucket: int, run: list[int], text: str, when: int) -> Encoded:
    if len(run) == 1:
        return bucket, ("put_task", (job_id, bucket, run[0], text, when)), 1, len(text)
    return bucket, ("put_tasks", (when, text, job_id, bucket, run)), len(run), len(run) * len(text)


def encoded_events(job_id: JobId, events: Iterable[PodEvent], when: int) -> Iterator[Encoded]:
    """Encode rows of events, one for each key: of two rows with one timestamp Cassandra would choose.

    Neighbours with equal events are one statement.
    """
    unique: dict[tuple[int, int, int, int], PodEvent] = {}
    for one in events:
        unique[one.instance, one.run, one.timestamp, STEP[one.state]] = one
    encode = POD_EVENT.encoder()
    run: list[int] = []
    key: Sequence[int] = ()
    last, bucket, most = "", 0, 0
    for (instance, *rest), event in unique.items():
        text = encode(event)
        if rest == key and text == last and instance // BUCKET == bucket and len(run) < most:
            run.append(instance)
            continue
        if run:
            yield _events(job_id, bucket, run, key, last, when)
        run, key, last, bucket, most = [instance], rest, text, instance // BUCKET, _most(text)
    if run:
        yield _events(job_id, bucket, run, key, last, when)


def _events(job_id: JobId, bucket: int, run: list[int], key: Sequence[int], text: str, when: int) -> Encoded:
    if len(run) == 1:
        return bucket, ("put_event", (job_id, bucket, run[0], *key, text, when)), 1, len(text)
    return bucket, ("put_events", (when, text, job_id, bucket, run, *key)), len(run), len(run) * len(text)


def _most(text: str) -> int:
    """Return how many rows with a text one statement may write: as many as fit a mutation, and one step."""
    return min(_LARGEST_MUTATION_CHARACTERS // len(text), _ROWS_AT_ONCE)


def _parts(statements: Sequence[Encoded]) -> Iterable[list[Bound]]:
    """Split statements where a mutation would become too large."""
    part: list[Bound] = []
    rows = characters = 0
    for _, bound, more_rows, more in statements:
        if part and (characters + more > _LARGEST_MUTATION_CHARACTERS or rows + more_rows > _MOST_ROWS):
            yield part
            part, rows, characters = [], 0, 0
        part.append(bound)
        rows += more_rows
        characters += more
    if part:
        yield part


class CassandraTasks:
    """Task runtimes in the Cassandra store."""

    def __init__(self, session: Session, rows: Rows) -> None:
        self._session = session
        self._rows = rows
        self._long = asyncio.Semaphore(_BUCKETS_AT_ONCE)

    async def get(self, job_id: JobId, instance: int) -> TaskRuntime:
        """Return the runtime of an instance. Raises NotFound."""
        row: Row | None = None
        if instance <= LARGEST:
            async with self._session.use():
                row = await self._session.row("read_task", job_id, instance // BUCKET, instance)
        if row is None:
            raise NotFound(f"task {task_id(job_id, instance)} is not stored")
        return TASK_RUNTIME.decode(row[0])

    async def list(
        self, job_id: JobId, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Mapping[int, TaskRuntime]]:
        """Yield instances first … end-1 in order, in pages of at most 10,000."""
        end = LARGEST if end is None else min(end, LARGEST)
        if first >= end:
            return
        async with self._session.use():
            buckets = await self._rows.buckets(job_id)
        wanted = [bucket for bucket in buckets if first // BUCKET <= bucket <= (end - 1) // BUCKET]
        for start in range(0, len(wanted), _BUCKETS_PER_PAGE):
            page = await self._page(job_id, wanted[start : start + _BUCKETS_PER_PAGE], first, end)
            if page:
                yield page

    async def _page(
        self, job_id: JobId, buckets: Sequence[int], first: int, end: int
    ) -> dict[int, TaskRuntime]:
        async with self._session.use():
            found = await asyncio.gather(*(self._bucket(job_id, bucket, first, end) for bucket in buckets))
        return await asyncio.to_thread(_decoded, [row for rows in found for row in rows])

    async def _bucket(self, job_id: JobId, bucket: int, first: int, end: int) -> Sequence[Row]:
        async with self._long:
            return await self._session.rows("read_tasks", job_id, bucket, first, end)


def _decoded(rows: Sequence[Row]) -> dict[int, TaskRuntime]:
    """Decode rows, each text once: many tasks have equal runtimes, as waiting ones do."""
    texts = dict.fromkeys(text for _, text in rows)
    values = json.loads(f"[{','.join(texts)}]")
    runtimes = dict(zip(texts, map(TASK_RUNTIME.from_values, values), strict=True))
    return {instance: runtimes[text] for instance, text in rows}
