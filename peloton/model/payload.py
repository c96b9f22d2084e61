"""Configs of jobs as clients gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

SecretBytes = Mapping[str, bytes]
"""The contents of secret files by key. No other object of the model has them, so that nothing shows them."""
NO_SECRETS: SecretBytes = MappingProxyType({})
Opaque = object
"""What a core hands on unread: its adapter knows the type. mypyc compiles no field of the type `object`."""


class ApiVersion(Enum):
    """The API whose messages a payload holds. The values are stored."""

    V0 = "v0"
    V1ALPHA = "v1alpha"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A secret file of a job, without its content."""

    id: str
    """A UUID, by which clients know the secret."""
    path: str
    """Absolute path of the file in the containers."""
    key: str
    """Names the content in the store. Another content has another key."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A config as it was given: kept and returned as it is.

    The model takes no decision by it. `peloton.wire.payload` reads it.
    """

    api: ApiVersion
    data: bytes
    """The serialised message of that API."""
    secrets: tuple[SecretRef, ...] = ()
    """The secret files of all instances."""
