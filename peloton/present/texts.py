"""Texts from a cluster as one line for users."""

from __future__ import annotations


def clean(cell: object) -> str:
    """Return a cell's text on one line, without control characters; numbers without a useless `.0`."""
    if isinstance(cell, float):
        return f"{cell:.6f}".rstrip("0").rstrip(".") or "0"
    text = str(cell)
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.strip()
