"""Failures in Peloton's own terms. Each adapter maps the errors of its driver to these in one place.

"Lost" or "not there" is a value or `NotFound`; "cannot tell" is `Unavailable`, never an empty answer.
"""

from __future__ import annotations

from collections.abc import Mapping

REASON = "peloton-reason"
"""Key of the trailing metadata of a failed call that has the error's `reason`."""
STALE = "stale-version"
"""The reason of StaleVersion."""
_STALE_TEXTS = ("unexpected entity version", " is stale: ")
"""Parts of the messages of servers that send no reason."""


class PelotonError(Exception):
    """Base of all errors that callers may see. The message is one line for users."""

    reason = ""
    """A code for programs, where the kind of failure alone does not say what to do."""
    said = ""
    """What the server said, where a call failed: without the method, the address and the status."""


class InvalidArgument(PelotonError):
    """A given value is invalid: the message has the path of the field, the value, and what is valid."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        self.what = f"is missing: give {expected}" if value is None else f"{shown(value)} is not {expected}"
        """The message without the field."""
        super().__init__(f"{field}: {self.what}")


class Refused(PelotonError):
    """The request cannot be granted in the present state; the message says why."""


class NotFound(PelotonError):
    """The subject does not exist."""


class AlreadyExists(PelotonError):
    """The subject to be created exists."""


class Conflict(PelotonError):
    """Another writer changed the subject first; read it again."""


class StaleVersion(Conflict):
    """The version that the caller names is not the present one: others changed the subject meanwhile."""

    reason = STALE

    def __init__(self, text: str = "unexpected entity version") -> None:
        """Say which version; older clients know the text that entity versions have, so it has no addition."""
        super().__init__(text)


class Fenced(PelotonError):
    """The term of the caller as leader is over: its writes must lose."""


class Unavailable(PelotonError):
    """Cannot be answered now, or by this instance; a later try may succeed."""


class ResourceExhausted(PelotonError):
    """A limit is reached: the caller must slow down."""


class Unauthenticated(PelotonError):
    """The caller has not shown who it is, or not truly."""

    def __init__(self, text: str = "", challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge
        """By what callers are asked to show it, as HTTP's WWW-Authenticate has it; empty where not known."""


class PermissionDenied(PelotonError):
    """The caller is known, and may not do this."""


class RemoteFailure(PelotonError):
    """The other daemon failed in a way without a name here; whether the call took effect is unknown."""


class Unimplemented(RemoteFailure):
    """The other daemon has no such method: it is of an older version. The call had no effect."""


class IllegalTransition(PelotonError):
    """A state machine got an event that its table does not have for that state."""


def reason_of(status: str, details: str, sent: Mapping[str, object]) -> str:
    """Return the reason of a failed call, by its status and trailing metadata; empty where it has none.

    The text counts only where a server sends no reasons.
    """
    if REASON in sent:
        return str(sent[REASON])
    stale = status == "ABORTED" and any(part in details for part in _STALE_TEXTS)
    return STALE if stale else ""


def shown(value: object, longest: int = 80) -> str:
    """Render a value for an error message, cut to `longest` characters."""
    text = repr(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"
