"""Users by bearer tokens of an identity provider: JWTs as OpenID Connect has them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt

from peloton.errors import Unauthenticated, Unavailable
from peloton.identity.authenticators import KNOWN_SECONDS, Credentials, Known
from peloton.identity.principal import Kind, Principal
from peloton.model.amounts import byte_size

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are accepted: those of asymmetric keys."""
FETCH_SECONDS = 10.0
PAUSE_SECONDS = 10.0
"""Seconds between two reads of the keys because of a token with an unknown one."""
MAX_BYTES = 1024 * 1024
MAX_TOKEN_BYTES = 16 * 1024
MAX_GROUPS = 500
Fetch = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must be."""

    issuer: str
    audience: str
    user_claim: str = "sub"
    groups_claim: str = "groups"
    leeway: float = 30.0
    """Seconds by which clocks may differ."""


class KeySet:
    """The keys of a provider (JWKS): read again as they age, and when a token has an unknown one."""

    def __init__(
        self, fetch: Fetch, lifetime: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._lifetime = lifetime
        self._clock = clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_at = self._tried_at = -float("inf")
        self._lock = asyncio.Lock()

    async def key(self, kid: str | None) -> jwt.PyJWK:
        """Return the key of a token. Raises Unauthenticated, and Unavailable where none can be read."""
        found = self._find(kid)
        if found is None or self._clock() - self._read_at > self._lifetime:
            async with self._lock:
                await self._refresh(kid)
            found = self._find(kid)
        if found is None:
            raise Unauthenticated("the token is signed with a key that its issuer does not publish")
        return found

    def _find(self, kid: str | None) -> jwt.PyJWK | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _refresh(self, kid: str | None) -> None:
        now = self._clock()
        fresh = now - self._read_at <= self._lifetime and self._find(kid) is not None
        if fresh or now - self._tried_at < PAUSE_SECONDS:
            return
        self._tried_at = now
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                self._keys = parse_keys(await self._fetch())
        except (OSError, ValueError, TimeoutError, jwt.PyJWTError) as error:
            if not self._keys:
                raise Unavailable(f"the issuer's keys cannot be read: {error or 'timed out'}") from None
            return  # keys that were good go on until they can be read again
        self._read_at = now


def parse_keys(raw: bytes) -> Mapping[str, jwt.PyJWK]:
    """Read a JWKS: its keys for signatures, by id. Raises ValueError."""
    try:
        listed = json.loads(raw)["keys"]
        given = [each for each in listed if each.get("use", "sig") == "sig" and each.get("kty") != "oct"]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError("it is no JSON Web Key Set") from None
    keys: dict[str, jwt.PyJWK] = {}
    for number, each in enumerate(given):
        try:
            keys[str(each.get("kid", f"#{number}"))] = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # of a kind that is not supported: others may be
    if not keys:
        raise ValueError("it has no key for signatures that is supported")
    return keys


class Oidc:
    """Users by bearer tokens (OIDC)."""

    def __init__(
        self,
        rules: TokenRules,
        keys: KeySet,
        groups: Mapping[str, Sequence[str]],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Take the roles of each group in `groups`."""
        self._rules = rules
        self._keys = keys
        self._groups = groups
        self._wall = wall
        self._known = Known(clock)

    def recall(self, credentials: Credentials) -> Principal | None:
        """Return the user of a token that was checked before and has not expired."""
        return self._known.get(credentials.bearer) if credentials.bearer else None

    async def check(self, credentials: Credentials) -> Principal:
        """Check a token's signature, issuer, audience and times."""
        token = credentials.bearer
        if not token:
            raise Unauthenticated("no bearer token is given (metadata `authorization: Bearer TOKEN`)")
        if len(token) > MAX_TOKEN_BYTES:
            raise Unauthenticated(f"the token is longer than {byte_size(MAX_TOKEN_BYTES)}")
        claims = await self._claims(token)
        principal = self._principal(claims)
        self._known.put(token, principal, min(float(claims["exp"]) - self._wall(), KNOWN_SECONDS))
        return principal

    async def _claims(self, token: str) -> Mapping[str, Any]:
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise Unauthenticated(f"the token's signature should be one of {', '.join(ALGORITHMS)}")
            key = await self._keys.key(header.get("kid"))
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=rules.audience,
                issuer=rules.issuer,
                leeway=rules.leeway,
                options={"require": ["exp", "iss", "aud", rules.user_claim]},
            )
        except jwt.PyJWTError as error:
            raise Unauthenticated(f"the token is not valid: {error}") from None
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        name = claims[self._rules.user_claim]
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 256:
            raise Unauthenticated(f"the token's claim {self._rules.user_claim} is no name")
        groups = claims.get(self._rules.groups_claim, [])
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list) or len(groups) > MAX_GROUPS:
            raise Unauthenticated(f"the token's claim {self._rules.groups_claim} is no list of groups")
        roles = dict.fromkeys(
            role for group in groups if isinstance(group, str) for role in self._groups.get(group, ())
        )
        return Principal(name, Kind.USER, tuple(sorted(roles)))


def from_file(path: Path) -> Fetch:
    """Read the keys from a file."""

    async def fetch() -> bytes:
        return await asyncio.to_thread(_read, path)

    return fetch


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


def from_url(url: str, ca_file: Path | None) -> Fetch:
    """Read the keys from a web server."""

    async def fetch() -> bytes:
        import ssl

        import httpx2

        context = ssl.create_default_context(cafile=ca_file)
        try:
            async with (
                httpx2.AsyncClient(verify=context, timeout=FETCH_SECONDS, trust_env=False) as client,
                client.stream("GET", url) as answer,
            ):
                if answer.status_code != 200:
                    raise ValueError(f"{url} answers {answer.status_code}")
                return await _bounded(answer)
        except httpx2.HTTPError as error:
            raise OSError(f"{url}: {error or type(error).__name__}") from None

    return fetch


async def _bounded(answer: Any) -> bytes:
    found = b""
    async for part in answer.aiter_bytes():
        found += part
        if len(found) > MAX_BYTES:
            raise ValueError(f"more than {byte_size(MAX_BYTES)}")
    return found
