"""Refusals that answers hold, as one line for users."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from peloton.errors import NotFound, Refused
from peloton.model.plural import plural

_OF_CONFIGS = ("InvalidJobConfig", "InvalidResourcePoolConfig")
_ABSENT = ("NotFound", "OutOfRange")
"""Ends of the names of messages that say that there is no such subject."""
_REFUSALS = ("error", "notFound", "outOfRange")


class NotThere(Refused, NotFound):
    """A refusal because what the call is about does not exist."""


def check(response: Any) -> None:
    """Raise Refused where a field of an answer says that the call was refused (docs/behaviour/system.md).

    Raises NotThere, which is a Refused, where the subject of the call does not exist.
    """
    for name in _REFUSALS:
        field = response.DESCRIPTOR.fields_by_name.get(name)
        if field is not None and field.message_type is not None and response.HasField(name):
            inner = getattr(response, name)
            raise _of_error(inner) if name == "error" else _of_refusal(inner)


def _of_error(error: Any) -> Refused:
    for _, value in error.ListFields():
        if isinstance(value, Message):
            return _of_refusal(value)
    return Refused(str(getattr(error, "message", "")) or "refused, without a reason")


def _of_refusal(refusal: Any) -> Refused:
    absent = str(refusal.DESCRIPTOR.name).endswith(_ABSENT)
    return NotThere(_refusal_text(refusal)) if absent else Refused(_refusal_text(refusal))


def _refusal_text(refusal: Any) -> str:
    text = str(getattr(refusal, "message", "")).strip()
    value = next((part.value for _, part in refusal.ListFields() if hasattr(part, "value")), "")
    kind = str(refusal.DESCRIPTOR.name)
    if text:
        # The id of what was not created means nothing to the caller.
        known = not value or value in text or kind in _OF_CONFIGS
        return text if known else f"{text}: {value}"
    if kind == "InstanceIdOutOfRange":
        count = refusal.instanceCount
        there = f"{plural(count, 'instance')}, 0 to {count - 1}" if count > 1 else "one instance, 0"
        return f"no such instance: the job has {there}" if count else "no such instance"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind).strip()
    return f"{words}: {value}" if value else words
