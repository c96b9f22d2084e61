"""JobManager of the v0 API: batch jobs (docs/behaviour/jobs.md, Operations of the v0 API)."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from jobmgr.core.job.suspension import refusal
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Begun, Workflows
from jobmgr.services.common.crash_loops import crash_looping, explained
from jobmgr.services.common.dependencies import find_dependencies
from jobmgr.services.common.growth import check_updatable, growth, shown_config
from jobmgr.services.common.job_query import InvalidPool, job_query
from jobmgr.services.common.priorities import with_priority
from jobmgr.services.common.ranges import chosen
from jobmgr.services.common.reach import limited, readable
from jobmgr.services.common.secrets import Prepared, SecretChecks, check_no_secret_volumes, given_v0, shown_v0
from jobmgr.services.common.spec_rules import PLAIN_SPECS, SpecRules
from jobmgr.services.common.spec_warnings import SpecWarnings
from jobmgr.services.common.view import JOB_NOT_FOUND, InternalRefusal, JobView, in_memory, parsed, view
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.errors import errors_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.query import query_pb2
from peloton.clock import Clock
from peloton.daemon.tracing import note_caller
from peloton.errors import AlreadyExists, Conflict, InvalidArgument, NotFound, Refused, StaleVersion
from peloton.identity.principal import current
from peloton.model.ids import JobId, is_uuid
from peloton.model.job import JobPage, JobQuery, JobSpec, JobSummary, instance_count
from peloton.model.plural import plural
from peloton.model.pool import PoolConfig
from peloton.model.states import JobType
from peloton.model.workflow import WorkflowOptions, ranges_of
from peloton.offload import run_by_size
from peloton.required_fields import size_of
from peloton.rpc.pages import Room, taken_by
from peloton.wire.job import config_payload, job_info_to, job_runtime_to, job_spec, job_summary_to
from peloton.wire.payload import job_config
from peloton.wire.validation.job import (
    check_job_id,
    check_new_daemon,
    check_pool,
    validated,
)
from peloton.wire.validation.update import validated_update

UPDATE_TRIES = 5
"""Tries of an update that conflicts with others of the same job."""


class JobManager(job_pb2_grpc.JobManagerServicer):
    """Answers the calls of JobManager."""

    def __init__(
        self,
        engine: Engine,
        workflows: Workflows,
        clock: Clock,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        rules: SpecRules = PLAIN_SPECS,
    ) -> None:
        self._trials = rules.trials
        self._engine = engine
        self._workflows = workflows
        self._clock = clock
        self._new_id = new_id
        self._classes = rules.classes
        self._secrets = SecretChecks(engine.store.secrets, rules.secrets, tokens=rules.tokens)
        self._warnings = SpecWarnings(engine, rules.images)

    async def Create(self, request: job_pb2.CreateRequest, context: Any) -> job_pb2.CreateResponse:
        """Create a job."""
        note_caller(context)
        job_id = request.id.value or self._new_id()
        answer = job_pb2.CreateResponse()
        try:
            check_job_id(job_id)
        except InvalidArgument as error:
            answer.error.invalidJobId.CopyFrom(job_pb2.InvalidJobId(id=_id(job_id), message=str(error)))
            return answer
        try:
            pools = await self._engine.store.pools.all()
            spec, secrets = await self._new_spec(job_id, request, pools)
            _check_suspension(spec, request.suspended)
            await self._engine.create_job(job_id, spec, secrets.contents, suspended=request.suspended)
        except InvalidArgument as error:
            answer.error.invalidConfig.CopyFrom(_invalid_config(job_id, error))
        except AlreadyExists:
            answer.error.alreadyExists.CopyFrom(
                job_pb2.JobAlreadyExists(id=_id(job_id), message=f"a job with the id {job_id} exists already")
            )
        else:
            answer.jobId.value = job_id
            answer.warnings.extend(await self._warnings.v0(spec, pools))
        return answer

    async def plan_spec(self, config: job_pb2.JobConfig) -> JobSpec:
        """Return the spec that Create would store, for a plan. Raises InvalidArgument."""
        pools = await self._engine.store.pools.all()
        spec, _ = await self._new_spec(self._new_id(), job_pb2.CreateRequest(config=config), pools)
        return spec

    async def _new_spec(
        self, job_id: JobId, request: job_pb2.CreateRequest, pools: Sequence[PoolConfig]
    ) -> tuple[JobSpec, Prepared]:
        """Validate a new job. Raises InvalidArgument."""
        size, given = size_of(request.config), with_priority(request.config, self._classes)
        config = await run_by_size(size, validated, given)
        check_new_daemon(config)
        check_no_secret_volumes(config)
        secrets = await self._secrets.prepare(job_id, given_v0(request.secrets), config)
        if secrets.refs and config.HasField("schedule"):
            wanted = "left out in a job with a schedule: each of its runs is a job of its own, without them"
            raise InvalidArgument("secrets", plural(len(secrets.refs), "secret"), wanted)
        check_pool(config.respoolID.value, pools)
        await find_dependencies(self._engine, job_id, config)
        await self._trials.check(config)
        now = self._clock.wall()
        config.changeLog.CopyFrom(
            peloton_pb2.ChangeLog(version=1, createdAt=now, updatedAt=now, updatedBy=current().name)
        )
        payload = config_payload(config, secrets.refs)
        spec = await run_by_size(size, job_spec, config, 1, payload)
        return spec, secrets

    async def Get(self, request: job_pb2.GetRequest, context: Any) -> job_pb2.GetResponse:
        """Return config and runtime of a job."""
        answer = job_pb2.GetResponse()
        try:
            job = await view(self._engine, request.id.value)
        except NotFound:
            answer.error.notFound.CopyFrom(errors_pb2.JobNotFound(id=request.id, message=JOB_NOT_FOUND))
        else:
            answer.jobInfo.CopyFrom(job_info_to(job.job_id, shown_config(job), job.runtime))
            answer.jobInfo.config.changeLog.version = job.spec.version
            answer.secrets.extend(shown_v0(job.spec.payload.secrets))
        return answer

    async def Query(self, request: job_pb2.QueryRequest, context: Any) -> job_pb2.QueryResponse:
        """Return the jobs that match a query."""
        answer = job_pb2.QueryResponse()
        if not request.HasField("spec"):
            return answer
        try:
            query = job_query(request, await self._engine.store.pools.all(), self._clock.wall())
        except InvalidPool as error:
            answer.error.invalidRespool.message = str(error)
            answer.error.invalidRespool.respoolID.CopyFrom(request.respoolID)
        except InvalidArgument as error:
            answer.error.err.message = str(error)
        else:
            query = await limited(query, self._engine)
            if request.spec.crashLooping:
                query = await crash_looping(query, self._engine)
            page = await self._engine.find_jobs(query)
            page = replace(page, jobs=tuple(await in_memory(self._engine, page.jobs)))
            self._fill(answer, request, query, page, Room(taken_by(context)))
        return answer

    def _fill(
        self,
        answer: job_pb2.QueryResponse,
        request: job_pb2.QueryRequest,
        query: JobQuery,
        page: JobPage,
        room: Room,
    ) -> None:
        limit = query.limit
        for job in page.jobs:
            summary, record = job_summary_to(job), []
            if not request.summaryOnly:
                record.append(job_info_to(job.job_id, _without_instances(job), job.runtime))
            if not room.takes(summary, *record):
                limit = len(answer.results)
                break
            answer.results.append(summary)
            answer.records.extend(record)
        answer.pagination.CopyFrom(query_pb2.Pagination(offset=query.offset, limit=limit, total=page.total))
        answer.spec.CopyFrom(_applied(request.spec, query))

    async def Delete(self, request: job_pb2.DeleteRequest, context: Any) -> job_pb2.DeleteResponse:
        """Delete a job that has ended."""
        if not is_uuid(request.id.value):
            raise NotFound(JOB_NOT_FOUND)
        try:
            await self._engine.delete(request.id.value)
        except Refused as error:
            raise InternalRefusal(str(error)) from None
        return job_pb2.DeleteResponse()

    async def Update(self, request: job_pb2.UpdateRequest, context: Any) -> job_pb2.UpdateResponse:
        """Add instances to a batch job."""
        job_id = request.id.value
        answer = job_pb2.UpdateResponse(id=request.id)
        if job_id and not is_uuid(job_id):
            invalid = job_pb2.InvalidJobId(
                id=request.id, message=str(InvalidArgument("id", job_id, "a UUID"))
            )
            answer.error.invalidJobId.CopyFrom(invalid)
            return answer
        try:
            spec, added, secret = await self._update(request)
            answer.message = _told(len(added), secret)
            answer.addedInstances.extend(added)
            answer.warnings.extend(await self._warnings.v0(spec))
        except (InvalidArgument, Refused) as error:
            answer.error.invalidConfig.CopyFrom(_invalid_config(job_id, error))
        except NotFound:
            answer.error.jobNotFound.CopyFrom(job_pb2.JobNotFound(id=request.id, message=JOB_NOT_FOUND))
        return answer

    async def _update(self, request: job_pb2.UpdateRequest) -> tuple[JobSpec, list[int], bool]:
        """Update a job; return the spec, the instances that were added, and whether it is a new version.

        Raises NotFound, InvalidArgument, Refused, and Conflict where other updates come before again and
        again.
        """
        for _ in range(UPDATE_TRIES):
            job = await view(self._engine, request.id.value)
            check_updatable(job)
            wanted = growth(job, request.config)
            spec, secrets = await self._next_spec(job, wanted.config, request)
            new = spec.version != job.spec.version
            if new:
                try:
                    await self._engine.update_job(job.job_id, spec, secrets.contents)
                except Conflict:
                    continue
            reused = (
                await self._engine.reuse(job.job_id, wanted.instances, wanted.reused) if wanted.reused else []
            )
            return spec, [*reused, *range(job.spec.instance_count, spec.instance_count)], new
        raise Conflict(f"job {request.id.value} is being updated by others")

    async def _next_spec(
        self, job: JobView, wanted: job_pb2.JobConfig, request: job_pb2.UpdateRequest
    ) -> tuple[JobSpec, Prepared]:
        """Return the next version, or the present one where no more than free numbers are used."""
        wanted = with_priority(wanted, self._classes, job.spec.sla, keeps=True)
        size = size_of(job.config) + size_of(wanted)
        config = await run_by_size(size, validated_update, job.config, wanted, job.is_released)
        held = job.spec.payload.secrets
        secrets = await self._secrets.prepare(job.job_id, given_v0(request.secrets), config, held)
        if config == job.config and secrets.refs == held:
            return job.spec, secrets
        check_no_secret_volumes(config)
        version = job.spec.version + 1
        config.changeLog.version = version
        config.changeLog.updatedAt = self._clock.wall()
        config.changeLog.updatedBy = current().name
        payload = config_payload(config, secrets.refs)
        spec = await run_by_size(size, job_spec, config, version, payload)
        return spec, secrets

    async def Stop(self, request: job_pb2.StopRequest, context: Any) -> job_pb2.StopResponse:
        """Stop instances, or the whole job."""
        job = await view(self._engine, request.id.value)
        _check_config_version(job, request.resourceVersion)
        batch = request.stopConfig.batchSize
        if batch and job.spec.type is not JobType.BATCH:
            begun = await self._roll(self._workflows.stop, job, request.ranges, batch)
            return job_pb2.StopResponse(resourceVersion=begun.version.config, updateID=_update_id(begun))
        _check_at_once(job, batch)
        instances = chosen(request.ranges, job.size)
        if instances is None or instances:
            await self._engine.stop(job.job_id, instances)
        return job_pb2.StopResponse(resourceVersion=job.runtime.config_version)

    async def Restart(self, request: job_pb2.RestartRequest, context: Any) -> job_pb2.RestartResponse:
        """Restart instances, of a service by batches."""
        job = await view(self._engine, request.id.value)
        _check_config_version(job, request.resourceVersion)
        batch = request.restartConfig.batchSize
        if job.spec.type is not JobType.BATCH:
            begun = await self._roll(self._workflows.restart, job, request.ranges, batch)
            return job_pb2.RestartResponse(resourceVersion=begun.version.config, updateID=_update_id(begun))
        _check_at_once(job, batch)
        await self._engine.restart(job.job_id, chosen(request.ranges, job.size))
        return job_pb2.RestartResponse(resourceVersion=job.runtime.config_version)

    async def Start(self, request: job_pb2.StartRequest, context: Any) -> job_pb2.StartResponse:
        """Start instances that were stopped, of a service by batches."""
        job = await view(self._engine, request.id.value)
        _check_config_version(job, request.resourceVersion)
        batch = request.startConfig.batchSize
        if job.spec.type is not JobType.BATCH:
            begun = await self._roll(self._workflows.start, job, request.ranges, batch)
            return job_pb2.StartResponse(resourceVersion=begun.version.config, updateID=_update_id(begun))
        _check_at_once(job, batch)
        await self._engine.start(job.job_id, chosen(request.ranges, job.size))
        return job_pb2.StartResponse(resourceVersion=job.runtime.config_version)

    async def _roll(
        self, begin: Callable[..., Awaitable[Begun]], job: JobView, ranges: Any, batch: int
    ) -> Begun:
        """Begin a workflow over the instances that the ranges name, in batches."""
        instances = chosen(ranges, job.size)
        of = () if instances is None else ranges_of(instances)
        return await begin(job.job_id, of, WorkflowOptions(batch_size=batch))

    async def Refresh(self, request: job_pb2.RefreshRequest, context: Any) -> job_pb2.RefreshResponse:
        """Read a job from the store again."""
        if not is_uuid(request.id.value):
            raise NotFound(JOB_NOT_FOUND)
        await self._engine.refresh(request.id.value)
        return job_pb2.RefreshResponse()

    async def GetActiveJobs(
        self, request: job_pb2.GetActiveJobsRequest, context: Any
    ) -> job_pb2.GetActiveJobsResponse:
        """Return the ids of the jobs that have not ended."""
        jobs = await readable(list(self._engine.active_jobs()), self._engine)
        return job_pb2.GetActiveJobsResponse(ids=map(_id, jobs))

    async def GetCache(self, request: job_pb2.GetCacheRequest, context: Any) -> job_pb2.GetCacheResponse:
        """Return a job as it is in memory."""
        cached = self._engine.job(request.id.value)
        if cached is None:
            raise NotFound(f"{JOB_NOT_FOUND} in memory: only active jobs are held there")
        answer = job_pb2.GetCacheResponse(
            config=parsed(cached.spec.payload), runtime=job_runtime_to(explained(cached, self._engine.limits))
        )
        answer.config.instanceCount = instance_count(cached.spec, cached.runtime)
        return answer


def _told(added: int, new: bool) -> str:
    """Say what an update has done; `new`: it has stored another version."""
    if added:
        return f"added {plural(added, 'instance')}"
    return "changed the secrets" if new else "nothing to change"


def _id(job_id: str) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=job_id)


def _invalid_config(job_id: str, error: InvalidArgument | Refused) -> job_pb2.InvalidJobConfig:
    return job_pb2.InvalidJobConfig(id=_id(job_id), message=str(error))


def _update_id(begun: Begun) -> peloton_pb2.UpdateID:
    return peloton_pb2.UpdateID(value=begun.workflow_id)


def _check_suspension(spec: JobSpec, suspended: bool) -> None:
    """Raise InvalidArgument for a job that is to be created as suspended, and cannot be."""
    if suspended and (text := refusal(spec)):
        raise InvalidArgument("suspended", True, f"false: {text}")


def _check_at_once(job: JobView, batch: int) -> None:
    """Raise InvalidArgument for a batch job whose instances are to be changed by batches."""
    if 0 < batch < job.size:
        raise InvalidArgument("batchSize", batch, "0: only services are changed by batches")


def _check_config_version(job: JobView, expected: int) -> None:
    """Raise StaleVersion for a version that is not the present one; 0 is not checked."""
    if expected and expected != job.runtime.config_version:
        raise StaleVersion(f"resourceVersion {expected} is stale: the job is at {job.runtime.config_version}")


def _without_instances(job: JobSummary) -> job_pb2.JobConfig:
    config = job_config(job.spec.payload)
    config.ClearField("instanceConfig")
    config.instanceCount = job.instance_count
    return config


def _applied(wire: job_pb2.QuerySpec, query: JobQuery) -> job_pb2.QuerySpec:
    """Return the spec with the values that the server filled in."""
    spec = job_pb2.QuerySpec()
    spec.CopyFrom(wire)
    spec.pagination.limit = query.limit
    if query.created.start is not None and not wire.creationTimeRange.HasField("min"):
        spec.creationTimeRange.min.FromNanoseconds(query.created.start)
    if not wire.pagination.orderBy:
        for name, descending in query.order:
            by = spec.pagination.orderBy.add(
                order=query_pb2.OrderBy.DESC if descending else query_pb2.OrderBy.ASC
            )
            by.property.value = name
    return spec
