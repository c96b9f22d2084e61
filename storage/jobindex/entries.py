"""Entries of the job index for a config, the same for every backend.

Keywords are searched in the texts of a config.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from peloton.model.constraint import Label
from peloton.model.job import JobSpec
from peloton.wire.payload import summary, summary_and_texts
from storage.codec import decode_payload, encode_payload


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """The parts of a config that the index holds."""

    summary: bytes
    """The payload without the configs of single instances, as stored."""
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
    summarised, texts = summary_and_texts(spec.payload)
    words = "\n".join(dict.fromkeys(text.casefold() for text in texts))
    return IndexedTexts(encode_payload(summarised), words)


def summary_of(payload: bytes) -> bytes:
    """Return the summary of a payload, both as stored."""
    return encode_payload(summary(decode_payload(payload)))


def label_lines(labels: Iterable[Label]) -> str:
    """Encode each label as a JSON pair on a line of its own, so that it is found as a substring."""
    return "".join(f"\n{json.dumps(label)}\n" for label in labels)
