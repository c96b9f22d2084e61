"""Settings of the store that a daemon opens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from peloton.config import Settings


class StorageSettings(Settings):
    """Which database, and how it is used. Processes on one machine share the file."""

    kind: Literal["sqlite"] = "sqlite"
    path: Path
    """The database's file; its directory is made where it is missing."""
    busy_timeout: float = Field(default=10.0, gt=0)
    """Seconds that a write waits for another process's write before it is Unavailable."""
    readers: int = Field(default=2, ge=1, le=64)
    """Connections, each with a thread of its own, that answer reads."""
    max_queued_writes: int = Field(default=1024, ge=1)
    """Writes accepted and not yet committed; further callers wait."""
