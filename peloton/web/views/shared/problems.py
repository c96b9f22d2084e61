"""What is wrong now, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong now, or worth knowing."""

    level: str
    """bad, warn or note."""
    text: str
    link: str = ""
