"""Specs as they may be shown: without the values of environment variables and the data of secrets."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any, TypeVar, cast

from google.protobuf.message import Message

from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.pod import pod_pb2

if TYPE_CHECKING:
    from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2 import GetReplaceJobDiffResponse

M = TypeVar("M", bound=Message)
ENVIRONMENT = "environment"
_KEY = secrets.token_bytes(32)
"""Of this process: nobody can try values out."""
_DIGITS = 8
_VARIABLES = ("mesos.v1.Environment.Variable", pod_pb2.Environment.DESCRIPTOR.full_name)
_SECRETS = (
    "mesos.v1.Secret.Value",
    v0.Secret.Value.DESCRIPTOR.full_name,
    v1alpha.Secret.Value.DESCRIPTOR.full_name,
)


def hidden(value: str) -> str:
    """Return what stands for a value: the same for the same value, and nothing else is known by it."""
    digest = hmac.new(_KEY, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return f"hidden:{digest[:_DIGITS]}"


def shown(message: M) -> M:
    """Return a copy whose variables have no values, and whose secrets no data, that could be read."""
    copy = type(message)()
    copy.CopyFrom(message)
    _hide(copy)
    return copy


def hide_changes(answer: GetReplaceJobDiffResponse) -> None:
    """Take the values of variables out of the changes of an update."""
    for change in answer.changes:
        for field in change.fields:
            if ENVIRONMENT in field.field.lower():
                field.before, field.after = (
                    hidden(text) if text else "" for text in (field.before, field.after)
                )
                field.text = f"{field.field}: {field.key} {field.before or 'none'} → {field.after or 'none'}"


def _hide(message: Message) -> None:
    kind, held = message.DESCRIPTOR.full_name, cast("Any", message)
    if kind in _VARIABLES and held.value:
        held.value = hidden(held.value)
    if kind in _SECRETS:
        message.ClearField("data")
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for each in value.values():
                    _hide(each)
        elif field.is_repeated:
            for each in value:
                _hide(each)
        else:
            _hide(value)
