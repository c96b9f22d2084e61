"""Encryption of job secrets in the store: AES-256-GCM, bound to the job and the key under which each stands.

Of several keys the first one encrypts, and all decrypt. Rows from before there were keys are read as they
are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from peloton.config.key_files import keys_in
from peloton.errors import Refused
from peloton.model.ids import JobId

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"\0peloton-aes256gcm-1\0"
"""How an encrypted row begins; the key's id, the nonce, and what AES-GCM returns follow."""
ID_BYTES, NONCE_BYTES = 8, 12
SETTING = "storage.secret_keys_file"


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """The keys of a store, by their ids; none: secrets are stored as they are."""

    newest: bytes = b""
    """The id of the key that encrypts."""
    by_id: Mapping[bytes, AESGCM] = field(default_factory=dict, repr=False)

    def seal(self, job_id: JobId, key: str, content: bytes) -> bytes:
        """Return a secret as it is stored."""
        if not self.newest:
            return content
        assert len(self.newest) == ID_BYTES, "a row is cut at the length of the key's id"
        nonce = os.urandom(NONCE_BYTES)
        sealed = self.by_id[self.newest].encrypt(nonce, content, _bound(job_id, key))
        return MAGIC + self.newest + nonce + sealed

    def open(self, job_id: JobId, key: str, stored: bytes) -> bytes:
        """Return a secret that is stored. Raises Refused where no key fits."""
        if not stored.startswith(MAGIC):
            return stored
        from cryptography.exceptions import InvalidTag

        rest = stored[len(MAGIC) :]
        cipher = self.by_id.get(rest[:ID_BYTES])
        if cipher is None:
            raise Refused(f"the secret {key} of job {job_id} is encrypted with a key that {SETTING} has not")
        nonce, sealed = rest[ID_BYTES : ID_BYTES + NONCE_BYTES], rest[ID_BYTES + NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, sealed, _bound(job_id, key))
        except InvalidTag:
            raise Refused(f"the secret {key} of job {job_id} was changed in the store") from None

    def is_newest(self, stored: bytes) -> bool:
        """Return whether a row is as it would be written now."""
        return stored.startswith(MAGIC + self.newest) if self.newest else not stored.startswith(MAGIC)


PLAIN = SecretKeys()


def read_keys(path: Path | None) -> SecretKeys:
    """Read the file of keys, one a line. Raises ConfigError; never shows a key."""
    if path is None:
        return PLAIN
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # large, and most laptops have no keys

    keys = keys_in(path, SETTING)
    by_id = {_id_of(key): AESGCM(key) for key in keys}
    return SecretKeys(_id_of(keys[0]), by_id)


def _id_of(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=ID_BYTES, person=b"peloton-key-id").digest()


def _bound(job_id: JobId, key: str) -> bytes:
    return f"{job_id}\0{key}".encode()
