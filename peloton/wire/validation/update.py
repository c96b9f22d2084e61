"""Rules for updates of batch jobs, which only add instances (docs/behaviour/jobs.md)."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, shown
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
)


def validated_update(old: job_pb2.JobConfig, new: job_pb2.JobConfig) -> job_pb2.JobConfig:
    """Return the config to store in place of `old`. Raises InvalidArgument for any change but more instances.

    What `new` leaves out of respoolID and changeLog is taken from `old`. Of the SLA only
    maximumRunningInstances may change: more instances may want to run at once.
    """
    whole = job_pb2.JobConfig()
    whole.CopyFrom(new)
    whole.ClearField("changeLog")
    if old.HasField("changeLog"):
        whole.changeLog.CopyFrom(old.changeLog)
    if not whole.respoolID.value and old.HasField("respoolID"):
        whole.respoolID.CopyFrom(old.respoolID)
    whole = validated(whole)
    for name in _FIXED:
        if getattr(whole, name) != getattr(old, name):
            raise _kept(whole, old, name)
    _check_sla(old, whole)
    _check_instances(old, whole)
    return whole


def _check_sla(old: job_pb2.JobConfig, new: job_pb2.JobConfig) -> None:
    for field in old.sla.DESCRIPTOR.fields:
        was, now = getattr(old.sla, field.name), getattr(new.sla, field.name)
        if was != now and field.name != "maximumRunningInstances":
            raise _kept(new.sla, old.sla, field.name, "sla.")


def _check_instances(old: job_pb2.JobConfig, new: job_pb2.JobConfig) -> None:
    if new.instanceCount < old.instanceCount:
        raise InvalidArgument(
            "instanceCount", new.instanceCount, f"at least {old.instanceCount}: an update cannot shrink a job"
        )
    for instance in sorted({*old.instanceConfig, *new.instanceConfig}):
        if instance < old.instanceCount and _effective_change(old, new, instance):
            raise InvalidArgument(
                f"instanceConfig[{instance}]",
                "another config",
                "what it was: instances that exist keep theirs",
            )


def _effective_change(old: job_pb2.JobConfig, new: job_pb2.JobConfig, instance: int) -> bool:
    """Return whether the merged config differs."""
    return bool(task_config(old, instance) != task_config(new, instance))


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
