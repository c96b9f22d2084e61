"""What the config of an instance means: two configs that mean the same run the same.

`canonical` gives configs of one meaning one form. Labels, ports and volumes are sets, and so are the
variables of an environment, of which the last one of a name counts. What is left out is what its default
says. Names that are never launched (of the task, of a custom executor, whose own are set at launch) do not
count, nor do labels of the system's prefix, which are dropped at launch, or what a setting beside them
switches off. Fields that this server does not know are launched as given, and count.
"""

from __future__ import annotations

from enum import Enum
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.payload import SecretRef
from peloton.model.resources import MILLI, milli
from peloton.model.system_labels import SYSTEM_PREFIX
from peloton.model.task import (
    CHECK_FAILURES,
    CHECK_INTERVAL_SECONDS,
    CHECK_TIMEOUT_SECONDS,
    KILL_GRACE_SECONDS,
    MAX_FAILURES,
)

Secrets = tuple[SecretRef, ...]
_KNOWN_BYTES = 4096
"""Longest config whose form is kept."""
_Check = task_pb2.HealthCheckConfig
_AMOUNTS = ("cpuLimit", "memLimitMb", "diskLimitMb", "gpuLimit")
_SETS = frozenset(
    {
        "peloton.api.v0.task.TaskConfig.labels",
        "peloton.api.v0.task.TaskConfig.ports",
        "peloton.api.v0.task.AndConstraint.constraints",
        "peloton.api.v0.task.OrConstraint.constraints",
        "mesos.v1.CapabilityInfo.capabilities",
        "mesos.v1.ContainerInfo.DockerInfo.port_mappings",
        "mesos.v1.ContainerInfo.volumes",
        "mesos.v1.Labels.labels",
        "mesos.v1.NetworkInfo.groups",
        "mesos.v1.NetworkInfo.port_mappings",
        "mesos.v1.Ports.ports",
        "mesos.v1.RLimitInfo.rlimits",
    }
)
"""Lists whose order means nothing."""
_NOTHING_WHERE_EMPTY = frozenset(
    {
        "peloton.api.v0.task.TaskConfig.healthCheck",
        "peloton.api.v0.task.TaskConfig.preemptionPolicy",
        "peloton.api.v0.task.TaskConfig.resource",
        "peloton.api.v0.task.TaskConfig.restartPolicy",
        "peloton.api.v0.task.TaskConfig.workload",
        "mesos.v1.CommandInfo.environment",
        "mesos.v1.ContainerInfo.mesos",
        "mesos.v1.DiscoveryInfo.labels",
        "mesos.v1.ExecutorInfo.labels",
        "mesos.v1.NetworkInfo.labels",
    }
)
"""Messages that say nothing where nothing in them is set."""
_FILLED = frozenset(
    {
        FieldDescriptor.TYPE_BOOL,
        FieldDescriptor.TYPE_BYTES,
        FieldDescriptor.TYPE_ENUM,
        FieldDescriptor.TYPE_STRING,
    }
)
"""Types whose zero value means the same as no value. A number may differ, such as a limit of 0."""


def fingerprint(config: task_pb2.TaskConfig, secrets: Secrets = ()) -> bytes:
    """Return a digest of what a merged config means. `secrets` are the secret files of the job."""
    data = _serialised(config)
    digest = blake2b(_known_form(data) if len(data) <= _KNOWN_BYTES else _form(config), digest_size=16)
    for path, key in sorted((secret.path, secret.key) for secret in secrets):
        digest.update(f"\0{path}\0{key}".encode())
    return digest.digest()


def _form(config: task_pb2.TaskConfig) -> bytes:
    return _serialised(canonical(config))


@lru_cache(maxsize=1024)
def _known_form(data: bytes) -> bytes:
    """Return the form of a serialised config. Most versions of a job, and many jobs, have the same one."""
    config = task_pb2.TaskConfig()
    config.MergeFromString(data)
    return _form(config)


def canonical(config: task_pb2.TaskConfig, names: bool = False) -> task_pb2.TaskConfig:
    """Return the form of all configs that mean what a merged one does.

    `names`: keep what is never launched, for a comparison of specs that are stored.
    """
    result = task_pb2.TaskConfig()
    result.CopyFrom(config)
    if not names:
        _drop_names(result)
    if result.HasField("resource"):
        _round(result.resource)
    if result.HasField("healthCheck"):
        _fill_check(result.healthCheck)
    if result.HasField("executor") and not names:
        _keep_of_executor(result)
    if result.killGracePeriodSeconds == KILL_GRACE_SECONDS:
        result.killGracePeriodSeconds = 0
    if result.restartPolicy.maxFailures > MAX_FAILURES:
        result.restartPolicy.maxFailures = MAX_FAILURES
    _settle(result)
    return result


def _drop_names(config: task_pb2.TaskConfig) -> None:
    config.ClearField("name")
    if any(label.key.startswith(SYSTEM_PREFIX) for label in config.labels):
        kept = [label for label in config.labels if not label.key.startswith(SYSTEM_PREFIX)]
        config.ClearField("labels")
        config.labels.extend(kept)


