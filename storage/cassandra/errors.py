"""Translation of errors of cassandra-driver."""

from __future__ import annotations

import re

from cassandra import (
    AuthenticationFailed,
    CoordinationFailure,
    DriverException,
    OperationTimedOut,
    RequestValidationException,
    Timeout,
)
from cassandra import Unavailable as TooFewReplicas
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.protocol import ErrorMessage
from cassandra.protocol import RequestValidationException as InvalidMessage

from peloton.errors import PelotonError, Refused, Unavailable

DRIVER_ERRORS = (DriverException, NoHostAvailable, ConnectionException, ErrorMessage)
"""All that the driver raises."""
_REFUSED = (RequestValidationException, InvalidMessage)
"""Statements that are invalid, not allowed, or in conflict with the schema."""


_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED\] certificate verify failed: (.+?)\.?(?: \(_ssl.*)?$")
_TOO_OLD = "while using explicitly set client protocol_version"


def translated(error: BaseException) -> PelotonError:
    """Translate an error: a rejected request is Refused, a temporary failure is Unavailable.

    An unknown outcome is Unavailable too.
    """
    if isinstance(error, PelotonError):
        return error
    refusal = next((one for one in _causes(error) if isinstance(one, AuthenticationFailed)), None)
    if refusal is not None:
        return Refused(f"Cassandra does not accept the user or the password: {_line(refusal)}")
    if any(_TOO_OLD in str(one) for one in _causes(error)):
        return Refused("Cassandra is too old: it does not speak its native protocol in version 5")
    untrusted = _untrusted(error)
    if untrusted:
        return Refused(untrusted)
    if isinstance(error, _REFUSED):
        return Refused(f"Cassandra refused: {_line(error)}")
    return Unavailable(f"Cassandra {_description(error)}")


def overloaded(error: BaseException | None) -> bool:
    """Return whether a request was not sent because a connection holds as many bytes as it can."""
    return isinstance(error, NoHostAvailable) and any(
        isinstance(cause, ConnectionBusy) for cause in _by_host(error).values()
    )


def _untrusted(error: BaseException) -> str:
    """Describe which certificates are not trusted, where nothing else is wrong. The driver has it as text."""
    causes = _by_host(error) if isinstance(error, NoHostAvailable) else {}
    matches = {host: _UNTRUSTED.search(_line(cause)) for host, cause in causes.items()}
    wrong = [f"{host} is not trusted: {match[1]}" for host, match in matches.items() if match]
    if not wrong or len(wrong) < len(causes):
        return ""
    return f"the certificate of {'; that of '.join(wrong)} (see storage.tls)"


def _description(error: BaseException) -> str:
    if isinstance(error, NoHostAvailable):
        causes = "; ".join(f"{host}: {_line(cause)}" for host, cause in _by_host(error).items())
        return f"cannot be reached: {causes or str(error.args[0])}"
    if isinstance(error, TooFewReplicas):
        return f"has too few replicas alive: {_line(error)}"
    if isinstance(error, (OperationTimedOut, Timeout)):
        return f"did not answer in time: {_line(error)}"
    if isinstance(error, CoordinationFailure):
        return f"failed at it: {_line(error)}"
    return f"{type(error).__name__}: {_line(error)}"


def _causes(error: BaseException) -> list[BaseException]:
    return [error, *_by_host(error).values()] if isinstance(error, NoHostAvailable) else [error]


def _by_host(error: NoHostAvailable) -> dict[object, BaseException]:
    found = error.errors
    return {str(host): cause for host, cause in found.items()} if isinstance(found, dict) else {}


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
