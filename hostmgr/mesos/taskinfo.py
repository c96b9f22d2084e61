"""Translation of launches to Mesos' TaskInfo (docs/behaviour/tasks.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.ids import CUSTOM_EXECUTOR_PREFIX, parse_mesos_task_id, task_id
from peloton.model.system_labels import CHECKPOINT_LABEL, STOP_SIGNAL_LABEL, SYSTEM_KEYS, SYSTEM_PREFIX
from peloton.model.task import (
    CHECK_FAILURES,
    CHECK_INTERVAL_SECONDS,
    CHECK_TIMEOUT_SECONDS,
    KILL_GRACE_SECONDS,
    Launch,
)

LONGEST_GRACE_SECONDS = 600
EXECUTOR_NAME = "AuroraExecutor"
_Check = task_pb2.HealthCheckConfig


def task_info(
    launch: Launch,
    agent_id: str,
    resources: Iterable[mesos_pb2.Resource],
    longest_grace: int = LONGEST_GRACE_SECONDS,
) -> mesos_pb2.TaskInfo:
    """Return the TaskInfo of a launch, which has `longest_grace` seconds to save its work at most.

    Raises InvalidArgument for an id that is not a run's.
    """
    config, run, ports = launch.payload, parse_mesos_task_id(launch.mesos_task_id), launch.ports
    if not isinstance(config, task_pb2.TaskConfig):
        raise TypeError(f"{launch.mesos_task_id}: not a v0 TaskConfig: {type(config).__name__}")
    info = mesos_pb2.TaskInfo(name=run.job_id)
    info.task_id.value = launch.mesos_task_id
    info.agent_id.value = agent_id
    info.resources.extend(resources)
    command = info.command
    command.CopyFrom(config.command)
    _add_environment(command, config, run.job_id, run.instance, ports)
    _add_labels(info.labels, config, run.job_id, run.instance)
    _describe(info.discovery, run.job_id, ports)
    grace = config.killGracePeriodSeconds or KILL_GRACE_SECONDS
    if config.HasField("workload"):
        grace = max(grace, min(config.workload.grace_seconds, longest_grace))
        if config.workload.stop_signal:
            info.labels.labels.add(key=STOP_SIGNAL_LABEL, value=config.workload.stop_signal)
        if config.workload.checkpoint_file:
            info.labels.labels.add(key=CHECKPOINT_LABEL, value=config.workload.checkpoint_file)
    info.kill_policy.grace_period.nanoseconds = grace * NANOSECONDS
    if config.HasField("healthCheck") and config.healthCheck.enabled:
        _add_health_check(info.health_check, config.healthCheck, command)
    if config.HasField("executor") and config.executor.type == mesos_pb2.ExecutorInfo.CUSTOM:
        _run_by_executor(info, config)
    elif config.HasField("container"):
        info.container.CopyFrom(config.container)
    return info


def _add_environment(
    command: mesos_pb2.CommandInfo,
    config: task_pb2.TaskConfig,
    job_id: str,
    instance: int,
    ports: Mapping[str, int],
) -> None:
    """Add variables after the user's: of two with one name, Mesos uses the later one."""
    variables = command.environment.variables
    variables.add(name="PELOTON_JOB_ID", value=job_id)
    variables.add(name="PELOTON_INSTANCE_ID", value=str(instance))
    variables.add(name="PELOTON_TASK_ID", value=task_id(job_id, instance))
    for port in config.ports:
        if port.envName:
            variables.add(name=port.envName, value=str(ports[port.name]))


def _add_labels(wire: mesos_pb2.Labels, config: task_pb2.TaskConfig, job_id: str, instance: int) -> None:
    labels = wire.labels
    for label in config.labels:
        if not label.key.startswith(SYSTEM_PREFIX) or label.key in SYSTEM_KEYS:
            labels.add(key=label.key, value=label.value)
    labels.add(key="peloton.job_id", value=job_id)
    labels.add(key="peloton.instance_id", value=str(instance))
    labels.add(key="peloton.task_id", value=task_id(job_id, instance))


def _describe(discovery: mesos_pb2.DiscoveryInfo, job_id: str, ports: Mapping[str, int]) -> None:
    discovery.visibility = mesos_pb2.DiscoveryInfo.EXTERNAL
    discovery.name = job_id
    for name, number in ports.items():
        discovery.ports.ports.add(name=name, number=number)


def _run_by_executor(info: mesos_pb2.TaskInfo, config: task_pb2.TaskConfig) -> None:
    """Give the task to its executor.

    A task has a command or an executor, never both: the executor starts with the task's command, runs in the
    task's container, and takes nothing for itself.
    """
    executor = info.executor
    executor.CopyFrom(config.executor)
    executor.executor_id.value = CUSTOM_EXECUTOR_PREFIX + info.task_id.value
    executor.name = EXECUTOR_NAME
    executor.ClearField("resources")
    executor.ClearField("data")
    info.data = config.executor.data
    if not executor.HasField("command"):
        executor.command.CopyFrom(info.command)
    info.ClearField("command")
    if config.HasField("container") and not executor.HasField("container"):
        executor.container.CopyFrom(config.container)


def _add_health_check(wire: mesos_pb2.HealthCheck, check: _Check, command: mesos_pb2.CommandInfo) -> None:
    """Add a health check. Raises InvalidArgument for a kind of check that Mesos does not have."""
    wire.delay_seconds = check.initialIntervalSecs
    wire.interval_seconds = check.intervalSecs or CHECK_INTERVAL_SECONDS
    wire.timeout_seconds = check.timeoutSecs or CHECK_TIMEOUT_SECONDS
    wire.consecutive_failures = check.maxConsecutiveFailures or CHECK_FAILURES
    if check.type == _Check.COMMAND:
        wire.type = mesos_pb2.HealthCheck.COMMAND
        wire.command.shell = True
        wire.command.value = check.commandCheck.command
        if not check.commandCheck.unshareEnvironments:
            wire.command.environment.CopyFrom(command.environment)
    elif check.type == _Check.HTTP:
        wire.type = mesos_pb2.HealthCheck.HTTP
        wire.http.scheme = check.httpCheck.scheme or "http"
        wire.http.port = check.httpCheck.port
        wire.http.path = check.httpCheck.path or "/"
    else:
        raise InvalidArgument("healthCheck.type", _Check.Type.Name(check.type), "COMMAND or HTTP")
