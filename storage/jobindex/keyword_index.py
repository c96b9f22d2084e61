"""Texts for keyword search, those of many jobs in one block, so that a search reads few large blobs.

Blocks are rows of the index database (`index_db`). Which part of a block belongs to which job is kept in
memory, in some 250 bytes for each job.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set

from peloton.model.ids import JobId

CREATE = "CREATE TABLE word_blocks (number INTEGER PRIMARY KEY, text BLOB NOT NULL)"
INSERT = "INSERT INTO word_blocks (number, text) VALUES (?, ?)"
SELECT = "SELECT text FROM word_blocks WHERE number = ?"
DELETE = "DELETE FROM word_blocks WHERE number = ?"

_BLOCK_BYTES = 256 * 1024
"""Bytes after which a block is closed."""


class _Block:
    """Consecutive texts: `ends` are their ends, `jobs` their owners, None for texts that were dropped."""

    __slots__ = ("ends", "jobs", "live", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ends = array("q")
        self.jobs: list[JobId | None] = []
        self.live = 0
        """Bytes that belong to jobs."""

    @property
    def size(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, job_id: JobId, size: int) -> None:
        self.ends.append(self.size + size)
        self.jobs.append(job_id)
        self.live += size

    def drop(self, job_id: JobId) -> None:
        which = self.jobs.index(job_id)
        self.jobs[which] = None
        start, end = self.range(which)
        self.live -= end - start
        assert 0 <= self.live <= self.size, f"block {self.number} has lost count of what is in use"

    def range(self, which: int) -> tuple[int, int]:
        return (self.ends[which - 1] if which else 0), self.ends[which]


class KeywordIndex:
    """The texts of all jobs. Belongs to the thread of the database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._blocks: dict[int, _Block] = {}
        self._of: dict[JobId, _Block] = {}
        self._next = 0
        self._text = bytearray()
        """Of the open block, which is not in the database yet."""
        self._open = self._new_block()

    def put(self, job_id: JobId, words: str) -> None:
        """Insert or replace the text of a job."""
        self.drop(job_id)
        self._append(job_id, words.encode())

    def drop(self, job_id: JobId) -> None:
        """Drop the text of a job, if there is one."""
        block = self._of.pop(job_id, None)
        if block is not None:
            block.drop(job_id)
            if block is not self._open and block.live * 2 < block.size:
                self._move(block)

    def holding(self, keywords: Sequence[str]) -> set[JobId]:
        """Return the jobs whose texts contain all keywords, which are case folded and not empty."""
        if not keywords:
            return set(self._of)
        parts = [keyword.encode() for keyword in keywords]
        return {
            job_id for block in self._blocks.values() for job_id in _holding(block, self._read(block), parts)
        }

    def jobs(self) -> Set[JobId]:
        """Return the jobs that have a text."""
        return self._of.keys()

    def __len__(self) -> int:
        return len(self._of)

    def _append(self, job_id: JobId, text: bytes) -> None:
        self._text += text
        self._open.add(job_id, len(text))
        assert self._open.size == len(self._text), "the places of the open block are not those of its text"
        self._of[job_id] = self._open
        if len(self._text) >= _BLOCK_BYTES:
            self._db.execute(INSERT, (self._open.number, bytes(self._text)))
            self._text.clear()
            self._open = self._new_block()

    def _new_block(self) -> _Block:
        block = self._blocks[self._next] = _Block(self._next)
        self._next += 1
        return block

    def _move(self, block: _Block) -> None:
        """Move the texts that still have owners into the open block."""
        assert block is not self._open
        data = self._read(block)
        self._db.execute(DELETE, (block.number,))
        del self._blocks[block.number]
        for which, job_id in enumerate(block.jobs):
            if job_id is not None:
                start, end = block.range(which)
                self._append(job_id, data[start:end])

    def _read(self, block: _Block) -> bytes:
        if block is self._open:
            return bytes(self._text)
        (text,) = self._db.execute(SELECT, (block.number,)).fetchone()
        return bytes(text)


def _holding(block: _Block, data: bytes, keywords: Sequence[bytes]) -> Iterator[JobId]:
    rarest, *others = sorted(keywords, key=data.count) if len(keywords) > 1 else keywords
    at = data.find(rarest)
    while at >= 0:
        which = bisect_right(block.ends, at)
        start, end = block.range(which)
        job_id = block.jobs[which]
        # A match across the texts of two jobs does not count.
        if job_id is not None and at + len(rarest) <= end and _has(data, others, start, end):
            yield job_id
        at = data.find(rarest, end)


def _has(data: bytes, keywords: Sequence[bytes], start: int, end: int) -> bool:
    for keyword in keywords:  # noqa: SIM110 - twice as fast, in the innermost loop
        if data.find(keyword, start, end) < 0:
            return False
    return True
