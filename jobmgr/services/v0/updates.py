"""v0 UpdateService: updates of services, instance by instance (docs/behaviour/workflows.md)."""

from __future__ import annotations

from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.priorities import with_priority
from jobmgr.services.common.secrets import SecretChecks, check_no_secret_volumes
from jobmgr.services.common.spec_rules import PLAIN_SPECS, SpecRules
from jobmgr.services.common.view import JobView, view
from peloton.api.v0.job import job_pb2
from peloton.api.v0.update.svc import update_svc_pb2 as pb
from peloton.api.v0.update.svc import update_svc_pb2_grpc
from peloton.clock import Clock
from peloton.errors import InvalidArgument, NotFound, StaleVersion
from peloton.identity.principal import current
from peloton.model.constraint import Constraint
from peloton.model.ids import is_uuid
from peloton.model.job import JobSpec
from peloton.model.states import JobType
from peloton.model.workflow import Workflow, WorkflowStatus
from peloton.offload import run_by_size
from peloton.required_fields import size_of
from peloton.rpc.pages import Room, taken_by
from peloton.wire.job import config_payload, job_spec
from peloton.wire.moves import moved_config
from peloton.wire.validation.job import validated
from peloton.wire.workflow import options_from, update_cache, update_info

DEFAULT_LIMIT = 10
MAX_LIMIT = 1000
UPDATE_NOT_FOUND = "update not found"


class UpdateService(update_svc_pb2_grpc.UpdateServiceServicer):
    """Serves updates. Failures are gRPC statuses: the answers have no error field."""

    def __init__(
        self,
        engine: Engine,
        workflows: Workflows,
        clock: Clock,
        rules: SpecRules = PLAIN_SPECS,
    ) -> None:
        self._classes = rules.classes
        self._engine = engine
        self._workflows = workflows
        self._clock = clock
        self._secrets = SecretChecks(engine.store.secrets, enabled=False, tokens=rules.tokens)

    async def CreateUpdate(self, request: pb.CreateUpdateRequest, context: Any) -> pb.CreateUpdateResponse:
        """Start an update of a service to a new config.

        Raises NotFound, InvalidArgument for an invalid config or another workflow in the way, and
        StaleVersion for the version in the config's change log.
        """
        job = await view(self._engine, request.jobId.value)
        if job.spec.type is JobType.BATCH:
            raise InvalidArgument("jobId", job.job_id, "a service: only services are updated with this call")
        options = options_from(request.updateConfig)
        seen = request.jobConfig.changeLog.version
        if seen and seen != job.runtime.config_version:
            current = job.runtime.config_version
            raise StaleVersion(f"changeLog.version {seen} is stale: the job is at {current}")
        spec = await self._spec(job.spec, job.config, request.jobConfig)
        begun = await self._workflows.replace(job.job_id, spec, options, request.opaque_data.data)
        answer = pb.CreateUpdateResponse()
        answer.updateID.value = begun.workflow_id
        return answer

    async def moved(self, job: JobView, wanted: Constraint | None) -> JobSpec:
        """Return the next version of a service's spec, with what it asks of clusters replaced."""
        return await self._spec(job.spec, job.config, moved_config(job.config, wanted))

    async def _spec(self, old: JobSpec, config: job_pb2.JobConfig, new: job_pb2.JobConfig) -> JobSpec:
        """Return the checked spec. What the request leaves out of respoolID is as it was."""
        whole = job_pb2.JobConfig()
        whole.CopyFrom(new)
        if not whole.respoolID.value:
            whole.respoolID.CopyFrom(config.respoolID)
        given, size = with_priority(whole, self._classes, old.sla), size_of(whole)
        whole = await run_by_size(size, validated, given)
        check_no_secret_volumes(whole)
        secrets = self._secrets.kept(old.payload.secrets, whole)
        whole.changeLog.createdAt = config.changeLog.createdAt
        whole.changeLog.updatedAt = self._clock.wall()
        whole.changeLog.updatedBy = current().name
        whole.changeLog.version = old.version + 1
        payload = config_payload(whole, secrets.refs)
        return await run_by_size(size, job_spec, whole, old.version + 1, payload)

    async def GetUpdate(self, request: pb.GetUpdateRequest, context: Any) -> pb.GetUpdateResponse:
        """Return an update. Raises NotFound."""
        found = await self._find(request.updateId.value)
        return pb.GetUpdateResponse(updateInfo=update_info(found.workflow, request.statusOnly))

    async def ListUpdates(self, request: pb.ListUpdatesRequest, context: Any) -> pb.ListUpdatesResponse:
        """Return the last updates of a job, newest first. Raises NotFound."""
        job = await view(self._engine, request.jobID.value)
        if request.limit < 0:
            raise InvalidArgument("limit", request.limit, "a number from 0, which stands for 10")
        limit = min(request.limit or DEFAULT_LIMIT, MAX_LIMIT)
        found = await self._workflows.list(job.job_id, limit)
        answer = pb.ListUpdatesResponse()
        Room(taken_by(context)).fill(answer.updateInfo, (update_info(each.workflow) for each in found))
        return answer

    async def PauseUpdate(self, request: pb.PauseUpdateRequest, context: Any) -> pb.PauseUpdateResponse:
        """Halt an update after what is in flight. Raises NotFound, and InvalidArgument for one that ended."""
        found = await self._workflow(request.updateId.value)
        await self._workflows.pause(found.job_id, request.opaque_data.data, workflow_id=found.id)
        return pb.PauseUpdateResponse()

    async def ResumeUpdate(self, request: pb.ResumeUpdateRequest, context: Any) -> pb.ResumeUpdateResponse:
        """Let a paused update go on. Raises as PauseUpdate."""
        found = await self._workflow(request.updateId.value)
        await self._workflows.resume(found.job_id, request.opaque_data.data, workflow_id=found.id)
        return pb.ResumeUpdateResponse()

    async def RollbackUpdate(
        self, request: pb.RollbackUpdateRequest, context: Any
    ) -> pb.RollbackUpdateResponse:
        """Bring the instances back to the config before. Raises as PauseUpdate."""
        found = await self._workflow(request.updateId.value)
        await self._workflows.roll_back(found.job_id, workflow_id=found.id)
        return pb.RollbackUpdateResponse()

    async def AbortUpdate(self, request: pb.AbortUpdateRequest, context: Any) -> pb.AbortUpdateResponse:
        """End an update; instances stay as they are. Raises as PauseUpdate."""
        found = await self._workflow(request.updateId.value)
        await self._workflows.abort(
            found.job_id, request.opaque_data.data, soft=request.softAbort, workflow_id=found.id
        )
        return pb.AbortUpdateResponse()

    async def GetUpdateCache(
        self, request: pb.GetUpdateCacheRequest, context: Any
    ) -> pb.GetUpdateCacheResponse:
        """Return an update as it is in memory. Raises NotFound, also for one that is not the job's last."""
        found = await self._find(request.updateId.value)
        job = self._engine.job(found.workflow.job_id)
        if job is None or job.workflow is None or job.workflow.id != found.workflow.id:
            raise NotFound(f"{UPDATE_NOT_FOUND} in memory: only the last workflow of a service is held there")
        return update_cache(found)

    async def _find(self, update_id: str) -> WorkflowStatus:
        if not is_uuid(update_id):
            raise NotFound(UPDATE_NOT_FOUND)
        try:
            return await self._workflows.find(update_id)
        except NotFound:
            raise NotFound(UPDATE_NOT_FOUND) from None

    async def _workflow(self, update_id: str) -> Workflow:
        return (await self._find(update_id)).workflow
