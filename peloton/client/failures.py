"""Calls that failed, as errors with code, field and value."""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.protobuf.message import Message

from peloton.errors import PelotonError, reason_of

CODES = grpc.StatusCode
_ARGUMENT = re.compile(r"(?:[^:]*: )??([A-Za-z_][\w.\[\]-]*): (.+?) is not (.+)", re.DOTALL)
_REFUSALS = ("error", "notFound", "outOfRange")
_BY_NAME = (
    ("alreadyexists", CODES.ALREADY_EXISTS),
    ("notfound", CODES.NOT_FOUND),
    ("outofrange", CODES.OUT_OF_RANGE),
    ("invalid", CODES.INVALID_ARGUMENT),
    ("notrunning", CODES.FAILED_PRECONDITION),
)


class CallError(PelotonError):
    """A call that failed, by its gRPC status or by what its answer says.

    `field`, `value` and `expected` are those of an argument that was refused, else empty. `reason` is
    "stale-version" where the version that the caller names is not the present one, else mostly empty.
    """

    def __init__(
        self, code: grpc.StatusCode, message: str, method: str = "", value: str = "", reason: str = ""
    ) -> None:
        found = _ARGUMENT.fullmatch(message) if code is CODES.INVALID_ARGUMENT else None
        self.code = code
        self.method = method
        self.reason = reason
        self.field = found[1] if found else ""
        self.value = found[2].strip("'\"") if found else value
        self.expected = found[3] if found else ""
        super().__init__(f"{method}: {code.name}: {message}" if method else message)

    @property
    def passing(self) -> bool:
        """Whether the failure is of the moment: no leader, or none that answers."""
        return self.code in (CODES.UNAVAILABLE, CODES.DEADLINE_EXCEEDED)


def call_error(method: str, error: grpc.RpcError) -> CallError:
    """Return the failure of a call."""
    return CallError(error.code(), str(error.details() or ""), method, reason=reason(error))


def reason(error: grpc.RpcError) -> str:
    """Return the code of why a call failed, where its status alone does not say what to do; else empty."""
    sent: Any = error.trailing_metadata() or ()  # pairs, which the types of grpcio do not know
    return reason_of(error.code().name, str(error.details() or ""), dict(tuple(sent)))


def refusal(answer: Message, method: str = "") -> CallError | None:
    """Return the failure that an answer of a v0 service tells, None where it tells none."""
    for name in _REFUSALS:
        field = answer.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.message_type is None or not answer.HasField(name):
            continue
        held: Any = getattr(answer, name)
        if name != "error":
            return _refusal(name, held, method)
        inner = next(
            ((each.name, part) for each, part in held.ListFields() if isinstance(part, Message)), None
        )
        if inner is not None:
            return _refusal(*inner, method)
        return CallError(CODES.UNKNOWN, getattr(held, "message", "") or "refused, without a reason", method)
    return None


def _refusal(name: str, message: Any, method: str) -> CallError:
    kind = f"{name} {message.DESCRIPTOR.name}".lower()
    code = next((code for part, code in _BY_NAME if part in kind), CODES.UNKNOWN)
    value = next((part.value for _, part in message.ListFields() if hasattr(part, "value")), "")
    return CallError(code, getattr(message, "message", "") or name, method, value)
