"""Translation of launches to Mesos' TaskInfo (docs/behaviour/tasks.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hostmgr.core.state.offers import Taken
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.ids import CUSTOM_EXECUTOR_PREFIX, Run, parse_mesos_task_id, task_id
from peloton.model.system_labels import (
    CHECKPOINT_LABEL,
    INSTANCE_LABEL,
    JOB_ID_LABEL,
    LABELS_OF_RUNS,
    STOP_SIGNAL_LABEL,
    SYSTEM_PREFIX,
    TASK_LABEL,
)
from peloton.model.task import (
    CHECK_FAILURES,
    CHECK_INTERVAL_SECONDS,
    CHECK_TIMEOUT_SECONDS,
    KILL_GRACE_SECONDS,
    Launch,
)

LONGEST_GRACE_SECONDS = 600
EXECUTOR_NAME = "AuroraExecutor"
INSTANCE_VARIABLE, TASK_VARIABLE = "PELOTON_INSTANCE_ID", "PELOTON_TASK_ID"
_Check = task_pb2.HealthCheckConfig


class TaskInfos:
    """Describes tasks that are launched on one agent: of those that are alike, one, and the others by it."""

    def __init__(
        self,
        agent_id: str,
        resource: Callable[[Taken], mesos_pb2.Resource],
        longest_grace: int = LONGEST_GRACE_SECONDS,
    ) -> None:
        """Describe what a task takes by `resource`. Tasks have `longest_grace` seconds to save their work."""
        self._agent_id = agent_id
        self._resource = resource
        self._longest_grace = longest_grace
        self._model: _Alike | None = None
        """By the last one that others may be like."""
        self._config: object = None
        self._job_id = ""
        self._taken: Sequence[Taken] = ()

    def of(self, launch: Launch, taken: Sequence[Taken]) -> mesos_pb2.TaskInfo:
        """Return the TaskInfo of a launch, which takes `taken`. Raises as `task_info` does.

        It may be the message of the launch before, with other ids: it is to be copied before the next one.
        """
        run = parse_mesos_task_id(launch.mesos_task_id)
        model = self._model
        if (
            model is not None
            and launch.payload is self._config
            and run.job_id == self._job_id
            and taken == self._taken
        ):
            return model.of(launch.mesos_task_id, run)
        info = task_info(launch, self._agent_id, map(self._resource, taken), self._longest_grace)
        alike = isinstance(launch.payload, task_pb2.TaskConfig) and _have_only_ids(launch.payload)
        self._model = _Alike(info) if alike else None
        self._config, self._job_id, self._taken = launch.payload, run.job_id, taken
        return info


def _have_only_ids(config: task_pb2.TaskConfig) -> bool:
    """Return whether the TaskInfos of tasks of a config differ by ids in their usual places only."""
    checked = config.HasField("healthCheck") and config.healthCheck.enabled
    return not (config.ports or checked or config.HasField("executor"))


class _Alike:
    """The TaskInfos of tasks of one config that take the same: one message, with the ids of each in turn."""

    def __init__(self, info: mesos_pb2.TaskInfo) -> None:
        self._info = info
        # The ids come last among the variables: there are no ports.
        variables, labels = info.command.environment.variables, info.labels.labels
        at = next(i for i in range(len(labels) - 1, -1, -1) if labels[i].key == TASK_LABEL)
        instance, task = variables[-2], variables[-1]
        assert instance.name == INSTANCE_VARIABLE, f"{instance.name} is where {INSTANCE_VARIABLE} should be"
        assert task.name == TASK_VARIABLE, f"{task.name} is where {TASK_VARIABLE} should be"
        label = labels[at - 1]
        assert label.key == INSTANCE_LABEL, f"{label.key} is where {INSTANCE_LABEL} should be"
        self._run, self._instance, self._instance_label = info.task_id, instance, label
        self._task, self._task_label = task, labels[at]

    def of(self, mesos_task_id: str, run: Run) -> mesos_pb2.TaskInfo:
        """Return the message with the ids of a task."""
        self._run.value = mesos_task_id
        self._instance.value = self._instance_label.value = str(run.instance)
        self._task.value = self._task_label.value = task_id(run.job_id, run.instance)
        return self._info


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
    if config.podTemplate:
        raise InvalidArgument("podTemplate", "a template", "allowed: Mesos has no pods")
    if config.HasField("foreignPod"):
        raise InvalidArgument("foreignPod", "a pod", "allowed: it is bound on its own cluster of Kubernetes")
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
    variables.add(name=INSTANCE_VARIABLE, value=str(instance))
    variables.add(name=TASK_VARIABLE, value=task_id(job_id, instance))
    for port in config.ports:
        if port.envName:
            variables.add(name=port.envName, value=str(ports[port.name]))


def _add_labels(wire: mesos_pb2.Labels, config: task_pb2.TaskConfig, job_id: str, instance: int) -> None:
    labels = wire.labels
    for label in config.labels:
        if not label.key.startswith(SYSTEM_PREFIX) or label.key in LABELS_OF_RUNS:
            labels.add(key=label.key, value=label.value)
    labels.add(key=JOB_ID_LABEL, value=job_id)
    labels.add(key=INSTANCE_LABEL, value=str(instance))
    labels.add(key=TASK_LABEL, value=task_id(job_id, instance))


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
