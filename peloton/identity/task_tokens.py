"""The tokens by which tasks show which run they are: signed by job managers, and checked by them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from peloton.clock import NANOSECONDS
from peloton.config.key_files import keys_in
from peloton.errors import InvalidArgument, Unauthenticated, Unavailable
from peloton.identity.principal import Kind, Principal
from peloton.model.ids import Run, mesos_task_id, parse_mesos_task_id

PREFIX = "peloton-task."
"""How each token begins: it is told from those of identity providers, and found where it must not be."""
SETTING = "task_access.keys_file"
LONGEST = 512


@dataclass(frozen=True, slots=True)
class TaskClaim:
    """What a token says."""

    run: Run
    expires: int
    """Seconds since 1970 after which the token does nothing but be renewed."""


@dataclass(frozen=True, slots=True)
class TaskKeys:
    """The keys of a cluster. The first signs, and all are accepted: so they can be changed."""

    keys: Sequence[bytes] = field(repr=False)

    def sign(self, claim: TaskClaim) -> str:
        """Return the token of a run: `peloton-task.<run>.<expires>.<HMAC-SHA256>`."""
        said = f"{PREFIX}{mesos_task_id(*claim.run)}.{claim.expires}"
        return f"{said}.{_signature(self.keys[0], said)}"

    def read(self, token: str) -> TaskClaim:
        """Return what a token says. Raises Unauthenticated unless one of the keys signed it."""
        said, _, signature = token.rpartition(".")
        given = signature.encode(errors="replace")
        right = [hmac.compare_digest(given, _signature(key, said).encode()) for key in self.keys]
        if len(token) > LONGEST or not any(right):
            raise Unauthenticated("the token is none that this cluster gives to tasks")
        return claim_of(token)


@dataclass(slots=True)
class TaskDoor:
    """Tells which task calls, at a daemon that knows which runs live."""

    keys: TaskKeys
    clock: Callable[[], int]
    """Nanoseconds since 1970."""
    lives: Callable[[Run], Awaitable[bool]] | None = None
    """Whether a run is its instance's current one, and lives; None while this daemon does not lead."""

    async def check(self, token: str, renewing: bool = False) -> Principal:
        """Return the task whose token this is.

        One that has expired shows it where it is `renewing` the token. Raises Unauthenticated, Unavailable.
        """
        claim = self.keys.read(token)
        if not renewing and claim.expires * NANOSECONDS <= self.clock():
            raise Unauthenticated("the token of the task has expired: renew it")
        if self.lives is None:
            raise Unavailable("this job manager does not lead: it does not know which runs have ended")
        run = mesos_task_id(*claim.run)
        if not await self.lives(claim.run):
            raise Unauthenticated(f"the run {run} has ended, and its token with it")
        return Principal(run, Kind.TASK)


def is_task_token(text: str) -> bool:
    """Return whether a bearer token says that it is a task's."""
    return text.startswith(PREFIX)


def claim_of(token: str) -> TaskClaim:
    """Return what a token says, unchecked. Raises Unauthenticated for what is none."""
    run, _, expires = token.removeprefix(PREFIX).rpartition(".")[0].rpartition(".")
    with suppress(InvalidArgument):
        if is_task_token(token) and expires.isascii() and expires.isdigit():
            return TaskClaim(parse_mesos_task_id(run), int(expires))
    raise Unauthenticated("the token of a task is not peloton-task.<run>.<seconds>.<signature>")


def _signature(key: bytes, said: str) -> str:
    digest = hmac.new(key, said.encode(errors="replace"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def read_task_keys(path: Path) -> TaskKeys:
    """Read the file of keys, one a line. Raises ConfigError; never shows a key."""
    return TaskKeys(keys_in(path, SETTING))
