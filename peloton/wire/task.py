"""Translate task configs, runtimes and events between the v0 wire and the model."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import rfc3339
from peloton.model.ids import JobId, mesos_task_id
from peloton.model.payload import SecretRef
from peloton.model.resources import MAX_AMOUNT, Resources, checked_milli
from peloton.model.task import PodEvent, PortSpec, TaskRuntime, TaskSpec
from peloton.model.volume import VolumeSpec
from peloton.wire.constraint import constraint_from, labels_from
from peloton.wire.meaning import fingerprint
from peloton.wire.pod_ref import foreign_pod
from peloton.wire.retry import retry_rules
from peloton.wire.workload import task_workload

_PREEMPTIBLE = {
    task_pb2.PreemptionPolicy.TYPE_PREEMPTIBLE: True,
    task_pb2.PreemptionPolicy.TYPE_NON_PREEMPTIBLE: False,
}


AMOUNTS = ("cpuLimit", "memLimitMb", "diskLimitMb", "gpuLimit")
"""Fields of a ResourceConfig, in the order of `Resources`."""


def resources_from(
    wire: task_pb2.ResourceConfig, path: str = "resource", most: float = MAX_AMOUNT
) -> Resources:
    """Decode resources.

    Raises InvalidArgument, with the path of the field, for an amount that is not from 0 to `most`.
    """
    return Resources(*(checked_milli(f"{path}.{name}", getattr(wire, name), most) for name in AMOUNTS))


def resources_to(amount: Resources) -> task_pb2.ResourceConfig:
    """Encode resources."""
    cpu, memory, disk, gpu = (value / 1000 for value in amount.values())
    return task_pb2.ResourceConfig(cpuLimit=cpu, memLimitMb=memory, diskLimitMb=disk, gpuLimit=gpu)


def task_spec(
    config: task_pb2.TaskConfig,
    path: str = "config",
    secrets: tuple[SecretRef, ...] = (),
    compared: bool = True,
) -> TaskSpec:
    """Decode the parts of a merged config that decisions need. `secrets` are the secret files of the job.

    `compared`: whether other versions of the config may follow, with which it is compared.

    Raises InvalidArgument with the path of the field for an incomplete constraint. jobmgr makes all other
    checks.
    """
    return TaskSpec(
        resources=resources_from(config.resource, f"{path}.resource"),
        ports=tuple(PortSpec(port.name, port.value, port.envName) for port in config.ports),
        constraint=(
            constraint_from(config.constraint, f"{path}.constraint")
            if config.HasField("constraint")
            else None
        ),
        labels=labels_from(config.labels),
        max_failures=config.restartPolicy.maxFailures,
        preemptible=_PREEMPTIBLE.get(config.preemptionPolicy.type),
        kill_on_preempt=config.preemptionPolicy.killOnPreempt,
        controller=config.controller,
        revocable=config.revocable,
        volume=(
            VolumeSpec(config.volume.sizeMB, config.volume.containerPath)
            if config.HasField("volume")
            else None
        ),
        health_checked=config.HasField("healthCheck") and config.healthCheck.enabled,
        kill_grace_seconds=config.killGracePeriodSeconds,
        fingerprint=fingerprint(config, secrets) if compared else b"",
        workload=task_workload(config),
        retry_rules=retry_rules(config.restartPolicy.rules, f"{path}.restartPolicy.rules"),
        pod=foreign_pod(config),
    )


def runtime_to(job_id: JobId, instance: int, runtime: TaskRuntime) -> task_pb2.RuntimeInfo:
    """Encode the runtime of a task."""
    wire = task_pb2.RuntimeInfo()
    write_runtime(wire, job_id, instance, runtime)
    return wire


def write_runtime(wire: task_pb2.RuntimeInfo, job_id: JobId, instance: int, runtime: TaskRuntime) -> None:
    """Write the runtime of a task into an empty message."""
    wire.state = task_pb2.TaskState.ValueType(runtime.state)
    wire.goalState = task_pb2.TaskState.ValueType(runtime.goal)
    wire.startTime = rfc3339(runtime.start_time)
    wire.completionTime = rfc3339(runtime.completion_time)
    wire.host = runtime.host
    if runtime.ports:
        wire.ports.update(runtime.ports)
    wire.message = runtime.message
    wire.reason = runtime.reason
    wire.failureCount = runtime.failure_count
    wire.configVersion = runtime.config_version
    wire.desiredConfigVersion = runtime.desired_config_version
    if runtime.resource_usage:
        wire.resourceUsage.update(runtime.resource_usage)
    wire.healthy = task_pb2.HealthState.ValueType(runtime.health)
    wire.desiredHost = runtime.desired_host
    revision = wire.revision
    revision.version = runtime.revision
    revision.createdAt, revision.updatedAt = runtime.created_at, runtime.updated_at
    if runtime.run:
        wire.mesosTaskId.value = mesos_task_id(job_id, instance, runtime.run)
    if runtime.desired_run:
        wire.desiredMesosTaskId.value = mesos_task_id(job_id, instance, runtime.desired_run)
    if runtime.previous_run:
        wire.prevMesosTaskId.value = mesos_task_id(job_id, instance, runtime.previous_run)
    if runtime.agent_id:
        wire.agentID.value = runtime.agent_id
    if runtime.volume_id:
        wire.volumeID.value = runtime.volume_id
    if runtime.termination is not None:
        end = runtime.termination
        told = wire.terminationStatus
        told.reason = task_pb2.TerminationStatus.Reason.ValueType(end.reason)
        told.exit_code, told.signal = end.exit_code, end.signal
        told.by, told.killed_for = end.by, runtime.killed_for


def pod_event_to(event: PodEvent) -> task_pb2.PodEvent:
    """Encode a pod event."""

    def run_id(run: int) -> mesos_pb2.TaskID | None:
        if not run:
            return None
        return mesos_pb2.TaskID(value=mesos_task_id(event.job_id, event.instance, run))

    return task_pb2.PodEvent(
        taskId=run_id(event.run),
        actualState=event.state.name,
        goalState=event.goal.name,
        timestamp=rfc3339(event.timestamp),
        configVersion=event.config_version,
        desiredConfigVersion=event.desired_config_version,
        agentID=event.agent_id,
        hostname=event.hostname,
        message=event.message,
        reason=event.reason,
        prevTaskId=run_id(event.previous_run),
        healthy=task_pb2.HealthState.Name(task_pb2.HealthState.ValueType(event.health)),
        desriedTaskId=run_id(event.desired_run),
    )
