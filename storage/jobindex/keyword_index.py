"""The texts that keywords are looked for in: those of many jobs in one block, so that a search runs over few
large pieces of memory and not over many small rows.

Blocks lie in the index's copy (`index_db`); what of a block belongs to which job is kept here,
in some 250 bytes a job.
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

_BLOCK = 256 * 1024
"""Bytes after which a block is closed."""


class _Block:
    """Texts one after the other; `ends` are where they end, `jobs` whose they are, None what nobody's is."""

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

    def range(self, which: int) -> tuple[int, int]:
        return (self.ends[which - 1] if which else 0), self.ends[which]


class Words:
    """Belongs to the thread of the database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._blocks: dict[int, _Block] = {}
        self._of: dict[JobId, _Block] = {}
        self._next = 0
        self._text = bytearray()
        """Of the open block, which is not in the database yet."""
        self._open = self._begun()

    def put(self, job_id: JobId, words: str) -> None:
        """Insert or replace."""
        self.drop(job_id)
        self._append(job_id, words.encode())

    def drop(self, job_id: JobId) -> None:
        """Dropping what is not there is no error."""
        block = self._of.pop(job_id, None)
        if block is not None:
            block.drop(job_id)
            if block is not self._open and block.live * 2 < block.size:
                self._move(block)

    def holding(self, keywords: Sequence[str]) -> set[JobId]:
        """The jobs whose texts have all the keywords as parts; they are case folded, and none is empty."""
        if not keywords:
            return set(self._of)
        wanted = [keyword.encode() for keyword in keywords]
        return {
            job_id for block in self._blocks.values() for job_id in _holding(block, self._read(block), wanted)
        }

    def jobs(self) -> Set[JobId]:
        """Those that were put and not dropped."""
        return self._of.keys()

    def __len__(self) -> int:
        return len(self._of)

    def _append(self, job_id: JobId, text: bytes) -> None:
        self._text += text
        self._open.add(job_id, len(text))
        self._of[job_id] = self._open
        if len(self._text) >= _BLOCK:
            self._db.execute(INSERT, (self._open.number, bytes(self._text)))
            self._text.clear()
            self._open = self._begun()

    def _begun(self) -> _Block:
        block = self._blocks[self._next] = _Block(self._next)
        self._next += 1
        return block

    def _move(self, block: _Block) -> None:
        """What still belongs to jobs goes into the open block."""
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
        # Where one job's text meets the next one's there may seem to be a keyword.
        if job_id is not None and at + len(rarest) <= end and _has(data, others, start, end):
            yield job_id
        at = data.find(rarest, end)


def _has(data: bytes, keywords: Sequence[bytes], start: int, end: int) -> bool:
    for keyword in keywords:  # noqa: SIM110 - twice as fast, and this is the innermost of all
        if data.find(keyword, start, end) < 0:
            return False
    return True
