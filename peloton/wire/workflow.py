"""Translate workflows between the v0 wire and the model."""

from __future__ import annotations

import math

from peloton.api.v0.update import update_pb2
from peloton.api.v0.update.svc import update_svc_pb2
from peloton.errors import InvalidArgument
from peloton.model.workflow import Workflow, WorkflowOptions, WorkflowStatus, instances_in


def options_from(wire: update_pb2.UpdateConfig, path: str = "updateConfig") -> WorkflowOptions:
    """Decode how an update proceeds. Raises InvalidArgument for a percentage that is not from 0 to 100."""
    percentage = wire.batchPercentage
    if math.isnan(percentage) or not 0 <= percentage <= 100:
        raise InvalidArgument(f"{path}.batchPercentage", percentage, "a percentage from 0 to 100")
    return WorkflowOptions(
        batch_size=wire.batchSize,
        batch_percentage=percentage,
        rollback_on_failure=wire.rollbackOnFailure,
        max_instance_attempts=wire.maxInstanceAttempts,
        max_failure_instances=wire.maxFailureInstances,
        start_paused=wire.startPaused,
        in_place=wire.inPlace,
        start_tasks=wire.startTasks,
        stop_before_update=wire.stopBeforeUpdate,
    )


def options_to(options: WorkflowOptions) -> update_pb2.UpdateConfig:
    """Encode how an update proceeds."""
    return update_pb2.UpdateConfig(
        batchSize=options.batch_size,
        batchPercentage=options.batch_percentage,
        stopBeforeUpdate=options.stop_before_update,
        startPaused=options.start_paused,
        rollbackOnFailure=options.rollback_on_failure,
        maxInstanceAttempts=options.max_instance_attempts,
        maxFailureInstances=options.max_failure_instances,
        inPlace=options.in_place,
        startTasks=options.start_tasks,
    )


def update_info(workflow: Workflow, status_only: bool = False) -> update_pb2.UpdateInfo:
    """Encode a workflow. With `status_only` how it proceeds is left out."""
    wire = update_pb2.UpdateInfo(
        status=update_pb2.UpdateStatus(
            numTasksDone=workflow.done,
            numTasksRemaining=workflow.remaining,
            numTasksFailed=workflow.failed,
            state=update_pb2.State.ValueType(workflow.state),
        ),
        configVersion=workflow.config_version,
        prevConfigVersion=workflow.previous_version,
    )
    wire.updateId.value = workflow.id
    wire.jobId.value = workflow.job_id
    if workflow.opaque_data:
        wire.opaque_data.data = workflow.opaque_data
    if not status_only:
        wire.config.CopyFrom(options_to(workflow.options))
    return wire


def update_cache(status: WorkflowStatus) -> update_svc_pb2.GetUpdateCacheResponse:
    """Encode a workflow with the instances that it concerns."""
    workflow = status.workflow
    total = sorted({*workflow.added, *workflow.updated, *workflow.removed})
    wire = update_svc_pb2.GetUpdateCacheResponse(
        state=update_pb2.State.ValueType(workflow.state),
        instancesTotal=instances_in(total),
        instancesDone=status.done,
        instancesCurrent=status.current,
        instancesAdded=instances_in(workflow.added),
        instancesUpdated=instances_in(workflow.updated),
        instancesFailed=status.failed,
    )
    wire.jobId.value = workflow.job_id
    return wire
