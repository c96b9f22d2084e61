"""Refusals, as the Status objects that clients of Kubernetes read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peloton.errors import (
    AlreadyExists,
    Conflict,
    InvalidArgument,
    NotFound,
    PelotonError,
    PermissionDenied,
    Refused,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from peloton.web.kube.core.values import Object

NOT_SUPPORTED, REQUIRED, INVALID = "FieldValueNotSupported", "FieldValueRequired", "FieldValueInvalid"
REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}
_CODES: tuple[tuple[type[PelotonError], int, str], ...] = (
    (NotFound, 404, "NotFound"),
    (AlreadyExists, 409, "AlreadyExists"),
    (Conflict, 409, "Conflict"),
    (Refused, 409, "Conflict"),
    (Unauthenticated, 401, "Unauthorized"),
    (PermissionDenied, 403, "Forbidden"),
    (ResourceExhausted, 429, "TooManyRequests"),
    (Unavailable, 503, "ServiceUnavailable"),
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong with one field."""

    field: str
    message: str
    reason: str = NOT_SUPPORTED

    def plain(self) -> Object:
        """Return its JSON form."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class Refusal(Exception):
    """A request is answered by a Status object."""

    def __init__(
        self, code: int, message: str, reason: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        """Without a `reason`, the usual one of the HTTP status counts."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or REASONS.get(code, "Unknown")
        self.details = dict(details or {})

    def status(self) -> Object:
        """Return the Status object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def invalid(kind: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """Return the refusal of an object, with each field that cannot be kept."""
    told = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    text = f"{kind} {name!r} is invalid: {told if len(causes) == 1 else f'[{told}]'}"
    details = {"name": name, "kind": kind, "causes": [cause.plain() for cause in causes]}
    return Refusal(422, text, details=details)


def not_found(plural: str, name: str, group: str = "") -> Refusal:
    """Return the refusal of a request for an object that is not there."""
    resource = f"{plural}.{group}" if group else plural
    details = {"name": name, "group": group, "kind": plural}
    return Refusal(404, f'{resource} "{name}" not found', details=details)


def success(details: Mapping[str, Any]) -> Object:
    """Return the Status object of a request that was carried out and has no other answer."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": dict(details)
    }  # fmt: skip


def refusal_of(error: PelotonError) -> Refusal:
    """Translate the failure of a call."""
    if isinstance(error, InvalidArgument):
        cause = Cause(error.field, error.what, INVALID)
        return Refusal(422, str(error), details={"causes": [cause.plain()]})
    for cls, code, reason in _CODES:
        if isinstance(error, cls):
            return Refusal(code, str(error), reason)
    return Refusal(500, str(error))
