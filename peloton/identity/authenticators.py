"""Authenticators: who a caller is, by the credentials of its call."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from peloton.errors import ResourceExhausted, Unauthenticated
from peloton.identity.passwords import Cost, Kept, Plain, hashed
from peloton.identity.principal import Kind, Principal
from peloton.identity.userfile import Users

MAX_KNOWN = 10_000
"""Credentials that are remembered as right."""
KNOWN_SECONDS = 300.0
"""Seconds for which they are."""
HASHES_AT_ONCE = 2
MAX_WAITING = 100
"""Passwords that wait to be hashed; further ones are refused."""


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

    @property
    def absent(self) -> bool:
        """Whether there are none of a user."""
        return not (self.username or self.password or self.bearer)


def credentials_of(metadata: Iterable[tuple[str, str | bytes]]) -> Credentials:
    """Read the credentials of a call. Raises Unauthenticated where one is there twice."""
    found: dict[str, str] = {}
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
        self._until[self._digest(secret)] = (self._clock() + min(seconds, KNOWN_SECONDS), principal)

    def _digest(self, secret: str) -> bytes:
        return hashlib.blake2b(secret.encode(errors="replace"), key=self._key, digest_size=32).digest()


class Basic:
    """Users by name and password (BASIC)."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._known = Known(clock)
        self._nobody = hashed("", _dearest(users))
        self._slots = asyncio.Semaphore(HASHES_AT_ONCE)
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
            self._known.put(known, principal)
        return principal

    async def check(self, credentials: Credentials) -> Principal:
        """Compare the password. An unknown name takes as long as a wrong password."""
        if not credentials.username:
            raise Unauthenticated("no username and password are given (metadata `username` and `password`)")
        # Once for all calls that bring it meanwhile: a new leader gets many at once. Who does not wait long
        # enough finds it done the next time.
        key = _joined(credentials)
        checking = self._checking.get(key)
        if checking is None:
            if len(self._checking) >= MAX_WAITING:
                raise ResourceExhausted(f"{MAX_WAITING} passwords wait to be checked: try later")
            checking = self._checking[key] = asyncio.create_task(self._compare(credentials))
            checking.add_done_callback(lambda _: self._checking.pop(key, None))
        principal = await asyncio.shield(checking)
        if principal is None:
            raise Unauthenticated("username or password is wrong")
        return principal

    async def _compare(self, credentials: Credentials) -> Principal | None:
        """Hash a password; remember, and return, whose it is."""
        user = self._users.users.get(credentials.username)
        password = self._nobody if user is None else user.password
        async with self._slots:
            right = await asyncio.to_thread(self._matches, password, credentials.password)
        if user is None or not right:
            return None
        principal = Principal(user.name, Kind.USER, (user.role,))
        self._known.put(_joined(credentials), principal)
        return principal

    def _matches(self, kept: Kept, password: str) -> bool:
        """Compare a password. One that is kept plain takes as long as others: no name is told by the time."""
        if isinstance(kept, Plain):
            self._nobody.matches(password)
        return kept.matches(password)


def _joined(credentials: Credentials) -> str:
    return f"{credentials.username}\0{credentials.password}"


def _dearest(users: Users) -> Cost:
    """Return the cost that the users' passwords have, or what a new one would."""
    costs = [cost for user in users.users.values() if (cost := getattr(user.password, "cost", None))]
    return max(costs, key=lambda cost: (cost.ln, cost.p), default=Cost())
