"""The store over one SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing

from peloton.errors import PelotonError
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.task import PodEvent, TaskRuntime
from peloton.model.volume import Volume
from peloton.model.workflow import Workflow, WorkflowEvent
from storage.config import SqliteSettings
from storage.interface import (
    Fence,
    History,
    HostPools,
    Hosts,
    Jobs,
    KnownHosts,
    Lockdowns,
    PodEvents,
    Pools,
    Secrets,
    Tasks,
    Usage,
    Volumes,
    Workflows,
    unfenced,
)
from storage.secret_keys import PLAIN, SecretKeys, read_keys
from storage.sqlite import tasks as task_rows
from storage.sqlite.cluster import SqliteHosts, SqliteLockdowns, SqlitePools
from storage.sqlite.connection import prepare_directory, reader_connection, writer_connection
from storage.sqlite.events import SqlitePodEvents, appending
from storage.sqlite.history import SqliteHistory
from storage.sqlite.host_pools import SqliteHostPools
from storage.sqlite.jobs import SqliteJobs, writing_runtime
from storage.sqlite.known_hosts import SqliteKnownHosts
from storage.sqlite.migrate import migrate, migrations
from storage.sqlite.reader import Readers
from storage.sqlite.secrets import SqliteSecrets
from storage.sqlite.tasks import SqliteTasks
from storage.sqlite.usage import SqliteUsage
from storage.sqlite.volumes import SqliteVolumes, writing_volumes
from storage.sqlite.workflows import SqliteWorkflows, writing
from storage.sqlite.writer import Write, Writer


class SqliteStore:
    """The port `storage.interface.Store`. Belongs to the event loop that opened it."""

    def __init__(self, writer: Writer, readers: Readers, keys: SecretKeys = PLAIN) -> None:
        self._writer = writer
        self._readers = readers
        self.jobs: Jobs = SqliteJobs(writer, readers, keys)
        self.tasks: Tasks = SqliteTasks(writer, readers)
        self.pod_events: PodEvents = SqlitePodEvents(writer, readers)
        self.workflows: Workflows = SqliteWorkflows(writer, readers)
        self.secrets: Secrets = SqliteSecrets(writer, readers, keys)
        self.pools: Pools = SqlitePools(writer, readers)
        self.hosts: Hosts = SqliteHosts(writer, readers)
        self.known_hosts: KnownHosts = SqliteKnownHosts(writer, readers)
        self.host_pools: HostPools = SqliteHostPools(writer, readers)
        self.lockdowns: Lockdowns = SqliteLockdowns(writer, readers)
        self.volumes: Volumes = SqliteVolumes(writer, readers)
        self.usage: Usage = SqliteUsage(writer, readers)
        self.history: History = SqliteHistory(writer, readers)

    @property
    def trouble(self) -> str:
        """Why nothing can be written at present; empty where writes succeed."""
        return self._writer.trouble

    async def begin_term(self, role: str, term: int, fence: Fence = unfenced) -> None:
        """Write as `role` in `term` from now on, and call `fence` before each write, as late as possible."""
        await self._writer.begin_term(role, term, fence)

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        """Write jobs of these shards in these terms from now on."""
        await self._writer.begin_shards(role, terms)

    def end_shards(self, shards: Collection[int]) -> None:
        """Write no more jobs of these shards. What has begun is finished."""
        self._writer.end_shards(shards)

    async def check_term(self, job_id: JobId) -> None:
        """Raise Fenced where the term is over in which this handle writes the job, as a write would."""
        await self._writer.submit(_write_nothing, 0, job_id)

    async def write_all(
        self,
        job_id: JobId,
        tasks: Mapping[int, TaskRuntime],
        events: Sequence[PodEvent] = (),
        runtime: JobRuntime | None = None,
        workflows: Sequence[Workflow] = (),
        workflow_events: Sequence[WorkflowEvent] = (),
        volumes: Sequence[Volume] = (),
    ) -> None:
        """Write task runtimes, their events, the runtime, workflows and volumes of one job together."""
        parts: list[Write[None]] = []
        if runtime is not None:
            parts.append(writing_runtime(job_id, runtime))
        parts += task_rows.writing(job_id, tasks), appending(events)
        if workflows or workflow_events:
            parts.append(writing(workflows, workflow_events))
        if volumes:
            parts.append(writing_volumes(volumes))

        def write(db: sqlite3.Connection) -> None:
            for part in parts:
                part(db)

        await self._writer.submit(write, len(tasks) + len(events) + len(workflow_events) + 1, job_id)

    async def close(self) -> None:
        """Finish the writes that were accepted, then close the database."""
        await self._writer.close()
        await self._readers.close()


async def open_sqlite(settings: SqliteSettings) -> SqliteStore:
    """Open the store. Raises as `storage.selection.factory.open_store` does."""
    keys = read_keys(settings.secret_keys_file)
    writing, reading = await asyncio.to_thread(_connections, settings)
    return SqliteStore(Writer(writing, settings.max_queued_writes), Readers(reading), keys)


def _connections(settings: SqliteSettings) -> tuple[sqlite3.Connection, list[sqlite3.Connection]]:
    """Open the connections of the writer and the readers to a database with the current schema."""
    prepare_directory(settings.path)
    path, timeout, half = settings.path, settings.busy_timeout, settings.cache_mb * 512
    with ExitStack() as opened:
        try:
            db = opened.enter_context(closing(writer_connection(path, timeout, half)))
            migrate(db, migrations(), timeout)
            readers = [
                reader_connection(path, timeout, half // settings.readers) for _ in range(settings.readers)
            ]
        except PelotonError as error:
            raise type(error)(f"{path}: {error}") from error
        opened.pop_all()
    return db, readers


def _write_nothing(db: sqlite3.Connection) -> None:
    """Change nothing: the transaction checks the term."""
