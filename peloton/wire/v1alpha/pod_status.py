"""Translate runtimes and events of tasks from the model into messages about pods."""

from __future__ import annotations

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.clock import rfc3339
from peloton.model.ids import JobId, mesos_task_id, task_id
from peloton.model.states import HealthState
from peloton.model.task import PodEvent, TaskRuntime, Termination
from peloton.wire.v1alpha.states import CONTAINER_STATES, POD_STATES, config_entity_version, pod_state_name


def pod_name(job_id: JobId, instance: int) -> peloton_pb2.PodName:
    """Return the message of a pod's name."""
    return peloton_pb2.PodName(value=task_id(job_id, instance))


def pod_id(job_id: JobId, instance: int, run: int) -> peloton_pb2.PodID | None:
    """Return the message of a run's id; None for run 0, which stands for none."""
    return peloton_pb2.PodID(value=mesos_task_id(job_id, instance, run)) if run else None


def pod_status(
    job_id: JobId, instance: int, runtime: TaskRuntime, container: pod_pb2.ContainerSpec
) -> pod_pb2.PodStatus:
    """Encode the runtime of a pod. `container` is the spec of its container."""
    status = pod_pb2.PodStatus(
        state=POD_STATES[runtime.state],
        pod_id=pod_id(job_id, instance, runtime.run),
        start_time=rfc3339(runtime.start_time),
        completion_time=rfc3339(runtime.completion_time),
        host=runtime.host,
        containers_status=[_container_status(runtime, container)],
        desired_state=POD_STATES[runtime.goal],
        message=runtime.message,
        reason=runtime.reason,
        failure_count=runtime.failure_count,
        version=config_entity_version(runtime.config_version),
        desired_version=config_entity_version(runtime.desired_config_version),
        revision=peloton_pb2.Revision(
            version=runtime.revision, created_at=runtime.created_at, updated_at=runtime.updated_at
        ),
        prev_pod_id=pod_id(job_id, instance, runtime.previous_run),
        resource_usage=runtime.resource_usage,
        desired_pod_id=pod_id(job_id, instance, runtime.desired_run),
        desiredHost=runtime.desired_host,
        host_id=runtime.agent_id,
    )
    if runtime.agent_id:
        status.agent_id.value = runtime.agent_id
    if runtime.volume_id:
        status.volume_id.value = runtime.volume_id
    return status


def _container_status(runtime: TaskRuntime, container: pod_pb2.ContainerSpec) -> pod_pb2.ContainerStatus:
    status = pod_pb2.ContainerStatus(
        name=container.name,
        state=CONTAINER_STATES[runtime.state],
        ports=runtime.ports,
        message=runtime.message,
        reason=runtime.reason,
        failure_count=runtime.failure_count,
        healthy=pod_pb2.HealthStatus(state=pod_pb2.HealthState.ValueType(runtime.health)),
        image=container.image,
        start_time=rfc3339(runtime.start_time),
        completion_time=rfc3339(runtime.completion_time),
    )
    if runtime.termination is not None:
        status.terminationStatus.CopyFrom(_termination(runtime.termination, runtime.killed_for))
    return status


def _termination(end: Termination, killed_for: str) -> pod_pb2.TerminationStatus:
    return pod_pb2.TerminationStatus(
        reason=pod_pb2.TerminationStatus.Reason.ValueType(end.reason),
        exit_code=end.exit_code,
        signal=end.signal,
        by=end.by,
        killed_for=killed_for,
    )


def pod_event(event: PodEvent) -> pod_pb2.PodEvent:
    """Encode an event of a pod's history."""
    return pod_pb2.PodEvent(
        pod_id=pod_id(event.job_id, event.instance, event.run),
        actual_state=pod_state_name(event.state),
        desired_state=pod_state_name(event.goal),
        timestamp=rfc3339(event.timestamp),
        version=config_entity_version(event.config_version),
        desired_version=config_entity_version(event.desired_config_version),
        agent_id=event.agent_id,
        hostname=event.hostname,
        message=event.message,
        reason=event.reason,
        prev_pod_id=pod_id(event.job_id, event.instance, event.previous_run),
        healthy=health_name(event.health),
        desired_pod_id=pod_id(event.job_id, event.instance, event.desired_run),
    )


def health_name(health: HealthState) -> str:
    """Return the name of a health state."""
    return pod_pb2.HealthState.Name(pod_pb2.HealthState.ValueType(health))
