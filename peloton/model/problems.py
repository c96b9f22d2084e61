"""What is wrong with a cluster now, or worth knowing, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEVELS = ("bad", "warn", "note")
"""The worst first."""
NAMED = 5
"""Things of one kind that are named; of the others the number is told."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong now, or worth knowing."""

    level: str
    """bad, warn or note."""
    text: str
    link: str = ""
    """The page of the web UI that tells more."""
    remedy: str = ""
    """What to do about it."""

    @property
    def line(self) -> str:
        """Return text and remedy as one line."""
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


def worst_first(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems in the order of their levels, and else in the order in which they come."""
    return sorted(problems, key=lambda each: LEVELS.index(each.level))
