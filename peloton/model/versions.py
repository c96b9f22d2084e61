"""Which versions of the daemons work together: neighbours, a minor version apart at most.

A version is MAJOR.MINOR.PATCH. Daemons before 0.2 do not say theirs in calls: they are taken as
neighbours.
"""

from __future__ import annotations

import re
from functools import cache

from peloton import __version__

OWN = __version__
"""That of this program."""
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.\S{0,40})?")


@cache
def mismatch(own: str, other: str) -> str:
    """Return why a daemon of version `own` does not work with one of version `other`, and what to do.

    Empty where they do, and where either does not say its version as Peloton does.
    """
    mine, theirs = _VERSION.fullmatch(own), _VERSION.fullmatch(other)
    if own == other or mine is None or theirs is None:
        return ""
    (major, minor), (their_major, their_minor) = _numbers(mine), _numbers(theirs)
    if major == their_major and abs(minor - their_minor) <= 1:
        return ""
    older, newer = sorted([(major, minor, own), (their_major, their_minor, other)])
    return (
        f"version {other} does not work with version {own}: they are more than a minor version apart; "
        f"upgrade what runs {older[2]} step by step, each minor version up to {newer[0]}.{newer[1]}"
    )


def ahead(own: str, other: str) -> bool:
    """Return whether `other` is newer than `own` by more than a minor version."""
    mine, theirs = _VERSION.fullmatch(own), _VERSION.fullmatch(other)
    if mine is None or theirs is None or not mismatch(own, other):
        return False
    return _numbers(theirs) > _numbers(mine)


def _numbers(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2])
