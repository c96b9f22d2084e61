"""Configs of jobs as clients gave them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ApiVersion(Enum):
    """The API whose messages a payload holds. The values are stored."""

    V0 = "v0"
    V1ALPHA = "v1alpha"


@dataclass(frozen=True, slots=True)
class Payload:
    """A config as it was given: kept and returned as it is.

    The model takes no decision by it. `peloton.wire.payload` reads it.
    """

    api: ApiVersion
    data: bytes
    """The serialised message of that API."""
