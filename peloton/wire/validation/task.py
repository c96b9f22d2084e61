"""Rules for one task config, default or merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.plural import plural
from peloton.wire.constraint import constraint_from
from peloton.wire.pod_template import pod_template
from peloton.wire.task import resources_from
from peloton.wire.taskconfig import Variable, executor_type, has_custom_executor
from peloton.wire.validation.texts import ARGUMENT_CHARACTERS, check_label_texts, check_length, check_name

MAX_AMOUNT = 1e9
"""Bound of an amount of one task, in cores, MB or GPUs."""
MAX_PORT = 65535
MAX_PORTS = 1000


def check_task(config: task_pb2.TaskConfig, path: str, job_type: int) -> None:
    """Check a task config by itself, except its command, which the default may lack."""
    for name in ("command", "container", "executor"):
        if config.HasField(name):
            _check_encoding(getattr(config, name), f"{path}.{name}")
    check_name(f"{path}.name", config.name)
    resources_from(config.resource, f"{path}.resource", MAX_AMOUNT)
    check_labels(config.labels, f"{path}.labels")
    _check_executor(config, path, job_type)
    _check_ports(config, f"{path}.ports")
    _check_health(config, f"{path}.healthCheck", job_type)
    _check_preemption(config.preemptionPolicy, f"{path}.preemptionPolicy", job_type)
    _check_volume(config, f"{path}.volume")
    pod_template(config.podTemplate, f"{path}.podTemplate")
    if config.HasField("foreignPod"):
        raise InvalidArgument(f"{path}.foreignPod", "a pod", "left out: Peloton alone makes jobs of pods")
    if config.HasField("constraint"):
        constraint_from(config.constraint, f"{path}.constraint")
        _check_terms(config.constraint, f"{path}.constraint")


def _check_terms(wire: task_pb2.Constraint, path: str) -> None:
    """Refuse an OR without terms, which holds nowhere: its task would wait for ever."""
    if wire.type == task_pb2.Constraint.OR_CONSTRAINT and not wire.orConstraint.constraints:
        raise InvalidArgument(
            f"{path}.orConstraint.constraints", [], "a list of at least one constraint: no host fits none"
        )
    for part, at in _terms(wire, path):
        _check_terms(part, at)


def _terms(wire: task_pb2.Constraint, path: str) -> Iterator[tuple[task_pb2.Constraint, str]]:
    """Iterate over what an AND or OR joins, with the paths."""
    if wire.type == task_pb2.Constraint.AND_CONSTRAINT:
        name, parts = "andConstraint", wire.andConstraint.constraints
    else:
        name, parts = "orConstraint", wire.orConstraint.constraints
    if wire.type != task_pb2.Constraint.LABEL_CONSTRAINT:
        for i, part in enumerate(parts):
            yield part, f"{path}.{name}.constraints[{i}]"


def check_command(config: task_pb2.TaskConfig, path: str) -> None:
    """Check that a task has a command, unless it has a custom executor."""
    if has_custom_executor(config):
        return
    if not config.HasField("command"):
        raise InvalidArgument(f"{path}.command", None, "a command; every instance must end up with one")
    command = config.command
    if not command.value and (command.shell or not config.HasField("container")):
        raise InvalidArgument(
            f"{path}.command.value",
            command.value,
            "a command line, or with `shell: false` a program (which only a container may bring along)",
        )
    _check_text(f"{path}.command.value", command.value)
    for i, argument in enumerate(command.arguments):
        _check_text(f"{path}.command.arguments[{i}]", argument)
    _check_environment(command.environment.variables, f"{path}.command.environment.variables")


def check_resource(config: task_pb2.TaskConfig, path: str) -> None:
    """Check that a task asks for something: Mesos refuses one that uses no resources."""
    asks = any(resources_from(config.resource).values()) or config.HasField("volume")
    if not asks and all(port.value for port in config.ports):
        raise InvalidArgument(
            f"{path}.resource",
            "nothing",
            "enough: Mesos runs no task without resources; give at least cpuLimit or memLimitMb",
        )


def check_enum(message: Message, name: str, path: str) -> None:
    """Refuse an unknown number in an enum field, which proto3 accepts."""
    value = getattr(message, name)
    known = message.DESCRIPTOR.fields_by_name[name].enum_type.values_by_number
    if value not in known:
        raise InvalidArgument(path, value, "one of " + ", ".join(f"{v.name} ({n})" for n, v in known.items()))


def check_labels(labels: Iterable[peloton_pb2.Label], path: str) -> None:
    """Check that each label has a key, and no text is too long."""
    check_label_texts(labels, path)
    for i, label in enumerate(labels):
        if not label.key:
            raise InvalidArgument(f"{path}[{i}].key", label.key, "a key: a text that is not empty")


def _check_executor(config: task_pb2.TaskConfig, path: str, job_type: int) -> None:
    if not config.HasField("executor"):
        return
    if job_type == job_pb2.BATCH:
        raise InvalidArgument(f"{path}.executor", "an executor", "allowed in a batch job; leave it out")
    if not has_custom_executor(config):
        raise InvalidArgument(f"{path}.executor.type", executor_type(config), "CUSTOM")
    if not config.executor.data:
        raise InvalidArgument(f"{path}.executor.data", b"", "the data that the executor is to get")


def _check_ports(config: task_pb2.TaskConfig, path: str) -> None:
    if len(config.ports) > MAX_PORTS:
        raise InvalidArgument(path, plural(len(config.ports), "port"), f"a list of at most {MAX_PORTS} ports")
    custom = has_custom_executor(config)
    for i, port in enumerate(config.ports):
        if not port.name:
            raise InvalidArgument(f"{path}[{i}].name", port.name, "a name; every port has one")
        check_name(f"{path}[{i}].name", port.name)
        if port.value > MAX_PORT:
            raise InvalidArgument(f"{path}[{i}].value", port.value, f"0 (dynamic) or a port up to {MAX_PORT}")
        if not port.value and not port.envName and not custom:
            raise InvalidArgument(
                f"{path}[{i}].envName", port.envName, "the variable that tells the task its dynamic port"
            )
        _check_variable_name(f"{path}[{i}].envName", port.envName)
    _check_distinct(path, "name", [port.name for port in config.ports])
    _check_distinct(path, "value", [port.value for port in config.ports])
    _check_distinct(path, "envName", [port.envName for port in config.ports])


def _check_distinct(path: str, name: str, values: Sequence[str | int]) -> None:
    seen: dict[str | int, int] = {}
    for i, value in enumerate(values):
        if value and value in seen:
            raise InvalidArgument(
                f"{path}[{i}].{name}", value, f"a {name} of its own: port {seen[value]} has it"
            )
        seen[value] = i


def _check_health(config: task_pb2.TaskConfig, path: str, job_type: int) -> None:
    if not config.HasField("healthCheck"):
        return
    check = config.healthCheck
    if job_type == job_pb2.BATCH:
        raise InvalidArgument(path, "a health check", "allowed in a batch job; leave it out")
    check_enum(check, "type", f"{path}.type")
    if check.type == task_pb2.HealthCheckConfig.GRPC:
        raise InvalidArgument(f"{path}.type", "GRPC", "COMMAND or HTTP: Mesos has no gRPC check")
    if not check.enabled:
        return
    if check.type == task_pb2.HealthCheckConfig.UNKNOWN:
        raise InvalidArgument(f"{path}.type", None, "COMMAND or HTTP")
    if check.type == task_pb2.HealthCheckConfig.COMMAND:
        _check_health_command(check.commandCheck, f"{path}.commandCheck")
    else:
        _check_health_http(check.httpCheck, f"{path}.httpCheck")


def _check_health_command(check: task_pb2.HealthCheckConfig.CommandCheck, path: str) -> None:
    if not check.command:
        raise InvalidArgument(f"{path}.command", check.command, "a command line")
    _check_text(f"{path}.command", check.command)


def _check_health_http(check: task_pb2.HealthCheckConfig.HTTPCheck, path: str) -> None:
    if check.scheme not in ("", "http", "https"):
        raise InvalidArgument(f"{path}.scheme", check.scheme, "http or https")
    if not 0 < check.port <= MAX_PORT:
        raise InvalidArgument(f"{path}.port", check.port, f"a port from 1 to {MAX_PORT}")


def _check_preemption(policy: task_pb2.PreemptionPolicy, path: str, job_type: int) -> None:
    check_enum(policy, "type", f"{path}.type")
    if policy.killOnPreempt and job_type != job_pb2.BATCH:
        raise InvalidArgument(f"{path}.killOnPreempt", True, "allowed in a service; make it false")


def _check_volume(config: task_pb2.TaskConfig, path: str) -> None:
    if not config.HasField("volume"):
        return
    name = config.volume.containerPath
    if not name:
        raise InvalidArgument(f"{path}.containerPath", "", "the path of the volume in the container")
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or "\0" in name:
        raise InvalidArgument(f"{path}.containerPath", name, "a path without `..`, below the sandbox")
    if name.startswith("/") and not config.HasField("container"):
        raise InvalidArgument(
            f"{path}.containerPath", name, "relative to the sandbox: only a container has absolute paths"
        )
    if not config.volume.sizeMB:
        raise InvalidArgument(f"{path}.sizeMB", 0, "a size in MB above 0")


def _check_environment(variables: Iterable[Variable], path: str) -> None:
    for i, variable in enumerate(variables):
        if not variable.name:
            raise InvalidArgument(f"{path}[{i}].name", variable.name, "the name of a variable")
        _check_variable_name(f"{path}[{i}].name", variable.name)
        _check_text(f"{path}[{i}].value", variable.value)


def _check_variable_name(path: str, name: str) -> None:
    check_name(path, name)
    if "=" in name:
        raise InvalidArgument(path, name, "the name of a variable, which holds no `=`")


def _check_encoding(message: Message, path: str) -> None:
    """Refuse texts that are not UTF-8: Mesos' messages (proto2) accept them and return bytes."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        for each in values:
            if isinstance(each, Message):
                _check_encoding(each, f"{path}.{field.name}")
            elif isinstance(each, bytes) and field.type == FieldDescriptor.TYPE_STRING:
                raise InvalidArgument(f"{path}.{field.name}", each, "a text in UTF-8")


def _check_text(path: str, text: str) -> None:
    """Refuse what no argument of exec(2) can have: a zero byte, and more than Linux takes."""
    check_length(path, text, ARGUMENT_CHARACTERS)
    if "\0" in text:
        raise InvalidArgument(path, text, "a text without zero bytes")
