"""Failed calls, as one line for users: without methods, addresses and the codes of gRPC."""

from __future__ import annotations

from peloton.errors import PelotonError, RemoteFailure, Unavailable, Unimplemented

_LATE = "deadline exceeded"
"""What gRPC says of a call that was not answered in time, in small letters."""


def failure_text(error: PelotonError, role: str) -> str:
    """Return what a user is told of a call to a role that failed.

    The texts of errors that no call had stay as they are.
    """
    details = " ".join(error.said.split())
    if isinstance(error, Unimplemented):
        return f"{role} does not know this call: it is of an earlier version"
    if isinstance(error, Unavailable) and details:
        return _unavailable(details, role)
    if isinstance(error, RemoteFailure):
        return f"{role} failed: {details}" if details else f"{role} failed, and does not say why"
    return details or str(error)


def _unavailable(details: str, role: str) -> str:
    if connection := connection_failure(details):
        return f"{role} does not answer: {connection}"
    if details.lower() == _LATE:
        return f"{role} has not answered in time"
    return f"{role} cannot answer now: {details}"


def connection_failure(details: str) -> str:
    """Return why there is no connection, of what gRPC says of a failed call; empty where there is one."""
    lower = details.lower()
    if "connection refused" in lower:
        return "connection refused"
    if "dns resolution failed" in lower or "name resolution" in lower:
        return "its host name is not known"
    if lower.startswith(("failed to connect", "socket closed", "connection reset", "recvmsg")):
        return details.rpartition(": ")[2] or "no connection"
    return ""
