"""Translate task configs of the v0 API into pod specs, for v1alpha clients that look at v0 jobs."""

from __future__ import annotations

from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.wire.v1alpha.constraint import v1alpha_constraint, v1alpha_labels
from peloton.wire.v1alpha.duplicate_fields import entrypoint_of

_Port = pod_pb2.PortSpec
_Health = pod_pb2.HealthCheckSpec
_CONTAINER_FIELDS = frozenset(
    {"name", "resource", "container", "command", "executor", "healthCheck", "ports"}
)


def pod_spec_of(config: task_pb2.TaskConfig) -> pod_pb2.PodSpec:
    """Return a task config as a pod spec. An override of `preemptible` has no place there and is left out."""
    pod = pod_pb2.PodSpec(
        labels=v1alpha_labels(config.labels),
        controller=config.controller,
        kill_grace_period_seconds=config.killGracePeriodSeconds,
        revocable=config.revocable,
    )
    if config.HasField("constraint"):
        pod.constraint.CopyFrom(v1alpha_constraint(config.constraint))
    if config.HasField("restartPolicy"):
        policy = config.restartPolicy
        pod.restart_policy.CopyFrom(
            pod_pb2.RestartPolicy(max_failures=policy.maxFailures, rules=policy.rules)
        )
    if config.HasField("preemptionPolicy"):
        kill = config.preemptionPolicy.killOnPreempt
        pod.preemption_policy.CopyFrom(pod_pb2.PreemptionPolicy(kill_on_preempt=kill))
    if config.HasField("workload"):
        pod.workload.CopyFrom(config.workload)
    pod.pod_template = config.podTemplate
    if config.HasField("volume"):
        volume = config.volume
        pod.volume.CopyFrom(
            pod_pb2.PersistentVolumeSpec(container_path=volume.containerPath, size_mb=volume.sizeMB)
        )
    if any(field.name in _CONTAINER_FIELDS for field, _ in config.ListFields()):
        pod.containers.append(_container(config))
    return pod


def _container(config: task_pb2.TaskConfig) -> pod_pb2.ContainerSpec:
    container = pod_pb2.ContainerSpec(name=config.name)
    if config.HasField("resource"):
        amount = config.resource
        container.resource.CopyFrom(
            pod_pb2.ResourceSpec(
                cpu_limit=amount.cpuLimit,
                mem_limit_mb=amount.memLimitMb,
                disk_limit_mb=amount.diskLimitMb,
                fd_limit=amount.fdLimit,
                gpu_limit=amount.gpuLimit,
            )
        )
    if config.HasField("container"):
        container.container.CopyFrom(config.container)
    if config.HasField("command"):
        container.command.CopyFrom(config.command)
        container.entrypoint.CopyFrom(entrypoint_of(config.command))
    if config.HasField("executor"):
        container.executor.CopyFrom(config.executor)
    if config.HasField("healthCheck"):
        container.liveness_check.CopyFrom(_liveness_check(config.healthCheck))
    for port in config.ports:
        kind = _Port.PORT_TYPE_STATIC if port.value else _Port.PORT_TYPE_DYNAMIC_ENV_VAR
        container.ports.add(name=port.name, value=port.value, env_name=port.envName, type=kind)
    return container


def _liveness_check(check: task_pb2.HealthCheckConfig) -> pod_pb2.HealthCheckSpec:
    result = pod_pb2.HealthCheckSpec(
        enabled=check.enabled,
        initial_interval_secs=check.initialIntervalSecs,
        interval_secs=check.intervalSecs,
        max_consecutive_failures=check.maxConsecutiveFailures,
        timeout_secs=check.timeoutSecs,
        type=_Health.HealthCheckType.ValueType(check.type),
    )
    if check.HasField("commandCheck"):
        command = check.commandCheck
        result.command_check.CopyFrom(
            _Health.CommandCheck(command=command.command, unshare_environments=command.unshareEnvironments)
        )
    if check.HasField("httpCheck"):
        http = check.httpCheck
        result.http_check.CopyFrom(_Health.HTTPCheck(scheme=http.scheme, port=http.port, path=http.path))
    return result
