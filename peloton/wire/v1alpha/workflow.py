"""Translate workflows between the v1alpha wire and the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.clock import rfc3339
from peloton.model.workflow import (
    Range,
    WorkflowEvent,
    WorkflowOptions,
    WorkflowState,
    WorkflowStatus,
    WorkflowType,
)
from peloton.wire.v1alpha.states import config_entity_version

_TYPES = {
    WorkflowType.UPDATE: stateless_pb2.WORKFLOW_TYPE_UPDATE,
    WorkflowType.RESTART: stateless_pb2.WORKFLOW_TYPE_RESTART,
}
"""The v0 types START and STOP have no name in this API."""


def create_options(spec: stateless_pb2.CreateSpec) -> WorkflowOptions:
    """Decode how the first instances are added."""
    return WorkflowOptions(
        batch_size=spec.batch_size,
        max_instance_attempts=spec.max_instance_retries,
        max_failure_instances=spec.max_tolerable_instance_failures,
        start_paused=spec.start_paused,
    )


def update_options(spec: stateless_pb2.UpdateSpec) -> WorkflowOptions:
    """Decode how an update proceeds."""
    return WorkflowOptions(
        batch_size=spec.batch_size,
        rollback_on_failure=spec.rollback_on_failure,
        max_instance_attempts=spec.max_instance_retries,
        max_failure_instances=spec.max_tolerable_instance_failures,
        start_paused=spec.start_paused,
        in_place=spec.in_place,
        start_tasks=spec.start_pods,
    )


def create_spec(options: WorkflowOptions) -> stateless_pb2.CreateSpec:
    """Encode how the first instances are added."""
    return stateless_pb2.CreateSpec(
        batch_size=options.batch_size,
        max_instance_retries=options.max_instance_attempts,
        max_tolerable_instance_failures=options.max_failure_instances,
        start_paused=options.start_paused,
    )


def update_spec(options: WorkflowOptions) -> stateless_pb2.UpdateSpec:
    """Encode how an update proceeds."""
    return stateless_pb2.UpdateSpec(
        batch_size=options.batch_size,
        rollback_on_failure=options.rollback_on_failure,
        max_instance_retries=options.max_instance_attempts,
        max_tolerable_instance_failures=options.max_failure_instances,
        start_paused=options.start_paused,
        in_place=options.in_place,
        start_pods=options.start_tasks,
    )


def restart_spec(options: WorkflowOptions, ranges: Iterable[Range] = ()) -> stateless_pb2.RestartSpec:
    """Encode how a restart proceeds."""
    return stateless_pb2.RestartSpec(
        batch_size=options.batch_size, ranges=half_open(ranges), in_place=options.in_place
    )


def restart_options(spec: stateless_pb2.RestartSpec) -> WorkflowOptions:
    """Decode how a restart proceeds; its ranges stand apart."""
    return WorkflowOptions(batch_size=spec.batch_size, in_place=spec.in_place)


def workflow_status(status: WorkflowStatus) -> stateless_pb2.WorkflowStatus:
    """Encode how far a workflow is."""
    workflow = status.workflow
    return stateless_pb2.WorkflowStatus(
        type=_type(workflow.type),
        state=_state(workflow.state),
        num_instances_completed=workflow.done,
        num_instances_remaining=workflow.remaining,
        num_instances_failed=workflow.failed,
        instances_current=status.current,
        version=config_entity_version(workflow.config_version),
        prev_version=config_entity_version(workflow.previous_version),
        creation_time=rfc3339(workflow.created_at),
        update_time=rfc3339(workflow.updated_at),
        prev_state=_state(workflow.previous_state),
        completion_time=rfc3339(workflow.completed_at),
    )


def workflow_info(
    status: WorkflowStatus,
    events: Sequence[WorkflowEvent] = (),
    by_instance: Mapping[int, Sequence[WorkflowEvent]] | None = None,
) -> stateless_pb2.WorkflowInfo:
    """Encode a workflow with its events, and those of single instances where given."""
    workflow = status.workflow
    info = stateless_pb2.WorkflowInfo(
        status=workflow_status(status),
        events=map(workflow_event, events),
        instances_added=half_open(workflow.added),
        instances_removed=half_open(workflow.removed),
        instances_updated=half_open(workflow.updated),
    )
    if workflow.opaque_data:
        info.opaque_data.CopyFrom(peloton_pb2.OpaqueData(data=workflow.opaque_data))
    options = workflow.options
    if workflow.type is WorkflowType.UPDATE:
        info.update_spec.CopyFrom(update_spec(options))
    elif workflow.type is WorkflowType.RESTART:
        info.restart_spec.CopyFrom(restart_spec(options, workflow.ranges))
    for instance, its in sorted((by_instance or {}).items()):
        info.instance_events.add(instance_id=instance, events=map(workflow_event, its))
    return info


def workflow_event(event: WorkflowEvent) -> stateless_pb2.WorkflowEvent:
    """Encode an event of a workflow."""
    return stateless_pb2.WorkflowEvent(
        type=_type(event.type), timestamp=rfc3339(event.timestamp), state=_state(event.state)
    )


def half_open(ranges: Iterable[Range]) -> list[pod_pb2.InstanceIDRange]:
    """Encode ranges as they are in requests and in workflows: `to` is not in them."""
    return [_range(first, end) for first, end in ranges]


def closed(ranges: Iterable[Range]) -> list[pod_pb2.InstanceIDRange]:
    """Encode ranges as they are in the answer of GetReplaceJobDiff: `to` is the last instance."""
    return [_range(first, end - 1) for first, end in ranges]


def _range(first: int, to: int) -> pod_pb2.InstanceIDRange:
    return pod_pb2.InstanceIDRange(**{"from": first, "to": to})


def _type(kind: WorkflowType) -> stateless_pb2.WorkflowType.ValueType:
    return _TYPES.get(kind, stateless_pb2.WORKFLOW_TYPE_INVALID)


def _state(state: WorkflowState) -> stateless_pb2.WorkflowState.ValueType:
    """Encode a state; the numbers are those of the model."""
    return stateless_pb2.WorkflowState.ValueType(state)
