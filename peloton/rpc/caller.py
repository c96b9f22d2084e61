"""The identity of callers: metadata that daemons send each other, and the check of their terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peloton import __version__
from peloton.errors import Fenced, InvalidArgument, Refused
from peloton.membership.interface import Role
from peloton.model.versions import mismatch
from peloton.sharding.claims import KEY, NewestClaims

INSTANCE = "peloton-instance"
EPOCH = "peloton-epoch"
TOKEN = "peloton-token"
VERSION = "peloton-version"
SHARDS = KEY
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
    shards: str = ""
    """Its claim to shards of jobs (`peloton.sharding.claims`); empty where it says nothing of shards."""


def caller_of(metadata: Iterable[tuple[str, str | bytes]]) -> CallerIdentity:
    """Read the caller from metadata. Raises InvalidArgument for a term that is not `<role>:<number>`."""
    instance, role, term, version, shards = "", "", 0, "", ""
    for key, value in metadata:
        if key == INSTANCE:
            instance = str(value)
        elif key == VERSION:
            version = str(value)
        elif key == SHARDS:
            shards = str(value)
        elif key == EPOCH:
            role, colon, number = str(value).rpartition(":")
            if not (colon and role and number.isascii() and number.isdigit()):
                raise InvalidArgument(EPOCH, value, "<role>:<number>")
            term = int(number)
    return CallerIdentity(instance, role, term, version, shards)


class Terms:
    """The newest term seen of each role, and of each shard of jobs."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._claims = NewestClaims()

    def check(self, caller: CallerIdentity) -> None:
        """Raise Fenced for a caller whose successor has called, Refused for a daemon that is too old.

        Nothing of a call that is refused counts. Raises InvalidArgument for what is no claim to shards.
        """
        if caller.instance and (why := mismatch(__version__, caller.version)):
            raise Refused(f"{caller.instance}: {why}")
        if caller.term and caller.term < (newest := self._newest.get(caller.role, 0)):
            raise Fenced(f"term {caller.term} of {caller.role} is over, the newest is {newest}")
        if caller.shards:
            self._claims.check(caller.shards)
        elif caller.term and caller.role == Role.JOBMGR.value:  # of a version before there were shards
            self._claims.check_all(caller.term)
        if caller.term:
            self._newest[caller.role] = caller.term
