"""The caller of the present call, as authentication has found it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a principal is."""

    NOBODY = "nobody"
    USER = "user"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a call."""

    name: str
    """Of a user, the name; of a daemon, `<role>/<id>`; empty for the default user and where nobody asks."""
    kind: Kind
    roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as messages name it."""
        if self.kind is Kind.NOBODY:
            return "nobody"
        return f"{self.kind} {self.name}" if self.name else f"the default {self.kind}"


NOBODY = Principal("", Kind.NOBODY)
"""The caller where authentication is off (NOOP)."""

_current: ContextVar[Principal] = ContextVar("principal", default=NOBODY)


def current() -> Principal:
    """Return who makes the present call."""
    return _current.get()


def enter(principal: Principal) -> None:
    """Let the rest of this call be made by a principal. A call has a context of its own."""
    _current.set(principal)
