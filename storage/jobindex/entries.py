"""Entries of the job index for a config, the same for every backend.

Keywords are searched in the texts of a config: strings, not numbers, flags or names of fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0.job import job_pb2
from peloton.model.constraint import Label
from peloton.model.job import JobSpec
from peloton.wire.job import job_config


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """The parts of a config that the index holds."""

    summary: bytes
    """The JobConfig without instanceConfig."""
    words: str
    """All texts of the config, those of its instances too, case folded, one a line."""


@dataclass(frozen=True, slots=True)
class IndexedConfig:
    """The entry of one version of a config in the job index."""

    version: int
    summary: bytes
    words: str


def indexed_texts(spec: JobSpec) -> IndexedTexts:
    """Extract the texts of a config."""
    config = job_config(spec)
    words = "\n".join(dict.fromkeys(text.casefold() for text in _texts(config)))
    return IndexedTexts(_summary(config), words)


def summary_of(payload: bytes) -> bytes:
    """Return the summary of a serialised JobConfig."""
    return _summary(job_pb2.JobConfig.FromString(payload))


def label_lines(labels: Iterable[Label]) -> str:
    """Encode each label as a JSON pair on a line of its own, so that it is found as a substring."""
    return "".join(f"\n{json.dumps(label)}\n" for label in labels)


def _summary(config: job_pb2.JobConfig) -> bytes:
    """Serialise the config without instanceConfig, which is cleared."""
    config.ClearField("instanceConfig")
    return config.SerializeToString(deterministic=True)


def _texts(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            yield from value if field.is_repeated else (value,)
        elif field.message_type is not None:
            parts = value.values() if field.message_type.GetOptions().map_entry else value
            for part in parts if field.is_repeated else (value,):
                yield from _texts(part)
