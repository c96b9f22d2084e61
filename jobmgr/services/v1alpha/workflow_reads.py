"""The methods of JobService that tell of workflows (docs/behaviour/workflows.md)."""

from __future__ import annotations

from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.job_info import last_workflow
from jobmgr.services.common.view import JobView, view
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.errors import NotFound
from peloton.model.workflow import WorkflowStatus
from peloton.rpc.pages import Room, taken_by
from peloton.wire.v1alpha.workflow import workflow_event, workflow_info

DEFAULT_WORKFLOWS = 10


class WorkflowReads(stateless_svc_pb2_grpc.JobServiceServicer):
    """Answers what the workflows of a job have done. Raises NotFound for unknown jobs."""

    def __init__(self, engine: Engine, workflows: Workflows) -> None:
        self._engine = engine
        self._workflows = workflows

    async def ListJobWorkflows(
        self, request: pb.ListJobWorkflowsRequest, context: Any
    ) -> pb.ListJobWorkflowsResponse:
        """Return the last workflows of a job, newest first; with what they did to each instance if asked."""
        job = await view(self._engine, request.job_id.value)
        answer, room = pb.ListJobWorkflowsResponse(), Room(taken_by(context))
        for status in await self._workflows.list(job.job_id, request.updates_limit or DEFAULT_WORKFLOWS):
            workflow_id = status.workflow.id
            by_instance = None
            if request.instance_events:
                by_instance = await self._workflows.all_events(workflow_id, request.instance_events_limit)
            events = await self._workflows.events(workflow_id)
            if not room.fill(answer.workflow_infos, [workflow_info(status, events, by_instance)]):
                break
        return answer

    async def GetWorkflowEvents(
        self, request: pb.GetWorkflowEventsRequest, context: Any
    ) -> pb.GetWorkflowEventsResponse:
        """Return what the last workflow did to an instance, newest first.

        Raises NotFound for an instance that the job does not have and its workflow has not removed.
        """
        job = await view(self._engine, request.job_id.value)
        answer = pb.GetWorkflowEventsResponse()
        status = await self._last_workflow(job)
        if status is not None:
            found = await self._workflows.events(status.workflow.id, request.instance_id, request.limit)
            Room(taken_by(context)).fill(answer.events, map(workflow_event, found))
        if not answer.events and request.instance_id >= job.size:
            raise NotFound(f"no instance {request.instance_id}: the job has {job.size}")
        return answer

    async def _last_workflow(self, job: JobView) -> WorkflowStatus | None:
        """Return the workflow that runs, or ran last; None where there is none, as in batch jobs."""
        return await last_workflow(self._workflows, job)

    async def _workflow_info(self, status: WorkflowStatus | None) -> stateless_pb2.WorkflowInfo | None:
        """Return a workflow with the changes of its state."""
        if status is None:
            return None
        return workflow_info(status, await self._workflows.events(status.workflow.id))
