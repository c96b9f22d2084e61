"""Settings of the archiver."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from peloton.config.settings import DaemonSettings
from storage.config import StorageSettings

DAY = 86_400


class ArchiverSettings(DaemonSettings):
    """Settings of the archiver."""

    storage: StorageSettings
    """Where jobs, tasks and their history are kept: the store that jobmgr has."""
    archive: Path | None = None
    """File to which archived jobs are appended, made where it is missing; standard output where not set."""
    age_days: float = Field(30.0, gt=0)
    """Days since its end after which a batch job is archived and deleted."""
    interval: float = Field(3600.0, gt=0)
    """Seconds from one look for old jobs to the next."""

    @property
    def age(self) -> int:
        """Age from which on jobs are archived, in nanoseconds."""
        return round(self.age_days * DAY * 1e9)
