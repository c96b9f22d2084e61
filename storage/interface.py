"""The storage port: repositories as Protocols, with what each promises.

Every write is durable when its call returns. A call with an unknown outcome raises `Unavailable`; absence is
`NotFound` or an empty result, never a guess. A write stores all its rows or none. The exception is a write
over several partitions of Cassandra that ended with Unavailable: a part of it may be stored, and a repetition
completes it (`storage.cassandra`).

Writes of a leader carry its term: `Store.begin_term` makes every later write of that role through
any other handle with a lower term raise `Fenced`, checked in the write's own transaction. Before it,
each write calls the handle's fence, which knows the leader's lease.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Protocol

from peloton.model.accounting import JobHour, PeriodUsage
from peloton.model.history import HistoryBlock
from peloton.model.host import HostInfo
from peloton.model.host_pool import HostPoolChange, StoredHostPools
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobKeys, JobLosses, JobPage, JobQuery, JobRuntime, JobSpec, JobSummary
from peloton.model.known_host import KnownHost
from peloton.model.lockdown import Component
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.pool import PoolConfig
from peloton.model.task import PodEvent, TaskRuntime
from peloton.model.volume import Volume, VolumeId
from peloton.model.workflow import WHOLE_WORKFLOW, Workflow, WorkflowEvent, WorkflowId

Fence = Callable[[], None]
"""Raises Fenced where the writer no longer leads, and Unavailable while that is unknown. Called from any
thread."""


def unfenced() -> None:
    """Allow every write: the fence of a handle without a lease."""


class Jobs(Protocol):
    """Configs by version, runtimes, the set of active jobs and the index that queries read."""

    async def create(
        self,
        job_id: JobId,
        spec: JobSpec,
        runtime: JobRuntime,
        workflow: Workflow | None = None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> None:
        """Store config, runtime, index row, membership in the active set, first workflow and secrets.

        All are stored or none; in Cassandra, secrets of a creation whose outcome is unknown may be left.

        Raises AlreadyExists, also where the same job is created twice at once.
        """
        ...

    async def add_config(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> None:
        """Store a further version of the config, and secrets that are new in it.

        Raises AlreadyExists for a version that exists; the secrets may then be stored.
        """
        ...

    async def config(self, job_id: JobId, version: int) -> JobSpec:
        """Return a version of the config. Raises NotFound."""
        ...

    async def runtime(self, job_id: JobId) -> JobRuntime:
        """Return the runtime. Raises NotFound."""
        ...

    async def delete(self, job_id: JobId) -> None:
        """Delete a job, if it exists: configs, runtime, tasks, events, workflows, secrets and index row."""
        ...

    async def query(self, query: JobQuery) -> JobPage:
        """Return the jobs that the query matches.

        Raises InvalidArgument for an order by an unknown property, and for too many or too long words.
        """
        ...

    async def find_keys(self, query: JobQuery) -> JobKeys | None:
        """Return the keys of jobs of the shards that this handle has, up to the end of the query's page.

        None where `query` is as fast: it finds all jobs. A shard that has begun counts once its jobs are
        read. Raises as `query`.
        """
        ...

    async def summaries(self, job_ids: Collection[JobId]) -> Sequence[JobSummary]:
        """Return those of some jobs that `find_keys` can find, in any order."""
        ...

    async def lost_seconds(self) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs have lost since checkpoints, by pool.

        Pools without are left out. Jobs that were deleted count no more.
        """
        ...

    async def find_losses(self) -> JobLosses | None:
        """Return what jobs of the shards that this handle has have lost.

        None where `lost_seconds` is as fast. A shard counts as with `find_keys`.
        """
        ...

    async def active(self) -> Sequence[JobId]:
        """Return the jobs that need work: those that were created and not yet retired."""
        ...

    async def retire(self, job_id: JobId) -> None:
        """Remove a finished job from the active set."""
        ...


class Tasks(Protocol):
    """Runtimes, one row per instance. Configs are never stored per instance."""

    async def get(self, job_id: JobId, instance: int) -> TaskRuntime:
        """Return the runtime of an instance. Raises NotFound."""
        ...

    def list(
        self, job_id: JobId, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Mapping[int, TaskRuntime]]:
        """Yield instances first … end-1 in order, in pages of at most 10,000.

        Equal runtimes of a page share one object.
        """
        ...


