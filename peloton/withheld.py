"""What a server of sandboxes says beyond an agent of Mesos: why it does not show a file."""

from __future__ import annotations

LEFT_OUT = "peloton-left-out"
"""The header of a listing that is not whole: why that is so."""
WITHHELD = 409
"""The HTTP status of a file that cannot be shown; the body says why. No agent of Mesos answers so."""
LONGEST_REASON = 500
LONGEST_BODY_BYTES = 4 * LONGEST_REASON
"""Bytes of a body that are read."""


def header_text(text: str) -> str:
    """Return a text as a header can have it: one line of ASCII."""
    return " ".join(text.encode("ascii", "replace").decode().split())[:LONGEST_REASON]


def reason_in(body: bytes) -> str:
    """Return the reason in the body of an answer."""
    return header_text(body[:LONGEST_BODY_BYTES].decode("utf-8", "replace"))
