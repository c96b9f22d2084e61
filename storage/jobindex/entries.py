"""What the job index holds of a config, the same for every backend.

Keywords are looked for in the config's texts: strings, not numbers, flags or names of fields.
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
    summary: bytes
    """The JobConfig without instanceConfig."""
    words: str
    """All texts of the config, those of its instances too, case folded, one a line."""


@dataclass(frozen=True, slots=True)
class IndexedConfig:
    """What the job index holds of a version."""

    version: int
    summary: bytes
    words: str


def indexed_texts(spec: JobSpec) -> IndexedTexts:
    config = job_config(spec)
    words = "\n".join(dict.fromkeys(text.casefold() for text in _texts(config)))
    return IndexedTexts(_summary(config), words)


def summary_of(payload: bytes) -> bytes:
    """Of a serialised JobConfig: what IndexedTexts.summary is."""
    return _summary(job_pb2.JobConfig.FromString(payload))


def label_lines(labels: Iterable[Label]) -> str:
    """One JSON pair a line, each with a line feed before and after, so that a label is found as a part."""
    return "".join(f"\n{json.dumps(label)}\n" for label in labels)


def _summary(config: job_pb2.JobConfig) -> bytes:
    """Changes the config."""
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
