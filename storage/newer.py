"""Refusals of what a newer program has stored: its schema, its rows."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.errors import Refused
from peloton.model.versions import OWN, ahead

_BACK = "only a backup leads back to the schema before (docs/upgrading.md)"


def newer_schema(what: str, version: int, newest: int) -> Refused:
    """Return the refusal, for `what` store; `newest` is the last version that is known here."""
    return Refused(
        f"{what} has schema version {version}; this program knows versions up to {newest}, it is Peloton "
        f"{OWN}: run a version that is at least as new as the one that changed the schema; {_BACK}"
    )


def refuse_newer_writers(writers: Mapping[str, str], own: str = OWN) -> None:
    """Raise Refused where a leader of a version that is more than a minor version newer has written.

    `writers` are the versions that led last, by role.
    """
    for role, version in sorted(writers.items()):
        if ahead(own, version):
            raise Refused(
                f"{role} of version {version} has written to this store; this program is Peloton {own} and "
                "reads rows that are a minor version newer at most: run a newer one, or go back one minor "
                "version at a time (docs/upgrading.md)"
            )


def unreadable_row(kind: str, release: str, error: Exception) -> Refused:
    """Return the refusal of a row; `release` wrote it, empty: a newer one than this program's."""
    whose = f"Peloton {release}" if release else "a newer Peloton"
    return Refused(
        f"a {kind} in the store has a value that Peloton {OWN} cannot read: {type(error).__name__}: {error}; "
        f"it has the fields of {whose}: run a version that is at least as new as the one that wrote it "
        "(docs/upgrading.md)"
    )


def written_by(writers: Mapping[str, str]) -> str:
    """Return what is told of the writers; empty without any."""
    told = ", ".join(f"{role} {version}" for role, version in sorted(writers.items()))
    return f"; last written by {told}" if told else ""
