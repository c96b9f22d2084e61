"""Rules for updates of batch jobs, which only add instances (docs/behaviour/jobs.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, shown
from peloton.wire.meaning import canonical
from peloton.wire.overrides import task_config
from peloton.wire.validation.job import validated

_FIXED = (
    "name",
    "type",
    "owningTeam",
    "ldapGroups",
    "description",
    "labels",
    "defaultConfig",
    "respoolID",
    "owner",
    "placementStrategy",
    "workload",
    "dependsOn",
    "schedule",
)


def validated_update(
    old: job_pb2.JobConfig, new: job_pb2.JobConfig, released: Callable[[int], bool] = lambda instance: False
) -> job_pb2.JobConfig:
    """Return the config to store in place of `old`. Raises InvalidArgument for any change but more instances.

    Instances that are `released` do not exist: their numbers may get another instanceConfig. What `new`
    leaves out of respoolID and changeLog is taken from `old`. Of the SLA only maximumRunningInstances may
    change: more instances may want to run at once.
    """
    whole = job_pb2.JobConfig()
    whole.CopyFrom(new)
    whole.ClearField("changeLog")
    if old.HasField("changeLog"):
        whole.changeLog.CopyFrom(old.changeLog)
    if not whole.respoolID.value and old.HasField("respoolID"):
        whole.respoolID.CopyFrom(old.respoolID)
    _keep_found(old, whole)
    whole = validated(whole)
    for name in _FIXED:
        if getattr(whole, name) != getattr(old, name) and not _same(whole, old, name):
            raise _kept(whole, old, name)
    _check_sla(old, whole)
    _check_instances(old, whole, released)
    _keep_spelling(old, whole, released)
    return whole


def _keep_found(old: job_pb2.JobConfig, new: job_pb2.JobConfig) -> None:
    """Give dependencies that are as they were the jobs that were found for them."""
    for was, now in zip(old.dependsOn, new.dependsOn, strict=False):
        if not now.job_id and (now.job, now.pool) == (was.job, was.pool):
            now.job_id = was.job_id


def _keep_spelling(old: job_pb2.JobConfig, new: job_pb2.JobConfig, released: Callable[[int], bool]) -> None:
    """Keep the stored spelling of what says the same, so that a repeated update is no other version."""
    new.ClearField("labels")
    new.labels.extend(old.labels)
    new.defaultConfig.CopyFrom(old.defaultConfig)
    for instance in [each for each in new.instanceConfig if each < old.instanceCount and not released(each)]:
        del new.instanceConfig[instance]
    for instance, own in old.instanceConfig.items():
        if instance < old.instanceCount and not released(instance):
            new.instanceConfig[instance].CopyFrom(own)


def _same(new: job_pb2.JobConfig, old: job_pb2.JobConfig, name: str) -> bool:
    """Return whether a field that is spelled in another way says the same."""
    if name == "labels":
        now, was = (sorted((label.key, label.value) for label in job.labels) for job in (new, old))
        return now == was
    if name == "defaultConfig":
        return _said(new.defaultConfig) == _said(old.defaultConfig)
    return False


def _check_sla(old: job_pb2.JobConfig, new: job_pb2.JobConfig) -> None:
    for field in old.sla.DESCRIPTOR.fields:
        was, now = getattr(old.sla, field.name), getattr(new.sla, field.name)
        if was != now and field.name != "maximumRunningInstances":
            raise _kept(new.sla, old.sla, field.name, "sla.")


def _check_instances(old: job_pb2.JobConfig, new: job_pb2.JobConfig, released: Callable[[int], bool]) -> None:
    if new.instanceCount < old.instanceCount:
        raise InvalidArgument(
            "instanceCount", new.instanceCount, f"at least {old.instanceCount}: an update cannot shrink a job"
        )
    for instance in sorted({*old.instanceConfig, *new.instanceConfig}):
        exists = instance < old.instanceCount and not released(instance)
        if exists and _effective_change(old, new, instance):
            raise InvalidArgument(
                f"instanceConfig[{instance}]",
                "another config",
                "what it was: instances that exist keep theirs",
            )


def _effective_change(old: job_pb2.JobConfig, new: job_pb2.JobConfig, instance: int) -> bool:
    """Return whether the merged config differs."""
    was, now = task_config(old, instance), task_config(new, instance)
    return was != now and _said(was) != _said(now)


def _said(config: task_pb2.TaskConfig) -> bytes:
    """Return the form of all configs that say the same."""
    return canonical(config, names=True).SerializeToString(deterministic=True)


def _kept(new: Message, old: Message, name: str, path: str = "") -> InvalidArgument:
    """Return the error for the innermost field that differs below the field `name`, which does."""
    field = new.DESCRIPTOR.fields_by_name[name]
    now, was = getattr(new, name), getattr(old, name)
    if field.message_type is not None and not field.is_repeated and not _is_id(field.message_type):
        inner = next(
            (f.name for f in now.DESCRIPTOR.fields if getattr(now, f.name) != getattr(was, f.name)), ""
        )
        if inner:
            return _kept(now, was, inner, f"{path}{name}.")
    return InvalidArgument(
        path + name, _shown(field, now), f"{shown(_shown(field, was))}, which an update keeps"
    )


def _is_id(message: Descriptor) -> bool:
    """Return whether a message only wraps a text; the field that holds it says what that is."""
    return [field.name for field in message.fields] == ["value"]


def _shown(field: FieldDescriptor, value: Any) -> object:
    """Return a value on one line."""
    if field.is_repeated:
        return ", ".join(" ".join(str(one).split()) for one in value)
    if field.message_type is not None and _is_id(field.message_type):
        return value.value
    if field.message_type is not None:
        return " ".join(str(value).split())
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    return value
