"""Rules for updates of batch jobs, which only add instances (docs/behaviour/jobs.md)."""

from __future__ import annotations

from google.protobuf.message import Message

from jobmgr.validation.job import validated
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.wire.overrides import task_config

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
            raise InvalidArgument(name, _shown(whole, name), f"{_shown(old, name)!r}, which an update keeps")
    _check_sla(old, whole)
    _check_instances(old, whole)
    return whole


def _check_sla(old: job_pb2.JobConfig, new: job_pb2.JobConfig) -> None:
    for field in old.sla.DESCRIPTOR.fields:
        was, now = getattr(old.sla, field.name), getattr(new.sla, field.name)
        if was != now and field.name != "maximumRunningInstances":
            raise InvalidArgument(f"sla.{field.name}", now, f"{was!r}, which an update keeps")


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


def _shown(config: job_pb2.JobConfig, name: str) -> object:
    """Return the value of a field on one line."""
    value = getattr(config, name)
    if isinstance(value, Message):
        return " ".join(str(value).split())
    return value if isinstance(value, str | int) else " ".join(" ".join(map(str, value)).split())
