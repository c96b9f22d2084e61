"""The refusal of a schema that a newer program has made."""

from __future__ import annotations

from peloton import __version__
from peloton.errors import Refused


def newer_schema(what: str, version: int, newest: int) -> Refused:
    """Return the refusal, for `what` store; `newest` is the last version that is known here."""
    return Refused(
        f"{what} has schema version {version}; this program knows versions up to {newest}, it is Peloton "
        f"{__version__}: run a version that is at least as new as the one that changed the schema; only a "
        "backup leads back to the schema before (docs/upgrading.md)"
    )
