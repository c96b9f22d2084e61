"""Which jobs are waited for by others, so that their ends wake who looks."""

from __future__ import annotations

import asyncio

from peloton.model.ids import JobId


class JobEnds:
    """Wakes one reader when a job ends that is waited for, or begins to wait."""

    def __init__(self) -> None:
        self.waiting: set[JobId] = set()
        """Jobs that wait. A reader removes those that do not any more."""
        self.wanted: set[JobId] = set()
        """Jobs that are waited for."""
        self._wake = asyncio.Event()

    def wait_for(self, job_id: JobId, others: tuple[JobId, ...]) -> None:
        """Note that a job waits for others."""
        self.waiting.add(job_id)
        self.wanted.update(others)
        self._wake.set()

    def wake(self) -> None:
        """Let the reader look."""
        self._wake.set()

    def note_end(self, job_id: JobId) -> None:
        """Note that a job has ended, or is deleted."""
        if job_id in self.wanted:
            self._wake.set()

    async def changed(self, within: float) -> bool:
        """Return whether a job that is waited for ends, or another one waits, within that many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True
