"""Translate pod specs into task configs of the v0 API, which the model and launches are made of."""

from __future__ import annotations

import shlex

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.errors import InvalidArgument
from peloton.wire.v1alpha.constraint import v0_constraint, v0_labels
from peloton.wire.v1alpha.container import container_info, executor_info, fetched
from peloton.wire.v1alpha.duplicate_fields import command_of

_Health = pod_pb2.HealthCheckSpec
_V0Health = task_pb2.HealthCheckConfig
_HEALTH_TYPES = {
    _Health.HEALTH_CHECK_TYPE_UNKNOWN: _V0Health.UNKNOWN,
    _Health.HEALTH_CHECK_TYPE_COMMAND: _V0Health.COMMAND,
    _Health.HEALTH_CHECK_TYPE_HTTP: _V0Health.HTTP,
}


def task_config(pod: pod_pb2.PodSpec, path: str) -> task_pb2.TaskConfig:
    """Return a pod spec as a task config of the v0 API. What the spec lacks, the config lacks as well.

    Raises InvalidArgument, with the path of the field below `path`, for what this server does not run: more
    than one container, init containers, readiness checks, and checks and executors that Mesos does not have.
    """
    config = task_pb2.TaskConfig(
        labels=v0_labels(pod.labels),
        controller=pod.controller,
        killGracePeriodSeconds=pod.kill_grace_period_seconds,
        revocable=pod.revocable,
    )
    _check_containers(pod, path)
    if pod.HasField("constraint"):
        config.constraint.CopyFrom(v0_constraint(pod.constraint, f"{path}.constraint"))
    if pod.HasField("restart_policy"):
        config.restartPolicy.maxFailures = pod.restart_policy.max_failures
        config.restartPolicy.rules.extend(pod.restart_policy.rules)
        config.restartPolicy.SetInParent()
    if pod.HasField("preemption_policy"):
        config.preemptionPolicy.killOnPreempt = pod.preemption_policy.kill_on_preempt
        config.preemptionPolicy.SetInParent()
    if pod.HasField("workload"):
        config.workload.CopyFrom(pod.workload)
    config.podTemplate = pod.pod_template
    if pod.HasField("volume"):
        config.volume.CopyFrom(
            task_pb2.PersistentVolumeConfig(
                containerPath=pod.volume.container_path, sizeMB=pod.volume.size_mb
            )
        )
    if pod.containers:
        _add_container(config, pod, f"{path}.containers[0]")
    executor = executor_info(pod, path)
    if executor is not None:
        config.executor.CopyFrom(executor)
    _add_ports(config, pod)
    return config


def _check_containers(pod: pod_pb2.PodSpec, path: str) -> None:
    if pod.init_containers:
        given = f"{len(pod.init_containers)} containers"
        raise InvalidArgument(f"{path}.init_containers", given, "run by this server: leave it out")
    if len(pod.containers) > 1:
        given = f"{len(pod.containers)} containers"
        raise InvalidArgument(f"{path}.containers", given, "one container, which is what this server runs")
    for i, container in enumerate(pod.containers):
        if container.HasField("readiness_check"):
            at = f"{path}.containers[{i}].readiness_check"
            raise InvalidArgument(at, "a check", "carried out by this server: use liveness_check")


def _add_container(config: task_pb2.TaskConfig, pod: pod_pb2.PodSpec, path: str) -> None:
    container = pod.containers[0]
    config.name = container.name
    if container.HasField("resource"):
        amount = container.resource
        config.resource.CopyFrom(
            task_pb2.ResourceConfig(
                cpuLimit=amount.cpu_limit,
                memLimitMb=amount.mem_limit_mb,
                diskLimitMb=amount.disk_limit_mb,
                fdLimit=amount.fd_limit,
                gpuLimit=amount.gpu_limit,
            )
        )
    command = _command(pod, container)
    if command is not None:
        config.command.CopyFrom(command)
    info = container_info(pod, container, path)
    if info is not None:
        config.container.CopyFrom(info)
    if container.HasField("liveness_check"):
        config.healthCheck.CopyFrom(_health_check(container.liveness_check, f"{path}.liveness_check"))


def _command(pod: pod_pb2.PodSpec, container: pod_pb2.ContainerSpec) -> mesos_pb2.CommandInfo | None:
    """Return the whole command: with the variables of `environment` and the files to fetch."""
    given = command_of(container, pod.mesos_spec.shell)
    if given is None:
        return None
    command = mesos_pb2.CommandInfo()
    command.CopyFrom(given)
    own = {variable.name for variable in command.environment.variables}
    for variable in container.environment:
        if variable.name not in own:
            command.environment.variables.add(name=variable.name, value=variable.value)
    command.uris.extend(fetched(pod.mesos_spec))
    return command


def _add_ports(config: task_pb2.TaskConfig, pod: pod_pb2.PodSpec) -> None:
    """Add the ports of the container, then those of the pod."""
    own = pod.containers[0].ports if pod.containers else ()
    for port in (*own, *pod.host_ports):
        config.ports.add(name=port.name, value=port.value, envName=port.env_name)


def _health_check(check: pod_pb2.HealthCheckSpec, path: str) -> task_pb2.HealthCheckConfig:
    if check.type not in _HEALTH_TYPES:
        known = "HEALTH_CHECK_TYPE_COMMAND (1) or HEALTH_CHECK_TYPE_HTTP (2)"
        raise InvalidArgument(f"{path}.type", check.type, known)
    if check.success_threshold > 1:
        expected = "0 or 1: Mesos takes the first success as healthy"
        raise InvalidArgument(f"{path}.success_threshold", check.success_threshold, expected)
    result = task_pb2.HealthCheckConfig(
        enabled=check.enabled,
        initialIntervalSecs=check.initial_interval_secs,
        intervalSecs=check.interval_secs,
        maxConsecutiveFailures=check.max_consecutive_failures,
        timeoutSecs=check.timeout_secs,
        type=_HEALTH_TYPES[check.type],
    )
    _add_command_check(result, check)
    _add_http_check(result, check, path)
    return result


def _add_command_check(result: task_pb2.HealthCheckConfig, check: pod_pb2.HealthCheckSpec) -> None:
    """Add the check by a command: its older form where that is given."""
    if check.HasField("command_check"):
        result.commandCheck.command = check.command_check.command
        result.commandCheck.unshareEnvironments = check.command_check.unshare_environments
        result.commandCheck.SetInParent()
    elif check.HasField("command"):
        given = check.command
        result.commandCheck.command = (
            shlex.join([given.value, *given.arguments]) if given.arguments else given.value
        )


def _add_http_check(result: task_pb2.HealthCheckConfig, check: pod_pb2.HealthCheckSpec, path: str) -> None:
    """Add the check by a request: its older form where that is given."""
    if check.HasField("http_check"):
        old = check.http_check
        result.httpCheck.CopyFrom(_V0Health.HTTPCheck(scheme=old.scheme, port=old.port, path=old.path))
    elif check.HasField("http_get"):
        new = check.http_get
        if new.http_headers:
            given = f"{len(new.http_headers)} headers"
            raise InvalidArgument(f"{path}.http_get.http_headers", given, "sent by Mesos: leave it out")
        port = new.port or new.port_spec.value
        if not port and new.HasField("port_spec"):
            at = f"{path}.http_get.port_spec.value"
            raise InvalidArgument(at, 0, "a fixed port: Mesos checks no dynamic one")
        result.httpCheck.CopyFrom(_V0Health.HTTPCheck(scheme=new.scheme, port=port, path=new.path))
