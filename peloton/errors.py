"""Failures in Peloton's own terms. Adapters map their driver's errors to these in one place each.

"Lost" or "not there" is a value or `NotFound`; "cannot tell" is `Unavailable`, never an empty answer.
"""

from __future__ import annotations


class PelotonError(Exception):
    """Base of all that may be told to a caller. The message is one line for a human."""


class InvalidArgument(PelotonError):
    """What was given is wrong: names the field's path, its value, and what would be right."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{field}: {shown(value)} is not {expected}")


class Refused(PelotonError):
    """What was asked cannot be granted as things stand; the message says why."""


class NotFound(PelotonError):
    pass


class AlreadyExists(PelotonError):
    pass


class Conflict(PelotonError):
    """Somebody else changed it first; read again."""


class Fenced(PelotonError):
    """The caller's term as leader is over: its writes must lose."""


class Unavailable(PelotonError):
    """Cannot be answered now, or by this instance; may come back."""


class ResourceExhausted(PelotonError):
    """A bound is reached: the caller must slow down."""


class RemoteFailure(PelotonError):
    """The other daemon failed at it in a way that has no name here; whether it took effect is unknown."""


class IllegalTransition(PelotonError):
    """A state machine was given an event that its table does not know in that state."""


def shown(value: object, longest: int = 80) -> str:
    """Render a value for an error message, cut to `longest` characters."""
    text = repr(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"