def _round(resource: task_pb2.ResourceConfig) -> None:
    """Set amounts to thousandths, as they are counted. One that is refused stays as it is."""
    for name in _AMOUNTS:
        amount = getattr(resource, name)
        try:
            setattr(resource, name, milli(amount) / MILLI)
        except InvalidArgument:
            continue


def _fill_check(check: _Check) -> None:
    """Keep what the kind of check uses, with its defaults filled in; nothing of one that is off."""
    if not check.enabled:
        check.Clear()
        return
    check.intervalSecs = check.intervalSecs or CHECK_INTERVAL_SECONDS
    check.timeoutSecs = check.timeoutSecs or CHECK_TIMEOUT_SECONDS
    check.maxConsecutiveFailures = check.maxConsecutiveFailures or CHECK_FAILURES
    if check.type == _Check.COMMAND:
        check.ClearField("httpCheck")
        check.commandCheck.SetInParent()
    elif check.type == _Check.HTTP:
        check.ClearField("commandCheck")
        check.httpCheck.scheme = check.httpCheck.scheme or "http"
        check.httpCheck.path = check.httpCheck.path or "/"


def _keep_of_executor(config: task_pb2.TaskConfig) -> None:
    """Leave out what a launch sets itself. An executor that is not the user's own is not launched."""
    executor = config.executor
    if executor.type != mesos_pb2.ExecutorInfo.CUSTOM:
        config.ClearField("executor")
        return
    executor.executor_id.value = ""
    executor.ClearField("name")
    executor.ClearField("resources")


class _Kind(Enum):
    """How a field is brought to its form."""

    FIXED = "fixed"
    """As it is."""
    DEFAULT = "default"
    """Cleared where it has its default."""
    SET = "set"
    MESSAGE = "message"
    OPTION = "option"
    """A message that says nothing where it is empty."""
    LIST = "list"
    """Messages in order."""
    MESSAGES = "messages"
    """A set of messages."""


@cache
def _kind(field: FieldDescriptor) -> _Kind:
    unordered, message = field.full_name in _SETS, field.message_type is not None
    if message and field.is_repeated:
        map_entry = field.message_type.GetOptions().map_entry
        return _Kind.FIXED if map_entry else _Kind.MESSAGES if unordered else _Kind.LIST
    if message:
        return _Kind.OPTION if field.full_name in _NOTHING_WHERE_EMPTY else _Kind.MESSAGE
    if field.is_repeated:
        return _Kind.SET if unordered else _Kind.FIXED
    clears = field.has_default_value or field.type in _FILLED
    return _Kind.DEFAULT if clears and field.has_presence and not field.is_required else _Kind.FIXED


def _settle(message: Any) -> None:
    """Clear defaults that are spelled out, and order what is a set, in a message and all below it."""
    if isinstance(message, mesos_pb2.Environment):
        _keep_last(message)
    elif isinstance(message, task_pb2.Constraint):
        _keep_branch(message)
    for field, value in message.ListFields():
        kind = _kind(field)
        if kind is _Kind.DEFAULT:
            if value == field.default_value:
                message.ClearField(field.name)
        elif kind is _Kind.SET:
            value.sort()
        elif kind is not _Kind.FIXED:
            _settle_messages(message, field, value, kind)


def _settle_messages(message: Any, field: FieldDescriptor, value: Any, kind: _Kind) -> None:
    if kind in (_Kind.MESSAGE, _Kind.OPTION):
        _settle(value)
        if kind is _Kind.OPTION and not value.ByteSize():
            message.ClearField(field.name)
        return
    for each in value:
        _settle(each)
    if kind is _Kind.MESSAGES and len(value) > 1:
        value.sort(key=_serialised)


def _keep_last(environment: mesos_pb2.Environment) -> None:
    """Keep the last variable of each name, by name: of two with one name, Mesos uses the later one."""
    last = {variable.name: variable for variable in environment.variables}
    kept = []
    for _, variable in sorted(last.items()):
        copy = mesos_pb2.Environment.Variable()
        copy.CopyFrom(variable)
        kept.append(copy)
    environment.ClearField("variables")
    environment.variables.extend(kept)


def _keep_branch(constraint: task_pb2.Constraint) -> None:
    """Keep the one of a constraint's branches that its type names."""
    used = {
        task_pb2.Constraint.LABEL_CONSTRAINT: "labelConstraint",
        task_pb2.Constraint.AND_CONSTRAINT: "andConstraint",
        task_pb2.Constraint.OR_CONSTRAINT: "orConstraint",
    }.get(constraint.type)
    for name in ("labelConstraint", "andConstraint", "orConstraint"):
        if name != used:
            constraint.ClearField(name)


def _serialised(message: Message) -> bytes:
    return message.SerializePartialToString(deterministic=True)
