"""Read the payloads of jobs, whichever API they were given by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.model.constraint import Label
from peloton.model.ids import PoolId
from peloton.model.job import JobSpec
from peloton.model.payload import ApiVersion, Payload, SecretRef
from peloton.wire.constraint import labels_from
from peloton.wire.job import job_spec
from peloton.wire.meaning import canonical
from peloton.wire.overrides import task_config
from peloton.wire.v1alpha.constraint import labels_from as v1alpha_labels_from
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of

_MESSAGES: Mapping[ApiVersion, type[Message]] = {
    ApiVersion.V0: job_pb2.JobConfig,
    ApiVersion.V1ALPHA: stateless_pb2.JobSpec,
}
_INSTANCES = {ApiVersion.V0: "instanceConfig", ApiVersion.V1ALPHA: "instance_spec"}
"""The field that holds the configs of single instances."""


class IndexedFields(NamedTuple):
    """The fields of a config that the job index sorts and filters by."""

    name: str
    owning_team: str
    """What queries and summaries call the owner of a job."""
    pool_id: PoolId
    labels: tuple[Label, ...]
    owner: str
    """As given; rights to own jobs are about it."""


def job_config(payload: Payload) -> job_pb2.JobConfig:
    """Return the config as a message of the v0 API, whichever it was given by."""
    if payload.api is ApiVersion.V0:
        return job_pb2.JobConfig.FromString(payload.data)
    return job_config_of(stateless_pb2.JobSpec.FromString(payload.data))


def v1alpha_spec(payload: Payload) -> stateless_pb2.JobSpec:
    """Return the config as a message of the v1alpha API, whichever it was given by; twin fields as given."""
    if payload.api is ApiVersion.V1ALPHA:
        return stateless_pb2.JobSpec.FromString(payload.data)
    return job_spec_of(job_pb2.JobConfig.FromString(payload.data))


def v1alpha_payload(spec: stateless_pb2.JobSpec, secrets: tuple[SecretRef, ...] = ()) -> Payload:
    """Return the payload that keeps a spec of the v1alpha API as it was given, with its secrets."""
    return Payload(ApiVersion.V1ALPHA, spec.SerializeToString(deterministic=True), secrets)


def spec_from_v1alpha(
    spec: stateless_pb2.JobSpec, version: int, secrets: tuple[SecretRef, ...] = ()
) -> JobSpec:
    """Decode a spec of the v1alpha API.

    Raises InvalidArgument, with the path of the field, for what this server does not run.
    """
    return job_spec(job_config_of(spec), version, v1alpha_payload(spec, secrets))


def spec_from_payload(payload: Payload, version: int) -> JobSpec:
    """Decode a stored config."""
    return job_spec(job_config(payload), version, payload)


def same_config(one: Payload, other: Payload) -> bool:
    """Return whether two configs say the same: they differ in their change logs and in spelling at most."""
    if one.api is not other.api or set(one.secrets) != set(other.secrets):
        return False
    return one == other or _said(job_config(one)) == _said(job_config(other))


def _said(config: job_pb2.JobConfig) -> tuple[job_pb2.JobConfig, dict[int, task_pb2.TaskConfig]]:
    """Return a config in the form of all that say the same, and those of its instances, merged."""
    whole = {
        instance: canonical(task_config(config, instance), names=True) for instance in config.instanceConfig
    }
    default = canonical(config.defaultConfig, names=True)
    config.ClearField("instanceConfig")
    config.ClearField("changeLog")
    config.defaultConfig.CopyFrom(default)
    config.labels.sort(key=lambda label: (label.key, label.value))
    return config, {instance: own for instance, own in whole.items() if own != default}


def revised(payload: Payload, version: int, now: int, by: str) -> Payload:
    """Return a config whose change log says that `by` made a version of it; `now`: nanoseconds since 1970."""
    if payload.api is ApiVersion.V1ALPHA:
        spec = stateless_pb2.JobSpec.FromString(payload.data)
        spec.revision.version, spec.revision.updated_at, spec.revision.updated_by = version, now, by
        return replace(payload, data=spec.SerializeToString(deterministic=True))
    config = job_pb2.JobConfig.FromString(payload.data)
    log = config.changeLog
    log.version, log.updatedAt, log.updatedBy = version, now, by
    return replace(payload, data=config.SerializeToString(deterministic=True))


def indexed_fields(payload: Payload) -> IndexedFields:
    """Return what the job index holds of a config, without decoding the rest."""
    if payload.api is ApiVersion.V1ALPHA:
        spec = stateless_pb2.JobSpec.FromString(payload.data)
        return IndexedFields(
            spec.name,
            spec.owning_team,
            spec.respool_id.value,
            v1alpha_labels_from(spec.labels),
            spec.owner,
        )
    config = job_pb2.JobConfig.FromString(payload.data)
    return IndexedFields(
        config.name, config.owningTeam, config.respoolID.value, labels_from(config.labels), config.owner
    )


def summary(payload: Payload) -> Payload:
    """Return the payload without the configs of single instances."""
    return _summary(payload, _message(payload))


def summary_and_texts(payload: Payload) -> tuple[Payload, list[str]]:
    """Return the summary, and all texts of the config: strings, not numbers, flags or names of fields."""
    message = _message(payload)
    texts = list(_texts(message))
    return _summary(payload, message), texts


def _message(payload: Payload) -> Message:
    """Return the config as it was given."""
    return _MESSAGES[payload.api].FromString(payload.data)


def _summary(payload: Payload, message: Message) -> Payload:
    """Clear the configs of instances in the message, and serialise it."""
    message.ClearField(_INSTANCES[payload.api])
    return replace(payload, data=message.SerializeToString(deterministic=True))


def _texts(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            yield from value if field.is_repeated else (value,)
        elif field.message_type is not None:
            parts = value.values() if field.message_type.GetOptions().map_entry else value
            for part in parts if field.is_repeated else (value,):
                yield from _texts(part)
