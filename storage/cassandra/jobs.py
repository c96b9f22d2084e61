"""Jobs: each change is a conditional write on the state that it was decided on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid4
from zlib import crc32

from peloton.errors import AlreadyExists, Conflict, NotFound, Unavailable
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobKeys, JobLosses, JobPage, JobQuery, JobRuntime, JobSpec, JobSummary
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.workflow import Workflow
from peloton.wire.payload import spec_from_payload
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.configs import ConfigRow, Configs, config_row
from storage.cassandra.index import JobIndex
from storage.cassandra.owned_index import OwnedIndex
from storage.cassandra.secrets import SecretRows
from storage.cassandra.session import Session
from storage.cassandra.tasks import Rows
from storage.cassandra.terms import Gate, Terms
from storage.cassandra.workflows import WorkflowRows
from storage.codec import JOB_RUNTIME
from storage.jobindex.entries import IndexedConfig
from storage.jobindex.index_db import Change

_ACTIVE_BUCKETS = 64
"""Must never change: it is part of the stored keys."""
_TRIES = 10
"""Most tries of a change that conflicts with changes by others."""


class JobRow(NamedTuple):
    """A job as it is stored."""

    stamp: UUID
    term: int
    active: bool
    revision: int
    config_version: int
    runtime: str


Decide = Callable[[JobRow, UUID], Awaitable[Sequence[Bound]]]
"""Returns what to write for a job's row and the stamp of the change, nothing for no change. Its errors are
raised to the caller."""


class CassandraJobs:
    """Jobs in the Cassandra store."""

    def __init__(
        self,
        session: Session,
        gate: Gate,
        terms: Terms,
        rows: Rows,
        workflows: WorkflowRows,
        configs: Configs,
        index: JobIndex,
        owned_index: OwnedIndex,
        secrets: SecretRows,
    ) -> None:
        self._session = session
        self._gate = gate
        self._terms = terms
        self._rows = rows
        self._workflows = workflows
        self._configs = configs
        self._index = index
        self._owned_index = owned_index
        self._secrets = secrets

    async def create(
        self,
        job_id: JobId,
        spec: JobSpec,
        runtime: JobRuntime,
        workflow: Workflow | None = None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> None:
        """Store config, runtime, index row, membership in the active set, first workflow and secrets."""
        text = JOB_RUNTIME.encode(runtime)

        async def write(when: int) -> None:
            if workflow is not None:
                await self._workflows.write((workflow,), (), when)
            await self._secrets.put(job_id, secrets, when)
            try:
                await self._create(when, job_id, spec, runtime, text)
            except AlreadyExists:
                if workflow is not None:
                    await self._workflows.drop(workflow, self._session.timestamp())
                await self._secrets.drop(job_id, secrets, self._session.timestamp())
                raise

        await self._gate.run(job_id, write)

    async def _create(self, when: int, job_id: JobId, spec: JobSpec, runtime: JobRuntime, text: str) -> None:
        row = await config_row(job_id, spec)
        await self._configs.put_body(row, when)
        entry, _ = await asyncio.gather(
            self._session.row("read_active_entry", _bucket(job_id), job_id),
            self._session.write("put_active", _bucket(job_id), job_id, when),
        )
        if entry is not None and entry[0] is False and await self._read(job_id, serial=True) is None:
            await self._rows.delete(job_id, when)
        stamp = uuid4()
        state = (stamp, self._terms.number(job_id), runtime.revision, runtime.config_version, text, job_id)
        try:
            created = await self._decided(job_id, stamp, [("create_job", state), ("put_config", row.values)])
        except Unavailable:
            self._mark_unconfirmed(job_id)
            raise
        if not created:
            await self._configs.drop_body(row.body_id, len(row.chunks), self._session.timestamp())
            raise AlreadyExists(f"job {job_id} exists already")
        await self._noted(job_id, Change(text, row.indexed))
        await self._session.write("confirm_active", _bucket(job_id), job_id, when)

    async def add_config(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> None:
        """Store a further version of the config, and secrets that are new in it.

        Raises AlreadyExists for a version that exists.
        """

        async def write(when: int) -> None:
            await self._secrets.put(job_id, secrets, when)
            await self._add_config(when, job_id, spec)

        await self._gate.run(job_id, write)

    async def _add_config(self, when: int, job_id: JobId, spec: JobSpec) -> None:
        row = await config_row(job_id, spec)
        await self._configs.put_body(row, when)
        if not await self._added(job_id, row):
            await self._configs.drop_body(row.body_id, len(row.chunks), self._session.timestamp())
            raise AlreadyExists(f"job {job_id} has a config version {spec.version} already")

    async def config(self, job_id: JobId, version: int) -> JobSpec:
        """Return a version of the config. Raises NotFound."""
        async with self._session.use():
            return spec_from_payload(await self._configs.payload(job_id, version), version)

    async def runtime(self, job_id: JobId) -> JobRuntime:
        """Return the runtime. Raises NotFound."""
        async with self._session.use():
            return JOB_RUNTIME.decode((await self._known(job_id)).runtime)

    async def replace(
        self,
        job_id: JobId,
        runtime: JobRuntime,
        text: str,
        known: JobRow | None = None,
    ) -> None:
        """Replace the runtime, within the job's gate.

        `text` is the encoded runtime, `known` the row if it has been read. Raises NotFound.
        """
        config: IndexedConfig | None = None

        async def decide(row: JobRow, stamp: UUID) -> Sequence[Bound]:
            nonlocal config
            if row.config_version != runtime.config_version:
                config = await self._configs.indexed(job_id, runtime.config_version)
            return [
                self._changed(
                    job_id,
                    row,
                    stamp,
                    revision=runtime.revision,
                    config_version=runtime.config_version,
                    runtime=text,
                )
            ]

        if await self._change(job_id, decide, known) is None:
            raise _unknown(job_id)
        await self._noted(job_id, Change(text, config))

    async def row(self, job_id: JobId, config_version: int | None = None) -> JobRow:
        """Return the row of a job.

        Raises NotFound, also for a given version that is not stored, and Fenced where a newer term has
        changed the job.
        """
        row = await self._known(job_id)
        self._terms.refuse(job_id, row.term)
        if config_version is not None and config_version != row.config_version:
            await self._configs.require(job_id, config_version)
        return row

    async def delete(self, job_id: JobId) -> None:
        """Delete a job, if it exists: configs, runtime, tasks, events, workflows, secrets and index row."""
        await self._gate.run(job_id, lambda when: self._delete(when, job_id))

    async def _delete(self, when: int, job_id: JobId) -> None:
        bodies = await self._configs.bodies(job_id)
        await self._session.write("mark_deleting", _bucket(job_id), job_id, when)

        async def decide(row: JobRow, stamp: UUID) -> Sequence[Bound]:
            return [("delete_job", (job_id, row.stamp)), ("delete_rest", (job_id,))]

        await self._change(job_id, decide)
        await self._noted(job_id, Change(None))
        for body_id, chunks in bodies:
            await self._configs.drop_body(body_id, chunks, when)
        await self._clear(job_id, when)

    async def finish_deletions(self) -> int:
        """Finish deletions that were cut off after the job's row was deleted; return their number."""
        finished = 0
        for bucket in range(_ACTIVE_BUCKETS):
            for job_id, sure in await self._session.rows("read_active", bucket):
                if sure is False:
                    finished += await self._gate.run(job_id, partial(self._finish_deletion, job_id))
        return finished

    async def _finish_deletion(self, job_id: JobId, when: int) -> bool:
        if await self._read(job_id, serial=True) is not None:
            return False
        await self._clear(job_id, when)
        return True

    async def query(self, query: JobQuery) -> JobPage:
        """Return the jobs that the query matches."""
        async with self._session.use():
            return await self._index.query(query)

    async def find_keys(self, query: JobQuery) -> JobKeys | None:
        """Return the keys of jobs of the handle's shards; None for a leader, who finds all jobs as fast."""
        if self._terms.leads:
            return None
        async with self._session.use():
            return await self._owned_index.find_keys(query)

    async def summaries(self, job_ids: Collection[JobId]) -> Sequence[JobSummary]:
        """Return those of some jobs of the handle's shards that are there."""
        async with self._session.use():
            return await self._owned_index.summaries(job_ids)

    async def lost_seconds(self) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs have lost since checkpoints, by pool."""
        async with self._session.use():
            return await self._index.lost_seconds()

    async def find_losses(self) -> JobLosses | None:
        """Return what jobs of the handle's shards have lost; None for a leader, who has all jobs."""
        if self._terms.leads:
            return None
        async with self._session.use():
            return await self._owned_index.losses()

    async def active(self) -> Sequence[JobId]:
        """Return the jobs that need work: those that were created and not yet retired."""
        async with self._session.use():
            found = await asyncio.gather(*(self._active_in(bucket) for bucket in range(_ACTIVE_BUCKETS)))
        return tuple(sorted(job_id for some in found for job_id in some))

    async def retire(self, job_id: JobId) -> None:
        """Remove a finished job from the active set."""
        await self._gate.run(job_id, lambda when: self._retire(when, job_id))

    async def _retire(self, when: int, job_id: JobId) -> None:
        if await self._set_retired(job_id) is not None:
            await self._session.write("delete_active", when, _bucket(job_id), job_id)

    async def _clear(self, job_id: JobId, when: int) -> None:
        """Delete what belongs to a deleted job; its entry in the active set is deleted last."""
        await self._workflows.delete(job_id, await self._rows.buckets(job_id), when)
        await self._rows.delete(job_id, when)
        await self._secrets.delete(job_id, when)
        await self._session.write("delete_active", when, _bucket(job_id), job_id)

    async def _set_retired(self, job_id: JobId) -> JobRow | None:
        async def decide(row: JobRow, stamp: UUID) -> Sequence[Bound]:
            return [self._changed(job_id, row, stamp, active=False)] if row.active else []

        return await self._change(job_id, decide)

    async def _active_in(self, bucket: int) -> list[JobId]:
        rows = await self._session.rows("read_active", bucket)
        unsure = [job_id for job_id, sure in rows if not sure]
        checked = await asyncio.gather(*(self._read(job_id, serial=True) for job_id in unsure))
        active = {job_id for job_id, row in zip(unsure, checked, strict=True) if row and row.active}
        return [job_id for job_id, sure in rows if sure or job_id in active]

    def _changed(self, job_id: JobId, row: JobRow, stamp: UUID, **fields: object) -> Bound:
        term = max(row.term, self._terms.number(job_id))
        new = row._replace(stamp=stamp, term=term, **fields)  # type: ignore[arg-type]
        assert stamp != row.stamp, "a change is told from the one before by its stamp"
        return "change_job", (*new, job_id, row.stamp)

    async def _change(self, job_id: JobId, decide: Decide, known: JobRow | None = None) -> JobRow | None:
        """Change a job; return the row before the change, None where there is no job.

        Raises Conflict where others change the job repeatedly, and Unavailable where the outcome is
        unknown.
        """
        try:
            for attempt in range(_TRIES):
                row = known if known and not attempt else await self._read(job_id, serial=attempt > 0)
                if row is None:
                    return None
                self._terms.refuse(job_id, row.term)
                stamp = uuid4()
                parts = await decide(row, stamp)
                if not parts or await self._decided(job_id, stamp, parts):
                    return row
        except Unavailable:
            self._mark_unconfirmed(job_id)
            raise
        raise Conflict(f"job {job_id} is changed by others repeatedly")

    async def _decided(self, job_id: JobId, stamp: UUID, parts: Sequence[Bound]) -> bool:
        """Return whether the change was made. Where its answer is lost, a serial read decides.

        A change that was not made may still arrive late. It then fails if the job was changed in between, as
        it is by the next try.
        """
        try:
            return await self._session.decide(parts)
        except Unavailable as lost:
            row = await self._read(job_id, serial=True)
            if row is not None:
                return row.stamp == stamp
            if parts[0][0] == "create_job":
                raise lost
            return parts[0][0] == "delete_job"

    async def _added(self, job_id: JobId, row: ConfigRow) -> bool:
        try:
            return await self._session.decide([("add_config", row.values)])
        except Unavailable:
            stored = await self._session.row("read_whole_config", job_id, row.indexed.version, serial=True)
            if stored is None:
                raise
            return stored == row.values

    async def _noted(self, job_id: JobId, change: Change) -> None:
        for index in (self._index, self._owned_index):
            index.note(job_id, change)
            await index.flush_many()

    def _mark_unconfirmed(self, job_id: JobId) -> None:
        self._index.mark_unconfirmed(job_id)
        self._owned_index.mark_unconfirmed(job_id)

    async def _known(self, job_id: JobId) -> JobRow:
        row = await self._read(job_id)
        if row is None:
            raise _unknown(job_id)
        return row

    async def _read(self, job_id: JobId, serial: bool = False) -> JobRow | None:
        row = await self._session.row("read_job", job_id, serial=serial)
        return None if row is None or row[0] is None else JobRow(*row)


def _bucket(job_id: JobId) -> int:
    return crc32(job_id.encode()) % _ACTIVE_BUCKETS


def _unknown(job_id: JobId) -> NotFound:
    return NotFound(f"job {job_id} is not stored")
