"""The callback by which long operations report their progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Takes one line of progress for the user."""


def silent(line: str) -> None:
    """Report nothing."""
