"""JobService: services, and what batch jobs share with them (docs/behaviour/jobs.md)."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.priorities import with_priority
from jobmgr.services.common.ranges import chosen
from jobmgr.services.common.secrets import (
    Prepared,
    SecretChecks,
    check_no_secret_volumes,
    given_v1alpha,
    named_again,
)
from jobmgr.services.common.spec_rules import PLAIN_SPECS, SpecRules
from jobmgr.services.common.spec_warnings import SpecWarnings
from jobmgr.services.common.view import JobView, view
from jobmgr.services.v1alpha import repeats
from jobmgr.services.v1alpha.job_reads import JobReads
from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.clock import Clock
from peloton.daemon.tracing import note_caller
from peloton.errors import Conflict, InvalidArgument, NotFound, Refused, StaleVersion
from peloton.identity.principal import current
from peloton.model.constraint import Constraint
from peloton.model.ids import is_uuid
from peloton.model.job import JobSpec, Sla
from peloton.model.states import JobState, JobType
from peloton.model.workflow import EntityVersion, WorkflowOptions, WorkflowType, ranges_of
from peloton.offload import run_by_size
from peloton.required_fields import size_of
from peloton.wire.job import config_payload, job_spec
from peloton.wire.moves import moved_spec
from peloton.wire.payload import spec_from_v1alpha, v1alpha_spec
from peloton.wire.v1alpha.job_status import entity_version, version_to
from peloton.wire.v1alpha.patch import patched
from peloton.wire.v1alpha.paths import v1alpha_error, v1alpha_path
from peloton.wire.v1alpha.workflow import closed, create_options, restart_options, update_options
from peloton.wire.validation.job import check_pool
from peloton.wire.validation.v1alpha import check_spec

Prepare = Callable[[job_pb2.JobConfig], Awaitable[Prepared]]
"""Checks the secrets of a request against the config, and returns what to store."""


class JobService(JobReads):
    """Serves the v1alpha JobService. Failures are gRPC statuses.

    A method that changes a job takes the entity version that the caller has seen last: InvalidArgument where
    it is left out, Conflict where it is stale.
    """

    def __init__(
        self,
        engine: Engine,
        workflows: Workflows,
        clock: Clock,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        rules: SpecRules = PLAIN_SPECS,
    ) -> None:
        self._trials = rules.trials
        super().__init__(engine, workflows, clock)
        self._new_id = new_id
        self._classes = rules.classes
        self._secrets = SecretChecks(engine.store.secrets, rules.secrets, tokens=rules.tokens)
        self._warnings = SpecWarnings(engine, rules.images)

    async def CreateJob(self, request: pb.CreateJobRequest, context: Any) -> pb.CreateJobResponse:
        """Create a service. Raises InvalidArgument for an invalid spec, AlreadyExists for an id in use."""
        note_caller(context)
        job_id = request.job_id.value or self._new_id()
        if not is_uuid(job_id):
            raise InvalidArgument("job_id", job_id, "a UUID of 36 characters")
        given = given_v1alpha(request.secrets)
        spec, secrets = await self._valid(
            request.spec, 1, self._clock.wall(), lambda config: self._secrets.prepare(job_id, given, config)
        )
        options = create_options(request.create_spec)
        begun = await self._workflows.create_job(
            job_id, spec, options, request.opaque_data.data, secrets.contents
        )
        answer = pb.CreateJobResponse(version=version_to(begun.version))
        answer.job_id.value = job_id
        answer.warnings.extend(await self._warnings.v1alpha(spec))
        return answer

    async def plan_spec(self, given: stateless_pb2.JobSpec) -> JobSpec:
        """Return the spec that CreateJob would store, for a plan. Raises InvalidArgument."""
        job_id = self._new_id()
        spec, _ = await self._valid(
            given, 1, self._clock.wall(), lambda config: self._secrets.prepare(job_id, (), config)
        )
        return spec

    async def ReplaceJob(self, request: pb.ReplaceJobRequest, context: Any) -> pb.ReplaceJobResponse:
        """Start an update to a new spec."""
        job, expected = await self._service(request.job_id, request.version)
        options = update_options(request.update_spec)
        version, spec = await self._replace(job, expected, request, request.spec, options, context)
        return pb.ReplaceJobResponse(version=version, warnings=await self._warnings.v1alpha(spec))

    async def PatchJob(self, request: pb.PatchJobRequest, context: Any) -> pb.PatchJobResponse:
        """Start an update to the present spec with the fields that are given laid over it."""
        job, expected = await self._service(request.job_id, request.version)
        base = job.spec
        if expected.config != base.version:
            if not repeats.repeated(context):
                raise StaleVersion
            base = await job.version(expected.config)
        spec = patched(v1alpha_spec(base.payload), request.spec)
        options = update_options(request.update_spec)
        version, new = await self._replace(job, expected, request, spec, options, context)
        return pb.PatchJobResponse(version=version, warnings=await self._warnings.v1alpha(new))

    async def _replace(
        self,
        job: JobView,
        expected: EntityVersion,
        request: pb.ReplaceJobRequest | pb.PatchJobRequest,
        new: stateless_pb2.JobSpec,
        options: WorkflowOptions,
        context: Any,
    ) -> tuple[peloton_pb2.EntityVersion, JobSpec]:
        given, held = given_v1alpha(request.secrets), job.spec.payload.secrets
        if isinstance(request, pb.ReplaceJobRequest) and request.drop_other_secrets:
            held = named_again(held, given)
        spec, secrets = await self._next(
            job, new, lambda config: self._secrets.prepare(job.job_id, given, config, held)
        )
        opaque = request.opaque_data.data
        try:
            begun = await self._workflows.replace(
                job.job_id, spec, options, opaque, expected, secrets.contents
            )
        except Conflict:
            wanted = (WorkflowType.UPDATE, options, ())
            own = repeats.repeated(context) and await repeats.begun(
                self._workflows, job, expected, wanted, opaque, spec
            )
            if not own:
                raise
            return version_to(own), spec
        return version_to(begun.version), spec

    async def moved(self, job: JobView, wanted: Constraint | None) -> JobSpec:
        """Return the next version of a service's spec, with what it asks of clusters replaced."""

        async def kept(config: job_pb2.JobConfig) -> Prepared:
            return self._secrets.kept(job.spec.payload.secrets, config)

        spec, _ = await self._next(job, moved_spec(v1alpha_spec(job.spec.payload), wanted), kept)
        return spec

    async def GetReplaceJobDiff(
        self, request: pb.GetReplaceJobDiffRequest, context: Any
    ) -> pb.GetReplaceJobDiffResponse:
        """Return what ReplaceJob would do to each instance, in closed ranges."""
        job, expected = await self._service(request.job_id, request.version)

        async def kept(config: job_pb2.JobConfig) -> Prepared:
            return self._secrets.kept(job.spec.payload.secrets, config)

        spec, _ = await self._next(job, request.spec, kept)
        diff = await self._workflows.diff(job.job_id, spec, expected)
        return pb.GetReplaceJobDiffResponse(
            instances_added=closed(diff.added),
            instances_removed=closed(diff.removed),
            instances_updated=closed(diff.updated),
            instances_unchanged=closed(diff.unchanged),
            changes=[
                pb.InstanceChanges(
                    instances=closed(each.instances),
                    fields=[
                        pb.FieldChange(
                            field=field.field,
                            key=field.key,
                            before=field.before,
                            after=field.after,
                            text=str(field),
                        )
                        for field in each.fields
                    ],
                )
                for each in diff.changes
            ],
        )

    async def RestartJob(self, request: pb.RestartJobRequest, context: Any) -> pb.RestartJobResponse:
        """Start a restart of all instances, or of those in half-open ranges."""
        job, expected = await self._service(request.job_id, request.version)
        wanted = request.restart_spec
        instances = chosen(wanted.ranges, job.size)
        if instances == []:
            raise InvalidArgument("restart_spec.ranges", "ranges without instances", "ranges that hold some")
        ranges, options = ranges_of(instances or ()), restart_options(wanted)
        opaque = request.opaque_data.data
        try:
            begun = await self._workflows.restart(job.job_id, ranges, options, opaque, expected)
        except Conflict:
            kind = (WorkflowType.RESTART, options, ranges)
            own = repeats.repeated(context) and await repeats.begun(
                self._workflows, job, expected, kind, opaque
            )
            if not own:
                raise
            return pb.RestartJobResponse(version=version_to(own))
        return pb.RestartJobResponse(version=version_to(begun.version))

    async def PauseJobWorkflow(
        self, request: pb.PauseJobWorkflowRequest, context: Any
    ) -> pb.PauseJobWorkflowResponse:
        """Pause the workflow that runs."""
        job, expected = await self._service(request.job_id, request.version)
        version = await self._steer("pause", job, expected, request, context)
        return pb.PauseJobWorkflowResponse(version=version_to(version))

    async def ResumeJobWorkflow(
        self, request: pb.ResumeJobWorkflowRequest, context: Any
    ) -> pb.ResumeJobWorkflowResponse:
        """Resume the workflow that is paused."""
        job, expected = await self._service(request.job_id, request.version)
        version = await self._steer("resume", job, expected, request, context)
        return pb.ResumeJobWorkflowResponse(version=version_to(version))

    async def AbortJobWorkflow(
        self, request: pb.AbortJobWorkflowRequest, context: Any
    ) -> pb.AbortJobWorkflowResponse:
        """End the workflow that runs; instances stay as they are."""
        job, expected = await self._service(request.job_id, request.version)
        version = await self._steer("abort", job, expected, request, context)
        return pb.AbortJobWorkflowResponse(version=version_to(version))

    async def _steer(
        self,
        what: Literal["pause", "resume", "abort"],
        job: JobView,
        expected: EntityVersion,
        request: pb.PauseJobWorkflowRequest | pb.ResumeJobWorkflowRequest | pb.AbortJobWorkflowRequest,
        context: Any,
    ) -> EntityVersion:
        opaque = request.opaque_data.data
        try:
            if what == "pause":
                return await self._workflows.pause(job.job_id, opaque, expected)
            if what == "resume":
                return await self._workflows.resume(job.job_id, opaque, expected)
            return await self._workflows.abort(job.job_id, opaque, expected)
        except Conflict:
            own = repeats.repeated(context) and await repeats.steered(
                self._workflows, job, expected, what, opaque
            )
            if not own:
                raise
            return own

    async def StartJob(self, request: pb.StartJobRequest, context: Any) -> pb.StartJobResponse:
        """Make the goal RUNNING, and start all stopped instances."""
        job, expected = await self._service(request.job_id, request.version)
        try:
            version = await self._workflows.start_job(job.job_id, expected)
        except Conflict:
            own = repeats.repeated(context) and repeats.aimed(job, expected, JobState.RUNNING)
            if not own:
                raise
            version = own
        return pb.StartJobResponse(version=version_to(version))

    async def StopJob(self, request: pb.StopJobRequest, context: Any) -> pb.StopJobResponse:
        """Make the goal of a service or a batch job KILLED."""
        job = await view(self._engine, request.job_id.value)
        expected = EntityVersion.parse(request.version.value)
        if job.spec.type is JobType.BATCH:
            entity_version(job.runtime).check(expected)
            await self._engine.stop(job.job_id, None)
            job = await view(self._engine, job.job_id)
            return pb.StopJobResponse(version=version_to(entity_version(job.runtime)))
        try:
            version = await self._workflows.stop_job(job.job_id, expected)
        except Conflict:
            own = repeats.repeated(context) and repeats.aimed(job, expected, JobState.KILLED)
            if not own:
                raise
            version = own
        return pb.StopJobResponse(version=version_to(version))

    async def DeleteJob(self, request: pb.DeleteJobRequest, context: Any) -> pb.DeleteJobResponse:
        """Delete a job that is KILLED; with `force` any service. Raises Conflict for one that is not."""
        try:
            job = await view(self._engine, request.job_id.value)
        except NotFound:
            if repeats.repeated(context) and is_uuid(request.job_id.value):
                return pb.DeleteJobResponse()  # by the earlier try
            raise
        expected = EntityVersion.parse(request.version.value)
        if job.spec.type is not JobType.BATCH:
            try:
                await self._workflows.delete_job(job.job_id, expected, request.force)
            except Conflict:
                if not repeats.repeated(context) or not repeats.aimed(job, expected, JobState.DELETED):
                    raise
            return pb.DeleteJobResponse()
        entity_version(job.runtime).check(expected)
        try:
            await self._engine.delete(job.job_id)
        except Refused as error:
            raise Conflict(str(error)) from None
        return pb.DeleteJobResponse()

    async def _service(
        self, job_id: peloton_pb2.JobID, version: peloton_pb2.EntityVersion
    ) -> tuple[JobView, EntityVersion]:
        """Return a job that workflows may change, and the version that the caller has seen."""
        job = await view(self._engine, job_id.value)
        if job.spec.type is JobType.BATCH:
            raise InvalidArgument("job_id", job_id.value, "the id of a service: it is a batch job")
        return job, EntityVersion.parse(version.value)

    async def _next(
        self, job: JobView, given: stateless_pb2.JobSpec, prepare: Prepare
    ) -> tuple[JobSpec, Prepared]:
        """Return the spec that follows the job's. Raises InvalidArgument."""
        spec = stateless_pb2.JobSpec()
        spec.CopyFrom(given)
        if not spec.respool_id.value:
            spec.respool_id.value = job.spec.pool_id
        if spec.respool_id.value != job.spec.pool_id:
            expected = f"{job.spec.pool_id!r}: a job stays in its pool"
            raise InvalidArgument("respool_id", spec.respool_id.value, expected)
        return await self._valid(
            spec, job.spec.version + 1, job.runtime.creation_time, prepare, job.spec.type, job.spec.sla
        )

    async def _valid(
        self,
        given: stateless_pb2.JobSpec,
        version: int,
        created_at: int,
        prepare: Prepare,
        type_: JobType = JobType.SERVICE,
        old: Sla | None = None,
    ) -> tuple[JobSpec, Prepared]:
        """Return the model's form of a spec, and its secrets. Raises InvalidArgument with the path.

        A spec has no type: that of a daemon job is kept as a config of the v0 API, which has.
        """
        given = with_priority(given, self._classes, old)
        size, kind = size_of(given), job_pb2.JobType.ValueType(type_)
        config = await run_by_size(size, check_spec, given, kind)
        try:
            check_no_secret_volumes(config)
            secrets = await prepare(config)
            check_pool(config.respoolID.value, await self._engine.store.pools.all())
        except InvalidArgument as error:
            raise v1alpha_error(_secret_error(error)) from None
        try:
            await self._trials.check(config)
        except InvalidArgument as error:  # the words of the cluster stay as they are
            raise InvalidArgument(v1alpha_path(error.field), error.value, error.expected) from None
        if type_ is not JobType.SERVICE:
            config.changeLog.CopyFrom(
                v0_peloton.ChangeLog(
                    version=version,
                    createdAt=created_at,
                    updatedAt=self._clock.wall(),
                    updatedBy=current().name,
                )
            )
            payload = config_payload(config, secrets.refs)
            return await run_by_size(size, job_spec, config, version, payload), secrets
        spec = stateless_pb2.JobSpec()
        spec.CopyFrom(given)
        spec.revision.CopyFrom(
            peloton_pb2.Revision(
                version=version,
                created_at=created_at,
                updated_at=self._clock.wall(),
                updated_by=current().name,
            )
        )
        return await run_by_size(size, spec_from_v1alpha, spec, version, secrets.refs), secrets


def _secret_error(error: InvalidArgument) -> InvalidArgument:
    """Name the id of a secret as this API does."""
    if not error.field.startswith("secrets["):
        return error
    return InvalidArgument(error.field.replace("].id", "].secret_id"), error.value, error.expected)
