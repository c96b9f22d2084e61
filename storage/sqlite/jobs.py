"""Jobs: configs by version, runtimes, the active set."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from peloton.errors import AlreadyExists, NotFound
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobKeys, JobLosses, JobPage, JobQuery, JobRuntime, JobSpec, JobSummary
from peloton.model.payload import NO_SECRETS, Payload, SecretBytes
from peloton.model.workflow import Workflow
from peloton.offload import run_by_size
from peloton.wire.payload import spec_from_payload
from storage.codec import JOB_RUNTIME, decode_payload, encode_payload
from storage.jobindex.entries import IndexedTexts, indexed_texts, label_lines
from storage.jobindex.query import find, lost_seconds
from storage.jobindex.tables import INSERT_CONFIG, REPLACE_INDEX, UPDATE_INDEX
from storage.secret_keys import PLAIN, SecretKeys
from storage.sqlite.reader import Readers
from storage.sqlite.secrets import writing_secrets
from storage.sqlite.workflows import DELETE_OF_JOB, writing
from storage.sqlite.writer import Write, Writer

INSERT_JOB = "INSERT OR IGNORE INTO jobs (job_id, revision, active, runtime) VALUES (?, ?, 1, ?)"
SELECT_CONFIG = "SELECT payload FROM job_configs WHERE job_id = ? AND version = ?"
SELECT_SUMMARY = "SELECT summary FROM job_configs WHERE job_id = ? AND version = ?"
SELECT_RUNTIME = "SELECT runtime FROM jobs WHERE job_id = ?"
UPDATE_RUNTIME = "UPDATE jobs SET revision = ?, runtime = ? WHERE job_id = ?"
SELECT_ACTIVE = "SELECT job_id FROM jobs WHERE active = 1 ORDER BY job_id"
SET_RETIRED = "UPDATE jobs SET active = 0 WHERE job_id = ?"
SELECT_INDEXED_VERSION = "SELECT config_version FROM job_index WHERE job_id = ?"
DELETE_JOB = (
    *(
        f"DELETE FROM {table} WHERE job_id = ?"
        for table in ("jobs", "job_configs", "job_index", "tasks", "pod_events", "secrets")
    ),
    *DELETE_OF_JOB,
)


def writing_runtime(job_id: JobId, runtime: JobRuntime) -> Write[None]:
    """Return the write of a runtime and of its index row, encoded now. It raises NotFound."""
    text = JOB_RUNTIME.encode(runtime)

    def write(db: sqlite3.Connection) -> None:
        if not db.execute(UPDATE_RUNTIME, (runtime.revision, text, job_id)).rowcount:
            raise _unknown(job_id)
        _follow(db, job_id, runtime)

    return write


class SqliteJobs:
    """Jobs in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers, keys: SecretKeys = PLAIN) -> None:
        self._writer = writer
        self._readers = readers
        self._keys = keys

    async def create(
        self,
        job_id: JobId,
        spec: JobSpec,
        runtime: JobRuntime,
        workflow: Workflow | None = None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> None:
        """Store config, runtime, index row, membership in the active set, first workflow and secrets."""
        texts = await _texts(spec)
        write_workflow = writing((workflow,) if workflow is not None else (), ())
        write_secrets = writing_secrets(job_id, secrets, self._keys)
        runtime_text = JOB_RUNTIME.encode(runtime)

        def write(db: sqlite3.Connection) -> None:
            if not db.execute(INSERT_JOB, (job_id, runtime.revision, runtime_text)).rowcount:
                raise AlreadyExists(f"job {job_id} exists already")
            _insert_config(db, job_id, spec, texts)
            _index(db, job_id, spec, runtime)
            write_workflow(db)
            write_secrets(db)

        await self._writer.submit(write, job_id=job_id, ahead=True)

    async def add_config(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> None:
        """Store a further version of the config, and secrets that are new in it.

        Raises AlreadyExists for a version that exists.
        """
        texts = await _texts(spec)
        write_secrets = writing_secrets(job_id, secrets, self._keys)

        def write(db: sqlite3.Connection) -> None:
            _insert_config(db, job_id, spec, texts)
            write_secrets(db)

        await self._writer.submit(write, job_id=job_id)

    async def config(self, job_id: JobId, version: int) -> JobSpec:
        """Return a version of the config. Raises NotFound."""
        return await self._readers.run(partial(_config, job_id, version))

    async def runtime(self, job_id: JobId) -> JobRuntime:
        """Return the runtime. Raises NotFound."""
        return await self._readers.run(partial(_runtime, job_id))

    async def delete(self, job_id: JobId) -> None:
        """Delete a job, if it exists: configs, runtime, tasks, events, workflows, secrets and index row."""

        def write(db: sqlite3.Connection) -> None:
            for statement in DELETE_JOB:
                db.execute(statement, (job_id,))

        await self._writer.submit(write, job_id=job_id)

    async def query(self, query: JobQuery) -> JobPage:
        """Return the jobs that the query matches."""
        return await self._readers.run(partial(find, query))

    async def find_keys(self, query: JobQuery) -> JobKeys | None:
        """Return None: `query` finds all jobs as fast."""
        return None

    async def summaries(self, job_ids: Collection[JobId]) -> Sequence[JobSummary]:
        """Return nothing: there are no keys."""
        return ()

    async def lost_seconds(self) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs have lost since checkpoints, by pool."""
        return await self._readers.run_long(lost_seconds)

    async def find_losses(self) -> JobLosses | None:
        """Return None: `lost_seconds` is as fast."""
        return None

    async def active(self) -> Sequence[JobId]:
        """Return the jobs that need work: those that were created and not yet retired."""
        rows = await self._readers.run(lambda db: db.execute(SELECT_ACTIVE).fetchall())
        return tuple(job_id for (job_id,) in rows)

    async def retire(self, job_id: JobId) -> None:
        """Remove a finished job from the active set."""
        await self._writer.submit(lambda db: db.execute(SET_RETIRED, (job_id,)).rowcount, job_id=job_id)


async def _texts(spec: JobSpec) -> IndexedTexts:
    """Extract the texts of a config."""
    return await run_by_size(len(spec.payload.data), indexed_texts, spec)


def _insert_config(db: sqlite3.Connection, job_id: JobId, spec: JobSpec, texts: IndexedTexts) -> None:
    row = (job_id, spec.version, texts.words, texts.summary, encode_payload(spec.payload))
    if not db.execute(INSERT_CONFIG, row).rowcount:
        raise AlreadyExists(f"job {job_id} has a config version {spec.version} already")


def _index(db: sqlite3.Connection, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
    times = (runtime.creation_time, runtime.completion_time)
    words = (spec.name, spec.owning_team, spec.pool_id, label_lines(spec.labels), spec.owner)
    db.execute(REPLACE_INDEX, (job_id, runtime.config_version, int(runtime.state), *times, *words))


def _follow(db: sqlite3.Connection, job_id: JobId, runtime: JobRuntime) -> None:
    (indexed,) = db.execute(SELECT_INDEXED_VERSION, (job_id,)).fetchone()
    if indexed == runtime.config_version:
        row = {
            "job_id": job_id,
            "state": int(runtime.state),
            "created": runtime.creation_time,
            "completed": runtime.completion_time,
        }
        db.execute(UPDATE_INDEX, row)
    else:
        summary = _payload(db, SELECT_SUMMARY, job_id, runtime.config_version)
        _index(db, job_id, spec_from_payload(summary, runtime.config_version), runtime)


def _config(job_id: JobId, version: int, db: sqlite3.Connection) -> JobSpec:
    return spec_from_payload(_payload(db, SELECT_CONFIG, job_id, version), version)


def _payload(db: sqlite3.Connection, statement: str, job_id: JobId, version: int) -> Payload:
    row = db.execute(statement, (job_id, version)).fetchone()
    if row is None:
        raise NotFound(f"job {job_id} has no config version {version}")
    return decode_payload(row[0])


def _runtime(job_id: JobId, db: sqlite3.Connection) -> JobRuntime:
    row = db.execute(SELECT_RUNTIME, (job_id,)).fetchone()
    if row is None:
        raise _unknown(job_id)
    return JOB_RUNTIME.decode(row[0])


def _unknown(job_id: JobId) -> NotFound:
    return NotFound(f"job {job_id} is not stored")
