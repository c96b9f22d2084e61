"""Whether a master leads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leadership:
    """Whether this master leads, and whether it has recovered the registry.

    ``leader``: ``hostname:port`` of the leading master, None while none leads.
    """

    leads: bool = False
    leader: str | None = None
    recovered: bool = False
