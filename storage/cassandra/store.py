"""The store over a Cassandra cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from peloton.membership.interface import Role
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.task import PodEvent, TaskRuntime
from peloton.model.volume import Volume
from peloton.model.workflow import Workflow, WorkflowEvent
from storage.cassandra.cleanup import Cleanup
from storage.cassandra.cluster import CassandraHosts, CassandraLockdowns, CassandraPools
from storage.cassandra.configs import Configs
from storage.cassandra.connection import Connection, connect
from storage.cassandra.events import CassandraPodEvents
from storage.cassandra.history import CassandraHistory
from storage.cassandra.host_pools import CassandraHostPools
from storage.cassandra.index import JobIndex
from storage.cassandra.index_rows import IndexRows
from storage.cassandra.jobs import CassandraJobs
from storage.cassandra.known_hosts import CassandraKnownHosts
from storage.cassandra.migrate import check, up
from storage.cassandra.owned_index import OwnedIndex
from storage.cassandra.secrets import CassandraSecrets, SecretRows
from storage.cassandra.session import Session
from storage.cassandra.tasks import CassandraTasks, Rows, encoded_events, encoded_tasks
from storage.cassandra.terms import Gate, Terms
from storage.cassandra.usage import CassandraUsage
from storage.cassandra.volumes import CassandraVolumes, write_volumes
from storage.cassandra.workflows import CassandraWorkflows, WorkflowRows
from storage.codec import JOB_RUNTIME
from storage.config import CassandraSettings
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
from storage.secret_keys import read_keys


class CassandraStore:
    """The port `storage.interface.Store`; its guarantees are described in `storage.cassandra`.

    Belongs to the event loop that created it.
    """

    def __init__(self, connection: Connection, settings: CassandraSettings, *, shared: bool = False) -> None:
        """`shared`: the connection stays open when the store is closed."""
        self._connection = connection
        self._shared = shared
        self._session = session = Session(connection, settings)
        keys = read_keys(settings.secret_keys_file)
        self._terms = terms = Terms(session)
        self._gate = gate = Gate(session, terms)
        self._rows = rows = Rows(session)
        configs = Configs(session)
        self._workflow_rows = workflow_rows = WorkflowRows(session)
        index_rows = IndexRows(session, configs)
        self._index = JobIndex(index_rows, terms)
        self._owned_index = OwnedIndex(index_rows, terms.current_shards)
        secrets = SecretRows(session, keys)
        self._jobs = CassandraJobs(
            session, gate, terms, rows, workflow_rows, configs, self._index, self._owned_index, secrets
        )
        self._cleanup = Cleanup(session, self._jobs, configs)
        self.jobs: Jobs = self._jobs
        self.tasks: Tasks = CassandraTasks(session, rows)
        self.pod_events: PodEvents = CassandraPodEvents(session, gate)
        self.workflows: Workflows = CassandraWorkflows(session, gate, rows, workflow_rows)
        self.secrets: Secrets = CassandraSecrets(session, gate, secrets, keys)
        self.pools: Pools = CassandraPools(session, gate)
        self.hosts: Hosts = CassandraHosts(session, gate)
        self.known_hosts: KnownHosts = CassandraKnownHosts(session, gate)
        self.host_pools: HostPools = CassandraHostPools(session, gate)
        self.lockdowns: Lockdowns = CassandraLockdowns(session, gate)
        self.volumes: Volumes = CassandraVolumes(session, gate)
        self.usage: Usage = CassandraUsage(session, gate)
        self.history: History = CassandraHistory(session, gate)

    async def begin_term(self, role: str, term: int, fence: Fence = unfenced) -> None:
        """Write as `role` in `term` from now on, and call `fence` before each write, as late as possible."""
        async with self._session.use():
            await self._terms.begin(role, term, fence)
            self._rows.forget()
            await self._index.reset()
            if role == Role.JOBMGR.value:
                self._index.preload(self._cleanup.run)

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        """Write jobs of these shards in these terms from now on."""
        async with self._session.use():
            await self._terms.begin_shards(role, terms)
            self._rows.forget()
            if not self._terms.leads:  # who leads indexes all jobs
                self._owned_index.begin(terms)

    def end_shards(self, shards: Collection[int]) -> None:
        """Write no more jobs of these shards. What has begun is finished."""
        self._terms.end_shards(shards)
        self._owned_index.end(shards)

    async def check_term(self, job_id: JobId) -> None:
        """Raise Fenced where the term is over in which this handle writes the job, as a write would."""
        async with self._session.use():
            self._session.fence()
            await self._terms.check(job_id)

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
        text = "" if runtime is None else JOB_RUNTIME.encode(runtime)

        async def write(when: int) -> None:
            known = None if runtime is None else await self._jobs.row(job_id, runtime.config_version)
            rows = chain(encoded_tasks(job_id, tasks, when), encoded_events(job_id, events, when))
            # Workflows come before the tasks: a workflow goes on from whatever tasks are stored. Volumes do:
            # a task's volume must be known.
            await write_volumes(self._session, volumes, when)
            if workflows or workflow_events:
                await self._workflow_rows.write(workflows, workflow_events, when)
            await self._rows.write(job_id, rows, when)
            if runtime is not None:
                await self._jobs.replace(job_id, runtime, text, known=known)

        await self._gate.run(job_id, write)

    async def close(self) -> None:
        """Finish the writes that were accepted, then close the database."""
        await self._index.reset()
        await self._owned_index.close()
        await self._session.close()
        await self._index.reset()
        if not self._shared:
            self._shared = True
            await asyncio.to_thread(self._connection.close)


async def open_cassandra(settings: CassandraSettings) -> CassandraStore:
    """Open the store. Raises as `storage.selection.factory.open_store` does."""
    return CassandraStore(await asyncio.to_thread(connected, settings), settings)


def connected(settings: CassandraSettings) -> Connection:
    """Connect to a keyspace with the current schema; blocks. Raises as `open_cassandra` does."""
    if settings.auto_migrate:
        up(settings)
    connection = connect(settings, settings.keyspace)
    try:
        check(connection, settings)
        connection.prepare()
    except BaseException:
        connection.close()
        raise
    return connection
