"""The identity of callers: metadata that daemons send each other, and the check of their terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peloton.errors import Fenced, InvalidArgument

INSTANCE = "peloton-instance"
EPOCH = "peloton-epoch"
TOKEN = "peloton-token"
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The sender of a call.

    `instance` is `<role>/<id>`, empty for clients that are not daemons; `term` is 0 where none was sent.
    """

    instance: str = ""
    role: str = ""
    term: int = 0


def caller_of(metadata: Iterable[tuple[str, str | bytes]]) -> CallerIdentity:
    """Read the caller from metadata. Raises InvalidArgument for a term that is not `<role>:<number>`."""
    instance, role, term = "", "", 0
    for key, value in metadata:
        if key == INSTANCE:
            instance = str(value)
        elif key == EPOCH:
            role, colon, number = str(value).rpartition(":")
            if not (colon and role and number.isascii() and number.isdigit()):
                raise InvalidArgument(EPOCH, value, "<role>:<number>")
            term = int(number)
    return CallerIdentity(instance, role, term)


class Terms:
    """The newest term seen of each role."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def check(self, caller: CallerIdentity) -> None:
        """Raise Fenced for a caller whose successor has called before."""
        if not caller.term:
            return
        newest = self._newest.get(caller.role, 0)
        if caller.term < newest:
            raise Fenced(f"term {caller.term} of {caller.role} is over, the newest is {newest}")
        self._newest[caller.role] = caller.term
