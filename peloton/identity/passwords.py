"""Passwords as they are kept: hashed with scrypt, `$scrypt$ln=14,r=8,p=5$SALT$HASH`, or plain.

The parameters are those that OWASP's password storage cheat sheet gives for 16 MiB of memory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from dataclasses import dataclass, field

from peloton.model.amounts import byte_size

PREFIX = "$scrypt$"
SALT_BYTES, HASH_BYTES = 16, 32
MAX_MEMORY_BYTES = 256 * 1024 * 1024
"""Bytes that one hash may take."""
_FORM = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a hash costs: memory of 128 · 2^ln · r bytes, p times."""

    ln: int = 14
    r: int = 8
    p: int = 5

    @property
    def memory(self) -> int:
        """Bytes that hashing takes."""
        return 128 * self.r * ((1 << self.ln) + self.p + 2)


@dataclass(frozen=True, slots=True)
class Hashed:
    """A password that is known by its hash only."""

    cost: Cost
    salt: bytes
    digest: bytes = field(repr=False)

    def matches(self, password: str) -> bool:
        """Return whether this is the password. Takes some 0.1 s of processor time, without Python's lock."""
        # scrypt pads short passwords with NUL (PBKDF2's HMAC does), so "a" and "a\0" have one hash.
        if "\0" in password:
            return False
        return hmac.compare_digest(_digest(password, self.salt, self.cost, len(self.digest)), self.digest)

    def __str__(self) -> str:
        """Return it as a file of users has it."""
        cost = self.cost
        return f"{PREFIX}ln={cost.ln},r={cost.r},p={cost.p}${_text(self.salt)}${_text(self.digest)}"


@dataclass(frozen=True, slots=True)
class Plain:
    """A password that is kept as it is."""

    password: str = field(repr=False)

    def matches(self, password: str) -> bool:
        """Return whether this is the password."""
        return hmac.compare_digest(password.encode(), self.password.encode())


Kept = Hashed | Plain


def hashed(password: str, cost: Cost | None = None) -> Hashed:
    """Hash a password with a new salt. Raises ValueError for one with NUL characters."""
    if "\0" in password:
        raise ValueError("has a NUL character: choose a password without one")
    salt, cost = os.urandom(SALT_BYTES), cost or Cost()
    return Hashed(cost, salt, _digest(password, salt, cost, HASH_BYTES))


def kept(text: str) -> Kept:
    """Read a password of a file. Raises ValueError for a hash that cannot be used."""
    if not text.startswith("$scrypt"):
        return Plain(text)
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError("is no hash as `peloton auth hash` makes it")
    cost = Cost(*(int(number) for number in found.groups()[:3]))
    if not (1 <= cost.ln <= 20 and cost.r and cost.p and cost.memory <= MAX_MEMORY_BYTES):
        raise ValueError(
            f"costs more than {byte_size(MAX_MEMORY_BYTES)}, or nothing: hash it with other parameters"
        )
    try:
        salt, digest = (_bytes(part) for part in found.groups()[3:])
    except binascii.Error:
        raise ValueError("is a hash that was cut off") from None
    if len(digest) < 16:
        raise ValueError("is a hash that was cut off")
    return Hashed(cost, salt, digest)


def _digest(password: str, salt: bytes, cost: Cost, length: int) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=1 << cost.ln,
        r=cost.r,
        p=cost.p,
        maxmem=MAX_MEMORY_BYTES * 2,
        dklen=length,
    )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
