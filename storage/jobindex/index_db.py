"""The index database: a temporary SQLite file with the tables that job queries run over.

Its file grows with the jobs, its memory hardly does. Texts for keywords are kept in blocks
(`storage.jobindex.keyword_index`).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from peloton.errors import Unavailable
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobKey, JobPage, JobQuery, JobSummary
from peloton.model.shard import shard_of
from peloton.wire.payload import indexed_fields
from storage.codec import JOB_RUNTIME, decode_payload
from storage.jobindex import keyword_index
from storage.jobindex.entries import IndexedConfig, label_lines
from storage.jobindex.keyword_index import KeywordIndex
from storage.jobindex.query import EACH, Term, find, find_keys, lost_seconds, summaries
from storage.jobindex.tables import CREATE, INSERT_CONFIG, REPLACE_INDEX, TABLES, UPDATE_INDEX

T = TypeVar("T")

REPLACE_JOB = "INSERT OR REPLACE INTO jobs (job_id, revision, active, runtime) VALUES (?, 0, 1, ?)"
DELETE_CONFIGS = "DELETE FROM job_configs WHERE job_id = ?"
DELETE_JOB = tuple(f"DELETE FROM {table} WHERE job_id = ?" for table in TABLES)
ALL_JOBS = "SELECT job_id FROM jobs"
OF_SHARDS = "shard_of(i.job_id) IN (SELECT value FROM json_each(?))"
AMONG = "i.job_id IN (SELECT value FROM json_each(?))"
NOT_AMONG = "i.job_id NOT IN (SELECT value FROM json_each(?))"

_moment = JOB_RUNTIME.picker("state", "creation_time", "completion_time")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a job. Without a runtime the job is deleted; without a config it keeps the indexed one."""

    runtime: str | None
    config: IndexedConfig | None = None


class IndexDatabase:
    """The index database, in a thread of its own.

    Methods raise Unavailable where the file cannot be written; the database is of no use afterwards.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "storage-index")
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False, cached_statements=256)
        self._tables = _Tables(self._db)

    async def prepare(self) -> None:
        """Create the tables."""
        await self._run(self._tables.prepare)

    async def apply(self, changes: Sequence[tuple[JobId, Change]]) -> None:
        """Apply changes in their order, completely even where the caller is cancelled."""
        await asyncio.shield(self._run(lambda: self._tables.apply(changes)))

    async def insert(self, changes: Sequence[tuple[JobId, Change]]) -> None:
        """Insert jobs that are not stored yet."""
        await self._run(lambda: self._tables.insert(changes))

    async def find(self, query: JobQuery) -> JobPage:
        """Answer a query."""
        return await self._run(lambda: self._tables.find(query))

    async def find_keys(
        self, query: JobQuery, shards: Collection[int] | None
    ) -> tuple[tuple[JobKey, ...], int]:
        """Return the keys of the jobs up to the end of a query's page, and the number of all matches.

        With `shards`, only jobs of these count.
        """
        return await self._run(lambda: self._tables.find_keys(query, shards))

    async def summaries(self, job_ids: Collection[JobId]) -> tuple[JobSummary, ...]:
        """Return those of some jobs that are there."""
        return await self._run(lambda: summaries(self._db, job_ids))

    async def drop_shards(self, shards: Collection[int]) -> None:
        """Delete the jobs of some shards."""
        await self._run(lambda: self._tables.drop_shards(shards))

    async def lost_seconds(self, shards: Collection[int] | None = None) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs have lost since checkpoints, by pool.

        With `shards`, only jobs of these count.
        """
        return await self._run(lambda: lost_seconds(self._db, _of_shards(shards)))

    async def close(self) -> None:
        """Close and remove the database."""
        await self._run(self._db.close)
        self._thread.shutdown()

    async def _run(self, function: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except sqlite3.Error as error:
            raise Unavailable(f"the job index: {error}") from error


def _of_shards(shards: Collection[int] | None) -> Term:
    return EACH if shards is None else (OF_SHARDS, (json.dumps(sorted(shards)),))


class _Tables:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._words = KeywordIndex(db)

    def prepare(self) -> None:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -65536"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.create_function("shard_of", 1, shard_of, deterministic=True)
        for script in (CREATE, keyword_index.CREATE):
            self._db.executescript(script)

    def apply(self, changes: Sequence[tuple[JobId, Change]]) -> None:
        self._db.execute("BEGIN")
        for job_id, change in changes:
            if change.runtime is None:
                self._delete(job_id)
            elif change.config is None:
                self._follow(job_id, change.runtime)
            else:
                self._replace(job_id, change.runtime, change.config)
        self._db.execute("COMMIT")

    def insert(self, changes: Sequence[tuple[JobId, Change]]) -> None:
        rows = [
            (job_id, change.runtime, config, _columns(change.runtime, config))
            for job_id, change in changes
            if change.runtime is not None and (config := change.config) is not None
        ]
        db = self._db
        db.execute("BEGIN")
        db.executemany(REPLACE_JOB, [(job_id, text) for job_id, text, _, _ in rows])
        db.executemany(INSERT_CONFIG, [_config(job_id, config) for job_id, _, config, _ in rows])
        db.executemany(REPLACE_INDEX, [(job_id, *columns) for job_id, _, _, columns in rows])
        for job_id, _, config, _ in rows:
            self._words.put(job_id, config.words)
        db.execute("COMMIT")

    def find(self, query: JobQuery) -> JobPage:
        return find(query, self._db, self._by_keywords)

    def find_keys(self, query: JobQuery, shards: Collection[int] | None) -> tuple[tuple[JobKey, ...], int]:
        return find_keys(query, self._db, self._by_keywords, _of_shards(shards))

    def drop_shards(self, shards: Collection[int]) -> None:
        self._db.execute("BEGIN")
        for (job_id,) in self._db.execute(ALL_JOBS).fetchall():
            if shard_of(job_id) in shards:
                self._delete(job_id)
        self._db.execute("COMMIT")

    def _by_keywords(self, keywords: Sequence[str]) -> Term:
        found = self._words.holding([keyword for keyword in keywords if keyword])
        if len(found) * 2 <= len(self._words):
            return AMONG, (json.dumps(list(found)),)
        return NOT_AMONG, (json.dumps(list(self._words.jobs() - found)),)

    def _delete(self, job_id: JobId) -> None:
        for statement in DELETE_JOB:
            self._db.execute(statement, (job_id,))
        self._words.drop(job_id)

    def _follow(self, job_id: JobId, text: str) -> None:
        state, created, completed = _moment(text)
        row = {"job_id": job_id, "state": state, "created": created, "completed": completed}
        self._db.execute(REPLACE_JOB, (job_id, text))
        self._db.execute(UPDATE_INDEX, row)

    def _replace(self, job_id: JobId, text: str, config: IndexedConfig) -> None:
        self._db.execute(REPLACE_JOB, (job_id, text))
        self._db.execute(DELETE_CONFIGS, (job_id,))
        self._db.execute(INSERT_CONFIG, _config(job_id, config))
        self._db.execute(REPLACE_INDEX, (job_id, *_columns(text, config)))
        self._words.put(job_id, config.words)


def _config(job_id: JobId, config: IndexedConfig) -> tuple[object, ...]:
    """Return the row of a config without words and payload."""
    return job_id, config.version, "", config.summary, b""


def _columns(text: str, config: IndexedConfig) -> tuple[object, ...]:
    """Return the index row without the id of the job."""
    fields = indexed_fields(decode_payload(config.summary))
    words = (fields.name, fields.owning_team, fields.pool_id, label_lines(fields.labels), fields.owner)
    return config.version, *_moment(text), *words
