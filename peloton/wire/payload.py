"""Read the payloads of jobs, whichever API they were given by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.constraint import Label
from peloton.model.ids import PoolId
from peloton.model.job import JobSpec
from peloton.model.payload import ApiVersion, Payload
from peloton.wire.constraint import labels_from
from peloton.wire.job import config_payload, job_spec


class IndexedFields(NamedTuple):
    """The fields of a config that the job index sorts and filters by."""

    name: str
    owner: str
    pool_id: PoolId
    labels: tuple[Label, ...]


def job_config(payload: Payload) -> job_pb2.JobConfig:
    """Return the config as a message of the v0 API. Raises InvalidArgument for a payload of another API."""
    if payload.api is not ApiVersion.V0:
        raise InvalidArgument(
            "payload.api", payload.api.value, f"{ApiVersion.V0.value}, the one that is served"
        )
    return job_pb2.JobConfig.FromString(payload.data)


def spec_from_payload(payload: Payload, version: int) -> JobSpec:
    """Decode a stored config. Raises InvalidArgument as `job_config` does."""
    return job_spec(job_config(payload), version)


def indexed_fields(payload: Payload) -> IndexedFields:
    """Return what the job index holds of a config, without decoding the rest."""
    config = job_config(payload)
    return IndexedFields(config.name, config.owner, config.respoolID.value, labels_from(config.labels))


def summary(payload: Payload) -> Payload:
    """Return the payload without the configs of single instances."""
    return _summary(job_config(payload))


def summary_and_texts(payload: Payload) -> tuple[Payload, list[str]]:
    """Return the summary, and all texts of the config: strings, not numbers, flags or names of fields."""
    config = job_config(payload)
    texts = list(_texts(config))
    return _summary(config), texts


def _summary(config: job_pb2.JobConfig) -> Payload:
    """Clear the configs of instances in the message, and serialise it."""
    config.ClearField("instanceConfig")
    return config_payload(config)


def _texts(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            yield from value if field.is_repeated else (value,)
        elif field.message_type is not None:
            parts = value.values() if field.message_type.GetOptions().map_entry else value
            for part in parts if field.is_repeated else (value,):
                yield from _texts(part)
