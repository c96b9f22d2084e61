"""What a call says of itself in its metadata: who calls, by which name, and the id of the request.

None of it is checked: `peloton.identity.principal` has who calls for certain.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextvars import ContextVar

CALLER, SERVICE, REQUEST_ID, VERSION = "rpc-caller", "rpc-service", "x-request-id", "peloton-version"
LONGEST_CHARACTERS = 200
"""Letters of a value that are kept."""


class Said:
    """The names of the caller, of the service that it means, and of the request; and the caller's version."""

    __slots__ = ("_id", "caller", "service", "version")

    def __init__(self, caller: str = "", service: str = "", request_id: str = "", version: str = "") -> None:
        """Use the version of the client's or daemon's program; empty where it says none."""
        self.caller, self.service, self._id, self.version = caller, service, request_id, version

    @property
    def request_id(self) -> str:
        """The id that the caller gave, or one that is made when it is asked for."""
        if not self._id:
            self._id = uuid.uuid4().hex
        return self._id


def said(metadata: Iterable[tuple[str, str | bytes]]) -> Said:
    """Read what a call says of itself."""
    keys = (CALLER, SERVICE, REQUEST_ID, VERSION)
    found = {key: value for key, value in metadata if key in keys}
    return Said(*(_text(found.get(key, "")) for key in keys))


def _text(value: str | bytes) -> str:
    """Return a value as it may stand in a line of a log."""
    text = value if isinstance(value, str) else value.decode(errors="replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_CHARACTERS])


_current: ContextVar[Said | None] = ContextVar("said", default=None)


def enter(metadata: Iterable[tuple[str, str | bytes]]) -> Said:
    """Let the rest of this call know what it says of itself. A call has a context of its own."""
    found = said(metadata)
    _current.set(found)
    return found


def request_id() -> str:
    """Return the id of the request that the present call belongs to; empty outside of calls."""
    found = _current.get()
    return "" if found is None else found.request_id