class PodEvents(Protocol):
    """The history of each instance's runs, kept for 90 days."""

    async def list(
        self, job_id: JobId, instance: int, run: int | None = None, runs: int = 10
    ) -> Sequence[PodEvent]:
        """Return events of one run, or of the last `runs` runs.

        The newest run comes first, and within a run the newest event.
        """
        ...

    async def delete(self, job_id: JobId, instance: int, up_to_run: int) -> None:
        """Delete the events of runs 1 … up_to_run."""
        ...

    async def expire(self, before: int) -> int:
        """Drop events of ended runs older than `before`, in nanoseconds since 1970; return their number.

        A run has ended when there is a newer run or an event of its end. Events that the database drops by
        itself, 90 days after they were written, are not counted.
        """
        ...


class Workflows(Protocol):
    """Workflows of services, and their events. `Store.write_all` writes them.

    Cassandra drops events after 90 days.
    """

    async def get(self, workflow_id: WorkflowId) -> Workflow:
        """Return a workflow. Raises NotFound."""
        ...

    async def list(self, job_id: JobId, limit: int) -> Sequence[Workflow]:
        """Return the last workflows of a job, newest first."""
        ...

    async def events(
        self, workflow_id: WorkflowId, instance: int = WHOLE_WORKFLOW, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        """Return the last events of a workflow, or of one of its instances, newest first; 0: all."""
        ...

    async def prune(self, job_id: JobId, keep: int, current: WorkflowId) -> int:
        """Delete the workflows of a job with their events, but for the last `keep` ones and `current`.

        Returns how many were deleted. Where it is cut off it may be repeated.
        """
        ...


class Secrets(Protocol):
    """The contents of secret files of jobs, apart from the configs, which name them by key.

    `Jobs.create` and `Jobs.add_config` write them, and `Jobs.delete` deletes them. Pools have secrets, too,
    under keys of their own, from which new jobs take theirs; `Pools.delete` deletes them.
    """

    async def read(self, job_id: JobId, key: str) -> bytes:
        """Return the content that is stored under a key of a job, or of a pool. Raises NotFound."""
        ...

    async def keys(self, pool_id: PoolId) -> Sequence[str]:
        """Return the keys that a pool has, in order."""
        ...

    async def put(self, pool_id: PoolId, contents: SecretBytes) -> None:
        """Write contents of a pool by their keys, in place of those that are there."""
        ...

    async def drop(self, pool_id: PoolId, keys: Sequence[str]) -> None:
        """Delete contents of a pool; those that are not there count as deleted."""
        ...


class Pools(Protocol):
    """Resource pools."""

    async def write(self, pool: PoolConfig) -> None:
        """Insert or replace."""
        ...

    async def delete(self, pool_id: PoolId) -> None:
        """Delete a pool, if it exists."""
        ...

    async def all(self) -> Sequence[PoolConfig]:
        """Return all pools."""
        ...


class Hosts(Protocol):
    """Hosts, and the framework ids of hostmgr."""

    async def framework_id(self, name: str) -> str | None:
        """Return the framework id that is stored under a name, if any."""
        ...

    async def write_framework_id(self, name: str, framework_id: str) -> None:
        """Insert or replace a framework id."""
        ...

    async def write(self, host: HostInfo) -> None:
        """Insert or replace a host."""
        ...

    async def delete(self, hostname: str) -> None:
        """Delete a host, if it exists."""
        ...

    async def all(self) -> Sequence[HostInfo]:
        """Return all hosts."""
        ...


class KnownHosts(Protocol):
    """The hosts that hostmgr has seen, by the name of its framework: so that lost ones are remembered."""

    async def write(self, framework: str, hosts: Sequence[KnownHost], forgotten: Sequence[str] = ()) -> None:
        """Insert or replace hosts, and delete those that are forgotten, if they exist.

        In Cassandra, some of them may be written where the outcome is unknown.
        """
        ...

    async def all(self, framework: str) -> Sequence[KnownHost]:
        """Return all hosts of a framework, by name."""
        ...


class HostPools(Protocol):
    """Host pools of hostmgr, by the name of its framework.

    The pool `default` is not stored, and neither are hosts that are in it and are not being moved.
    """

    async def write(self, framework: str, change: HostPoolChange) -> None:
        """Write and delete rows; what is there already, or is not there, is no error.

        In Cassandra, a write with an unknown outcome may be stored in part: pools, then some of the hosts.
        """
        ...

    async def all(self, framework: str) -> StoredHostPools:
        """Return all rows of a framework. A host may name a pool that is not there, after such a write."""
        ...


class Lockdowns(Protocol):
    """The components of jobmgr that are locked down."""

    async def write(self, component: Component) -> None:
        """Insert a component; nothing changes where it is there."""
        ...

    async def delete(self, component: Component) -> None:
        """Delete a component, if it is there."""
        ...

    async def all(self) -> frozenset[Component]:
        """Return all components that are locked down."""
        ...


class Volumes(Protocol):
    """Persistent volumes. They outlive their jobs."""

    async def get(self, volume_id: VolumeId) -> Volume:
        """Return a volume. Raises NotFound."""
        ...

    async def of_job(self, job_id: JobId) -> Sequence[Volume]:
        """Return all volumes of a job, deleted ones included, by instance and age."""
        ...

    async def all(self) -> Sequence[Volume]:
        """Return all volumes, deleted ones included."""
        ...

    async def write(self, volume: Volume) -> None:
        """Insert or replace a volume that no task uses; `Store.write_all` writes volumes with their tasks."""
        ...


class Usage(Protocol):
    """The account of what jobs have held, used and lost: by job and hour, and by group, in hours and days.

    Cassandra drops rows by itself: those of jobs after 15 days, hours after 40 and days after 400.
    """

    async def write(self, rows: Sequence[JobHour]) -> None:
        """Insert or replace rows of jobs. In Cassandra, some may be written where the outcome is unknown."""
        ...

    async def last(self, job_ids: Sequence[JobId]) -> Mapping[JobId, JobHour]:
        """Return the newest row of each job that has one."""
        ...

    async def of_job(self, job_id: JobId, since: int) -> Sequence[JobHour]:
        """Return the rows of a job for hours that begin at `since` (seconds since 1970) or later."""
        ...

    def of_hour(self, hour: int) -> AsyncIterator[Sequence[JobHour]]:
        """Yield the rows of all jobs for one hour, in pages of at most 5,000."""
        ...

    async def close(self, seconds: int, start: int, rows: Sequence[PeriodUsage]) -> None:
        """Write the account of all groups for a period, which may be empty, and that it is closed.

        `seconds` is its length, `start` its begin in seconds since 1970. It may be repeated.
        """
        ...

    async def closed(self, seconds: int) -> int | None:
        """Return the begin of the last period of a length that is closed; None: there is none."""
        ...

    def periods(self, seconds: int, since: int, until: int) -> AsyncIterator[Sequence[PeriodUsage]]:
        """Yield the periods of a length that begin at `since` or later and before `until`, in order."""
        ...

    async def expire(self, jobs_before: int, hours_before: int, days_before: int) -> None:
        """Drop rows of jobs, hours and days that begin before these times, in seconds since 1970.

        In Cassandra, which drops rows by itself, nothing happens.
        """
        ...


class History(Protocol):
    """Blocks of samples over time, which few rows hold."""

    async def write(self, blocks: Sequence[HistoryBlock], keep_seconds: int) -> None:
        """Insert or replace blocks, and drop older ones of their scopes and steps after `keep_seconds`.

        Cassandra counts these from when a block was written, and may have written some of the blocks where
        the outcome is unknown.
        """
        ...

    async def read(
        self, scope: str, step: int, starts: Sequence[int], part: int | None = None
    ) -> Sequence[HistoryBlock]:
        """Return the blocks that begin at `starts`, in that order, by parts; with `part`, that part alone."""
        ...


class Store(Protocol):
    """All repositories of one database."""

    jobs: Jobs
    tasks: Tasks
    pod_events: PodEvents
    workflows: Workflows
    secrets: Secrets
    pools: Pools
    hosts: Hosts
    known_hosts: KnownHosts
    host_pools: HostPools
    lockdowns: Lockdowns
    volumes: Volumes
    usage: Usage
    history: History

    async def begin_term(self, role: str, term: int, fence: Fence = unfenced) -> None:
        """Write as `role` in `term` from now on, and call `fence` before each write, as late as possible.

        Raises Fenced where a newer term has begun, Refused where a leader has written that is more than a
        minor version newer, and what `fence` raises.
        """
        ...

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        """Write jobs of these shards in these terms from now on; further ones are added.

        From the first call on, a write of a job is checked by the term of its shard, and not by that of the
        role, and one of a job of another shard raises Fenced. Raises Fenced where a newer term of any of the
        shards has begun, and then begins none.
        """
        ...

    def end_shards(self, shards: Collection[int]) -> None:
        """Write no more jobs of these shards. What has begun is finished."""
        ...

    async def check_term(self, job_id: JobId) -> None:
        """Raise Fenced where the term is over in which this handle writes the job, as a write would.

        The newest term is read after the call. Raises Unavailable.
        """
        ...

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
        """Write task runtimes, their events, the runtime, workflows and volumes of one job together.

        Raises NotFound for the runtime of a job, or a version of its config, that is not stored. Of events of
        one run, time and state, the last one written stays.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that were accepted, then close the database."""
        ...
