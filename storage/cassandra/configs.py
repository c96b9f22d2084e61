"""Job configs as rows of the job's partition; the large ones' bodies in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.payload import Payload
from peloton.offload import run_by_size
from storage.cassandra.ranges import token_ranges
from storage.cassandra.session import Row, Session
from storage.codec import decode_payload, encode_payload
from storage.jobindex.entries import IndexedConfig, indexed_texts, summary_of

_LARGEST_INLINE_BYTES = 128 * 1024
"""Most bytes of payload, words and summary together that are stored in the row itself."""
_LARGEST_SUMMARY_BYTES = 32 * 1024
"""Most bytes of a summary in a row without payload and words. A larger summary is built from the payload when
it is needed, because rows are read by the hundred."""
_CHUNK_BYTES = 512 * 1024
_CHUNKS_AT_ONCE = 8
_RANGES = 16
_ROWS_AT_ONCE = 200
"""Rows in a page of all jobs' configs. A server reads whole rows, whichever columns are requested."""


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A config as it is stored.

    `values` are those of the statements put_config and add_config. The chunks are stored before.
    """

    indexed: IndexedConfig
    values: tuple[object, ...]
    body_id: UUID | None
    chunks: Sequence[bytes]


async def config_row(job_id: JobId, spec: JobSpec) -> ConfigRow:
    """Encode a config."""
    return await run_by_size(len(spec.payload.data), _config_row, job_id, spec)


def _config_row(job_id: JobId, spec: JobSpec) -> ConfigRow:
    texts = indexed_texts(spec)
    indexed = IndexedConfig(spec.version, texts.summary, texts.words)
    payload, words = encode_payload(spec.payload), texts.words.encode()
    key = (job_id, spec.version)
    if len(payload) + len(words) + len(texts.summary) <= _LARGEST_INLINE_BYTES:
        return ConfigRow(indexed, (*key, texts.summary, texts.words, payload, None, 0, 0), None, ())
    payload_chunks, word_chunks = list(_cut(payload)), list(_cut(words))
    body_id = uuid4()
    summary = texts.summary if len(texts.summary) <= _LARGEST_SUMMARY_BYTES else b""
    assert payload_chunks, "a config has a payload"
    values = (*key, summary, "", b"", body_id, len(payload_chunks), len(word_chunks))
    return ConfigRow(indexed, values, body_id, payload_chunks + word_chunks)


def _cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _CHUNK_BYTES):
        yield data[start : start + _CHUNK_BYTES]


class Configs:
    """Read configs and maintain their bodies. Called within calls of the port."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put_body(self, row: ConfigRow, when: int) -> None:
        """Store the body of a large config."""
        if row.body_id is not None:
            await self._session.write("list_body", row.body_id, len(row.chunks), when)
        for start in range(0, len(row.chunks), _CHUNKS_AT_ONCE):
            some = enumerate(row.chunks[start : start + _CHUNKS_AT_ONCE], start)
            await asyncio.gather(
                *(self._session.write("put_chunk", row.body_id, number, data, when) for number, data in some)
            )

    async def drop_body(self, body_id: UUID | None, chunks: int, when: int) -> None:
        """Drop the body of a large config."""
        assert body_id is not None or not chunks, "chunks without a body"
        if body_id is not None:
            await asyncio.gather(
                *(self._session.write("delete_chunk", when, body_id, number) for number in range(chunks))
            )
            await self._session.write("unlist_body", when, body_id)

    async def payload(self, job_id: JobId, version: int) -> Payload:
        """Return the payload of a version. Raises NotFound."""
        row = await self._session.row("read_config", job_id, version)
        if row is None:
            raise _no_config(job_id, version)
        payload, body_id, chunks = row
        return decode_payload(bytes(payload) if body_id is None else await self._body(body_id, 0, chunks))

    async def require(self, job_id: JobId, version: int) -> None:
        """Raise NotFound where a version is not stored."""
        if await self._session.row("read_version", job_id, version) is None:
            raise _no_config(job_id, version)

    async def indexed(self, job_id: JobId, version: int) -> IndexedConfig:
        """Return the index entry of a version. Raises NotFound."""
        row = await self._session.row("read_indexed_config", job_id, version)
        if row is None:
            raise _no_config(job_id, version)
        return await self.indexed_from(version, row)

    async def indexed_from(self, version: int, row: Row) -> IndexedConfig:
        """Decode an index entry from summary, words, body_id, payload_chunks, word_chunks."""
        summary, words, body_id, first, count = row
        if body_id is not None:
            words = (await self._body(body_id, first, count)).decode()
            if not summary:
                summary = await asyncio.to_thread(summary_of, await self._body(body_id, 0, first))
        return IndexedConfig(version, bytes(summary), words)

    async def bodies(self, job_id: JobId) -> list[tuple[UUID, int]]:
        """Return the bodies of all versions, with their numbers of chunks."""
        rows = await self._session.rows("read_bodies", job_id)
        return [(body_id, first + count) for _, body_id, first, count in rows if body_id is not None]

    async def sweep(self, before: int) -> int:
        """Drop bodies written before `before` that no config names; return their number.

        `before` is in microseconds since 1970. Such bodies are left by creations and deletions that were cut
        off. Old bodies are listed first and those in use after them, so that a config which comes in between
        loses nothing.
        """
        listed = self._scan("scan_listed_bodies")
        old = {body_id: chunks async for body_id, chunks, when in listed if when < before}
        if not old:
            return 0
        async for (body_id,) in self._scan("scan_named_bodies"):
            old.pop(body_id, None)
        for body_id, chunks in old.items():
            await self.drop_body(body_id, chunks, self._session.timestamp())
        return len(old)

    async def _scan(self, name: str) -> AsyncIterator[Row]:
        for low, high in token_ranges(_RANGES):
            async for page in self._session.pages(name, low, high, size=_ROWS_AT_ONCE):
                for row in page:
                    yield row

    async def _body(self, body_id: UUID, first: int, count: int) -> bytes:
        data: list[bytes] = []
        for start in range(first, first + count, _CHUNKS_AT_ONCE):
            numbers = range(start, min(start + _CHUNKS_AT_ONCE, first + count))
            rows = await asyncio.gather(
                *(self._session.row("read_chunk", body_id, number) for number in numbers)
            )
            for number, row in zip(numbers, rows, strict=True):
                if row is None:
                    raise NotFound(f"chunk {number} of config body {body_id} is not stored")
                data.append(row[0])
        return b"".join(data)


def _no_config(job_id: JobId, version: int) -> NotFound:
    return NotFound(f"job {job_id} has no config version {version}")
