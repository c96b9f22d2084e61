"""Translate errors to gRPC statuses and back."""

from __future__ import annotations

from typing import Any

import grpc

from peloton.errors import (
    REASON,
    STALE,
    AlreadyExists,
    Conflict,
    Fenced,
    IllegalTransition,
    InvalidArgument,
    NotFound,
    PelotonError,
    PermissionDenied,
    Refused,
    RemoteFailure,
    ResourceExhausted,
    StaleVersion,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    reason_of,
)

CHALLENGE = "www-authenticate"
"""Key of the trailing metadata of refusals that has it."""


class InvalidRequest(PelotonError):
    """The server rejects our request: a defect of ours, or input that only the server can check.

    Who passes on a request of its caller answers with the same status.
    """


_CODES: dict[type[PelotonError], grpc.StatusCode] = {
    InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    Conflict: grpc.StatusCode.ABORTED,
    IllegalTransition: grpc.StatusCode.ABORTED,
    Fenced: grpc.StatusCode.ABORTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
}
_ERRORS: dict[grpc.StatusCode, type[PelotonError]] = {
    grpc.StatusCode.FAILED_PRECONDITION: Refused,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unavailable,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
}


def status_of(error: PelotonError) -> grpc.StatusCode:
    """Return the status of an error."""
    for cls in type(error).__mro__:
        if cls in _CODES:
            return _CODES[cls]
    return grpc.StatusCode.INTERNAL


async def abort(context: Any, error: PelotonError) -> None:
    """End a call that is served with an error."""
    await context.abort(status_of(error), str(error), trailing_of(error))


def trailing_of(error: Exception) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata of an error: its reason, and how callers show who they are."""
    challenge = error.challenge if isinstance(error, Unauthenticated) else ""
    reason = error.reason if isinstance(error, PelotonError) else ""
    return tuple((key, value) for key, value in ((CHALLENGE, challenge), (REASON, reason)) if value)


def challenge_of(error: grpc.RpcError) -> str:
    """Return by what the server asks callers to show who they are; empty where it does not say."""
    return _sent(error).get(CHALLENGE, "")


def _sent(error: grpc.RpcError) -> dict[str, str]:
    """Return the trailing metadata of a failed call."""
    sent: Any = error.trailing_metadata() or ()  # pairs, which the types of grpcio do not know
    return {key: str(value) for key, value in sent}


def error_of(error: grpc.RpcError, called: str) -> PelotonError:
    """Translate a failed call; `called` names the method and the address for the message."""
    raised = _error_of(error, called)
    raised.said = error.details() or ""
    return raised


def _error_of(error: grpc.RpcError, called: str) -> PelotonError:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(f"{called}: {details}")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return Unauthenticated(f"{called}: {code.name}: {details}", challenge_of(error))
    if reason_of(code.name, details, _sent(error)) == STALE:
        return StaleVersion(f"{called}: {code.name}: {details}")
    return _ERRORS.get(code, RemoteFailure)(f"{called}: {code.name}: {details}")
