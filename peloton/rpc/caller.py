"""The identity of callers: metadata that daemons send each other, and the check of their terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peloton import __version__
from peloton.errors import Fenced, InvalidArgument, Refused
from peloton.model.versions import mismatch

INSTANCE = "peloton-instance"
EPOCH = "peloton-epoch"
TOKEN = "peloton-token"
VERSION = "peloton-version"
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The sender of a call.

    `instance` is `<role>/<id>`, empty for clients that are not daemons; `term` is 0 where none was sent.
    """

    instance: str = ""
    role: str = ""
    term: int = 0
    version: str = ""
    """The version of the caller's program; empty where it says none."""


def caller_of(metadata: Iterable[tuple[str, str | bytes]]) -> CallerIdentity:
    """Read the caller from metadata. Raises InvalidArgument for a term that is not `<role>:<number>`."""
    instance, role, term, version = "", "", 0, ""
    for key, value in metadata:
        if key == INSTANCE:
            instance = str(value)
        elif key == VERSION:
            version = str(value)
        elif key == EPOCH:
            role, colon, number = str(value).rpartition(":")
            if not (colon and role and number.isascii() and number.isdigit()):
                raise InvalidArgument(EPOCH, value, "<role>:<number>")
            term = int(number)
    return CallerIdentity(instance, role, term, version)


class Terms:
    """The newest term seen of each role."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def check(self, caller: CallerIdentity) -> None:
        """Raise Fenced for a caller whose successor has called, Refused for a daemon that is too old."""
        if caller.instance and (why := mismatch(__version__, caller.version)):
            raise Refused(f"{caller.instance}: {why}")
        if not caller.term:
            return
        newest = self._newest.get(caller.role, 0)
        if caller.term < newest:
            raise Fenced(f"term {caller.term} of {caller.role} is over, the newest is {newest}")
        self._newest[caller.role] = caller.term
