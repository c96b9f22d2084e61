"""Messages made from their descriptors, with some knowledge of what names something in the cluster."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.message import DecodeError, Message

from tests.fuzz import values

DEEP, VERY_DEEP = 6, 60
KEPT = 40
"""Messages of a type, and words of a kind, that are remembered."""
WORDS = {
    "pool": "pool",
    "job": "job",
    "task": "task",
    "pod": "task",
    "host": "host",
    "offer": "offer",
    "lease": "offer",
    "version": "version",
    "volume": "volume",
    "update": "update",
    "workflow": "update",
    "agent": "agent",
    "watch": "watch",
    "stream": "stream",
}


class Corpus:
    """Names of what there is, and messages that were valid."""

    def __init__(self) -> None:
        self.words: dict[str, deque[str]] = {}
        self.messages: dict[str, deque[Message]] = {}

    def learn(self, word: str, *values: str) -> None:
        """Remember names of a kind."""
        kept = self.words.setdefault(word, deque(maxlen=KEPT))
        kept.extend(each for each in values if each and each not in kept)

    def known(self, name: str) -> list[str]:
        """Return names for a field, by its path's last names."""
        lowered = name.lower()
        for part, word in WORDS.items():
            if part in lowered and (found := self.words.get(word)):
                return list(found)
        return [] if "id" not in lowered else [each for found in self.words.values() for each in found]

    def keep(self, message: Message) -> None:
        """Remember a message and its parts."""
        name = message.DESCRIPTOR.full_name
        kept = self.messages.setdefault(name, deque(maxlen=KEPT))
        kept.append(message)
        for _, value in message.ListFields():
            for each in _parts(value):
                self.keep(each)

    def harvest(self, message: Message, name: str = "") -> None:
        """Remember the names in an answer."""
        for field, value in message.ListFields():
            inner = f"{name}.{field.name}"
            if field.type == F.TYPE_STRING:
                texts = value if field.is_repeated else [value]
                if field.name in ("value", "id", "hostname", "hostnames", "path") or "Id" in field.name:
                    self._learn(inner, texts)
            elif field.message_type is not None:
                for each in list(_parts(value))[:5]:
                    self.harvest(each, inner)

    def _learn(self, name: str, texts: Any) -> None:
        for part, word in WORDS.items():
            if part in name.lower():
                # A text of proto2 that is not UTF-8 is read as bytes, which no field would take.
                short = (each for each in list(texts)[:5] if isinstance(each, str) and len(each) < 100)
                self.learn(word, *short)
                return


def _parts(value: Any) -> Iterator[Message]:
    """Return the messages in a field's value: itself, those of a list, those of a map."""
    if isinstance(value, Message):
        yield value
    elif hasattr(value, "values"):
        yield from (each for each in value.values() if isinstance(each, Message))
    elif not isinstance(value, str | bytes | int | float):
        yield from (each for each in value if isinstance(each, Message))


def non_finite(message: Message) -> bool:
    """Return whether some number in a message is NaN or infinite."""
    for field, value in message.ListFields():
        if field.cpp_type in (F.CPPTYPE_DOUBLE, F.CPPTYPE_FLOAT):
            if not all(map(math.isfinite, value if field.is_repeated else [value])):
                return True
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            part = field.message_type.fields_by_name["value"]
            if part.cpp_type in (F.CPPTYPE_DOUBLE, F.CPPTYPE_FLOAT) and not all(
                map(math.isfinite, value.values())
            ):
                return True
        if any(map(non_finite, _parts(value))):
            return True
    return False


