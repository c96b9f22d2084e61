"""Authenticators: who a caller is, by the credentials of its call."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from cachetools import LRUCache

from peloton.errors import ResourceExhausted, Unauthenticated
from peloton.identity.on_behalf import ON_BEHALF
from peloton.identity.password_checks import PasswordChecks
from peloton.identity.passwords import Cost, Kept, Plain, hashed
from peloton.identity.principal import Kind, Principal
from peloton.identity.userfile import User, Users

MAX_KNOWN = 10_000
"""Credentials that are remembered as right."""
KNOWN_SECONDS = 300.0
"""Seconds for which tokens are."""
PASSWORD_SECONDS, WRONG_SECONDS = 12 * 3600.0, 30.0
"""Seconds for which right passwords are since their last call, and wrong ones. A change of the file of users
ends both."""
MAX_CHECKING = 1000
"""Passwords that are being checked or wait."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a call carries to show who makes it."""

    username: str = ""
    password: str = field(default="", repr=False)
    bearer: str = field(default="", repr=False)
    """Of the header `authorization: Bearer …`."""
    token: str = field(default="", repr=False)
    """Of a daemon."""
    instance: str = ""
    """What a daemon calls itself, `<role>/<id>`."""
    epoch: str = ""
    """The term of a daemon that leads."""
    shards: str = ""
    """The shards of jobs that a daemon owns."""
    behalf: str | None = None
    """For whom a job manager passes the call on (`peloton.identity.on_behalf`); None where nobody says so."""

    @property
    def absent(self) -> bool:
        """Whether there are none of a user."""
        return not (self.username or self.password or self.bearer)


def credentials_of(metadata: Iterable[tuple[str, str | bytes]]) -> Credentials:
    """Read the credentials of a call. Raises Unauthenticated where one is there twice."""
    found: dict[str, Any] = {}
    for key, value in metadata:
        name = _KEYS.get(key)
        if name is None:
            continue
        if name in found:
            raise Unauthenticated(f"the metadata has {key} more than once")
        found[name] = value if isinstance(value, str) else value.decode(errors="replace")
    if "bearer" in found:
        found["bearer"] = _bearer(found["bearer"])
    return Credentials(**found)


def shown_by(metadata: Iterable[tuple[str, str | bytes]]) -> bool:
    """Return whether a call carries credentials at all, right or wrong."""
    return any(key in ("password", "authorization", "peloton-token") for key, _ in metadata)


_KEYS = {
    "username": "username",
    "password": "password",
    "authorization": "bearer",
    "peloton-token": "token",
    "peloton-instance": "instance",
    "peloton-epoch": "epoch",
    "peloton-shards": "shards",
    ON_BEHALF: "behalf",
}


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("authorization: should be `Bearer TOKEN`")
    return token.strip()


class Authenticator(Protocol):
    """Tells who a user is."""

    def recall(self, credentials: Credentials) -> Principal | None:
        """Return the user where these credentials have been checked a short time ago."""
        ...

    async def check(self, credentials: Credentials) -> Principal:
        """Check credentials and return the user. Raises Unauthenticated, ResourceExhausted, Unavailable."""
        ...


class Known:
    """Credentials that have been found right, by a keyed hash: neither memory dumps nor times tell them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = os.urandom(32)
        self._clock = clock
        self._until: LRUCache[bytes, tuple[float, Principal]] = LRUCache(MAX_KNOWN)

    def get(self, secret: str) -> Principal | None:
        """Return the principal of a secret that is known."""
        found = self._until.get(self._digest(secret))
        return found[1] if found is not None and found[0] > self._clock() else None

    def put(self, secret: str, principal: Principal, seconds: float = KNOWN_SECONDS) -> None:
        """Remember a secret for some seconds."""
        self._until[self._digest(secret)] = (self._clock() + seconds, principal)

    def _digest(self, secret: str) -> bytes:
        return hashlib.blake2b(secret.encode(errors="replace"), key=self._key, digest_size=32).digest()


class Basic:
    """Users by name and password (BASIC)."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._known, self._wrong = Known(clock), Known(clock)
        self._nobody = hashed("", _dearest(users))
        self._checks = PasswordChecks()
        self._checking: dict[str, asyncio.Task[Principal | None]] = {}
        self._default = Principal("", Kind.USER, (users.default_role,))

    def recall(self, credentials: Credentials) -> Principal | None:
        """Return the user of a password that was checked before, or the default user.

        A changed file of users has an authenticator of its own.
        """
        if credentials.absent:
            return self._default if self._users.default_role else None
        known = _joined(credentials)
        principal = self._known.get(known)
        if principal is not None:  # who goes on calling does not wait behind those who guess
            self._known.put(known, principal, PASSWORD_SECONDS)
        return principal

    async def check(self, credentials: Credentials) -> Principal:
        """Compare the password. An unknown name takes as long as a wrong password."""
        if not credentials.username:
            raise Unauthenticated("no username and password are given (metadata `username` and `password`)")
        # Once for all calls that bring it meanwhile: a new leader gets many at once. Who does not wait long
        # enough finds it done the next time.
        key = _joined(credentials)
        if self._wrong.get(key) is not None:
            raise Unauthenticated("username or password is wrong")
        checking = self._checking.get(key)
        if checking is None:
            if len(self._checking) >= MAX_CHECKING:
                raise ResourceExhausted(f"{MAX_CHECKING} passwords are being checked: try later")
            checking = self._checking[key] = asyncio.create_task(self._compare(credentials))
            checking.add_done_callback(partial(self._checked, key))
        principal = await asyncio.shield(checking)
        if principal is None:
            raise Unauthenticated("username or password is wrong")
        return principal

    def _checked(self, key: str, checking: asyncio.Task[Principal | None]) -> None:
        """Forget a check that has ended, and its failure where nobody has waited for it."""
        del self._checking[key]
        if not checking.cancelled():
            checking.exception()

    async def _compare(self, credentials: Credentials) -> Principal | None:
        """Hash a password; remember, and return, whose it is."""
        user, name = self._users.users.get(credentials.username), credentials.username
        right = await self._checks.matches(name, credentials.password, self._against(user))
        if user is None or not right:
            self._wrong.put(_joined(credentials), self._default, WRONG_SECONDS)
            return None
        self._checks.trust(name)
        principal = Principal(user.name, Kind.USER, (user.role,))
        self._known.put(_joined(credentials), principal, PASSWORD_SECONDS)
        return principal

    def _against(self, user: User | None) -> tuple[Kept, ...]:
        """Return what a password is compared with.

        A plain one takes as long as others, and so does that of nobody: no name is told by the time.
        """
        if user is None:
            return (self._nobody,)
        return (self._nobody, user.password) if isinstance(user.password, Plain) else (user.password,)


def _joined(credentials: Credentials) -> str:
    return f"{credentials.username}\0{credentials.password}"


def _dearest(users: Users) -> Cost:
    """Return the cost that the users' passwords have, or what a new one would."""
    costs = [cost for user in users.users.values() if (cost := getattr(user.password, "cost", None))]
    return max(costs, key=lambda cost: (cost.ln, cost.p), default=Cost())
