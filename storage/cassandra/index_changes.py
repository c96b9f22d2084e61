"""Changes of jobs that an index is to follow, until they are in its database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from peloton.errors import NotFound
from peloton.model.ids import JobId
from storage.cassandra.index_rows import IndexRows
from storage.jobindex.index_db import Change

MOST_WAITING = 2000
"""Changes that may wait before they are applied; a query applies them before that."""


class IndexChanges:
    """Changes that were made, and jobs of which it is unknown whether one was."""

    def __init__(self, rows: IndexRows) -> None:
        self._rows = rows
        self._changes: dict[JobId, Change] = {}
        self._unconfirmed: dict[JobId, object] = {}
        """Each with a marker of the change that made it unconfirmed."""

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def many(self) -> bool:
        """Whether enough changes wait for them to be applied."""
        return len(self._changes) > MOST_WAITING

    def note(self, job_id: JobId, change: Change) -> None:
        """Record a change that was made."""
        held = self._changes.get(job_id)
        if change.runtime is not None and change.config is None and held is not None:
            change = replace(change, config=held.config)
        self._changes[job_id] = change

    def mark_unconfirmed(self, job_id: JobId) -> None:
        """Record that a change may have been made."""
        self._unconfirmed[job_id] = object()

    def forget(self, concerned: Callable[[JobId], bool] = lambda job_id: True) -> None:
        """Forget all, or what concerns some jobs."""
        self._changes = {job_id: change for job_id, change in self._changes.items() if not concerned(job_id)}
        self._unconfirmed = {
            job_id: marker for job_id, marker in self._unconfirmed.items() if not concerned(job_id)
        }

    def take(self, concerned: Callable[[JobId], bool] = lambda job_id: True) -> list[tuple[JobId, Change]]:
        """Return the changes of all jobs, or of some, in their order; they wait no more."""
        taken = [(job_id, change) for job_id, change in self._changes.items() if concerned(job_id)]
        for job_id, _ in taken:
            del self._changes[job_id]
        return taken

    async def confirm(self) -> None:
        """Read the jobs of unknown state. One that changes meanwhile is read again by the next call."""
        for job_id, marker in tuple(self._unconfirmed.items()):
            await self._look_up(job_id, marker)

    async def _look_up(self, job_id: JobId, marker: object) -> None:
        before = self._changes.get(job_id)
        try:
            found = await self._rows.read(job_id)
        except NotFound:  # its config, deleted after its row was read
            return
        if self._unconfirmed.get(job_id) is marker and self._changes.get(job_id) is before:
            del self._unconfirmed[job_id]
            self.note(job_id, found)
