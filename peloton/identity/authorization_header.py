"""Who calls by HTTP: the header Authorization, as the metadata by which calls of gRPC say the same."""

from __future__ import annotations

import base64
import binascii
import re

from peloton.errors import Unauthenticated

Metadata = tuple[tuple[str, str], ...]


def metadata_of(given: str | None) -> Metadata:
    """Return the metadata of the user whom a header names; nothing without one. Raises Unauthenticated."""
    if given is None:
        return ()
    scheme, _, rest = given.strip().partition(" ")
    match scheme.lower():
        case "basic":
            return _basic(rest.strip())
        case "bearer" if re.fullmatch(r"[\x21-\x7e]+", rest.strip()):
            return (("authorization", f"Bearer {rest.strip()}"),)
    raise Unauthenticated("Authorization: give Basic or Bearer")


def _basic(encoded: str) -> Metadata:
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        colon = name = password = ""
    if not colon or not f"{name}{password}".isprintable():
        raise Unauthenticated("Authorization: Basic is not the Base64 form of NAME:PASSWORD in ASCII")
    return (("username", name), ("password", password))