class Maker:
    """Makes messages; the same seed makes the same ones from the same corpus."""

    def __init__(self, rng: random.Random, corpus: Corpus) -> None:
        self._rng = rng
        self._corpus = corpus

    def request(self, descriptor: Any) -> bytes:
        """Return the bytes of a request: made, changed, broken, with text that is not UTF-8, or anything."""
        kind = self._rng.random()
        if kind < 0.03:
            return self._rng.randbytes(self._rng.randrange(60))
        kept = self._corpus.messages.get(descriptor.full_name)
        if kept and kind < 0.6:
            message = self.changed(self._rng.choice(kept))
        else:
            message = self.made(descriptor, "", 0)
        raw = message.SerializePartialToString()
        if kind > 0.97:
            return values.broken_text(self._rng, raw)
        return values.mutated(self._rng, raw) if kind > 0.9 else raw

    def made(self, descriptor: Descriptor, name: str, depth: int, density: float = 0.5) -> Message:
        """Make a message of a type; `name` is that of the fields that lead to it."""
        kept = self._corpus.messages.get(descriptor.full_name)
        if depth and kept and self._rng.random() < 0.6:
            found = self._rng.choice(kept)
            return found if self._rng.random() < 0.6 else self.changed(found)
        message = message_factory.GetMessageClass(descriptor)()
        deepest = VERY_DEEP if self._rng.random() < 0.01 else DEEP
        for field in descriptor.fields:
            if depth > deepest and field.message_type is not None:
                continue
            if field.label == F.LABEL_REQUIRED or self._rng.random() < density:
                self._set(message, field, f"{name}.{field.name}", depth)
        return message

    def changed(self, given: Message, depth: int = 0) -> Message:
        """Return a message with some of its fields, at any depth, set anew, left out or doubled."""
        message = type(given)()
        message.CopyFrom(given)
        for _ in range(self._rng.randint(1, 3)):
            self._change(message, "", depth)
        return message

    def _change(self, message: Any, name: str, depth: int) -> None:
        fields = list(message.DESCRIPTOR.fields)
        if not fields:
            return
        present = [field for field, _ in message.ListFields()]
        field = self._rng.choice(present if present and self._rng.random() < 0.6 else fields)
        inner = f"{name}.{field.name}"
        parts = list(_parts(getattr(message, field.name)))
        if parts and field in present and self._rng.random() < 0.75:
            self._change(self._rng.choice(parts), inner, depth + 1)
        elif self._rng.random() < 0.2:
            message.ClearField(field.name)
        else:
            self._set(message, field, inner, depth)

    def _set(self, message: Any, field: F, name: str, depth: int) -> None:
        rng = self._rng
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._set_map(getattr(message, field.name), field, name, depth)
        if field.is_repeated:
            target = getattr(message, field.name)
            for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
                if field.message_type is not None:
                    target.add().CopyFrom(self.made(field.message_type, name, depth + 1, 0.4))
                else:
                    target.append(self._scalar(field, name))
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(self.made(field.message_type, name, depth + 1, 0.4))
        else:
            setattr(message, field.name, self._scalar(field, name))
        return None

    def _set_map(self, target: Any, field: F, name: str, depth: int) -> None:
        key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
        for _ in range(self._rng.choice((0, 1, 2))):
            at = self._scalar(key, name)
            if value.message_type is not None:
                target[at].CopyFrom(self.made(value.message_type, name, depth + 1, 0.4))
            else:
                target[at] = self._scalar(value, name)

    def _scalar(self, field: F, name: str) -> Any:
        rng = self._rng
        if field.cpp_type == F.CPPTYPE_ENUM:
            return self._enum(field)
        if field.cpp_type == F.CPPTYPE_BOOL:
            return rng.random() < 0.5
        if field.cpp_type in (F.CPPTYPE_DOUBLE, F.CPPTYPE_FLOAT):
            return values.floating(rng) if field.cpp_type == F.CPPTYPE_DOUBLE else rng.choice((0.0, 1.5))
        if field.type == F.TYPE_BYTES:
            return values.octets(rng)
        if field.cpp_type == F.CPPTYPE_STRING:
            return values.text(rng, self._corpus.known(".".join(name.split(".")[-2:])), name)
        return values.number(rng, field)

    def _enum(self, field: F) -> int:
        numbers = list(field.enum_type.values_by_number)
        if not field.enum_type.is_closed and self._rng.random() < 0.1:
            return self._rng.choice((-1, 99, 2**31 - 1, -(2**31)))
        return int(self._rng.choice(numbers))


def parsed(kind: type[Message], raw: bytes) -> Message | None:
    """Return the message, None where the bytes are none."""
    message = kind()
    try:
        message.ParseFromString(raw)
    except DecodeError:
        return None
    return message
