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

Encoded = tuple[int, Bound, int]
"""A row's bucket, its statement, and its size."""


class Rows:
    """Write rows that belong to instances. Called within the gate of the job."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listed: FIFOCache[tuple[JobId, int], None] = FIFOCache(_REMEMBERED)

    def forget(self) -> None:
        """Forget which buckets are listed, since others may have deleted them."""
        self._listed.clear()

    async def write(self, job_id: JobId, rows: Iterable[Encoded], when: int) -> None:
        """Write rows, encoding and binding a large job's rows in steps that leave the event loop free."""
        by_bucket: defaultdict[int, list[tuple[Bound, int]]] = defaultdict(list)
        for number, (bucket, bound, size) in enumerate(rows, 1):
            by_bucket[bucket].append((bound, size))
            if number % _ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        sent = [asyncio.ensure_future(self._list(job_id, by_bucket, when))]
        for part in (part for bucket_rows in by_bucket.values() for part in _parts(bucket_rows)):
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
    """Encode rows of tasks."""
    assert not runtimes or (min(runtimes) >= 0 and max(runtimes) <= LARGEST), "an instance has no column"
    for instance, runtime in runtimes.items():
        text, bucket = TASK_RUNTIME.encode(runtime), instance // BUCKET
        yield bucket, ("put_task", (job_id, bucket, instance, text, when)), len(text)


def encoded_events(events: Iterable[PodEvent], when: int) -> Iterator[Encoded]:
    """Encode rows of events, one for each key: of two rows with one timestamp Cassandra would choose."""
    last: dict[tuple[str, int, int, int, int, int], PodEvent] = {}
    for one in events:
        last[one.job_id, one.instance // BUCKET, one.instance, one.run, one.timestamp, STEP[one.state]] = one
    encode = POD_EVENT.encoder()
    for key, event in last.items():
        text = encode(event)
        yield key[1], ("put_event", (*key, text, when)), len(text)


def _parts(rows: Sequence[tuple[Bound, int]]) -> Iterable[list[Bound]]:
    """Split rows where a mutation would become too large."""
    part: list[Bound] = []
    size = 0
    for bound, length in rows:
        if part and (size + length > _LARGEST_MUTATION_CHARACTERS or len(part) == _MOST_ROWS):
            yield part
            part, size = [], 0
        part.append(bound)
        size += length
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
