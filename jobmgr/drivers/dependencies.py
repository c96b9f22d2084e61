"""Looks after the ends of jobs that others wait for."""

from __future__ import annotations

import logging

from jobmgr.core.state.events import DependencySeen
from jobmgr.engine.engine import Engine
from peloton.errors import NotFound, PelotonError
from peloton.model.ids import JobId
from peloton.model.states import JobState

LOOK_SECONDS = 30.0
"""Between two looks at all jobs that wait: creations of unknown outcome are found by these, too."""
ELSEWHERE_SECONDS = 2.0
"""The same where a job is waited for that another job manager owns: its end is not told here."""
log = logging.getLogger(__name__)


class DependencyWatch:
    """Tells the core of jobs that wait how the jobs have ended that they wait for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self) -> None:
        """Look for ever: when a job ends that is waited for, when another one waits, and now and then."""
        ends, woken = self._engine.ends, False
        while True:
            if not woken:
                for job in self._engine.lanes.in_memory():
                    if job.runtime.unmet:
                        ends.wait_for(job.job_id, job.runtime.unmet)
            ends.wanted = set()
            for job_id in list(ends.waiting):
                await self._look(job_id)
            elsewhere = any(not self._engine.shards.holds(job_id) for job_id in ends.wanted)
            woken = await ends.changed(ELSEWHERE_SECONDS if elsewhere else LOOK_SECONDS)

    async def _look(self, job_id: JobId) -> None:
        ends, job = self._engine.ends, self._engine.job(job_id)
        unmet = () if job is None or job.runtime.state.terminal else job.runtime.unmet
        if not unmet:
            ends.waiting.discard(job_id)
            return
        ends.wanted.update(unmet)
        for on in unmet:
            try:
                state = await self._state(on)
            except PelotonError as error:
                log.warning(
                    "whether job %s, which %s waits for, has ended is not known: %s", on, job_id, error
                )
                continue
            if state is None or state.terminal:
                self._engine.lanes.post(DependencySeen(job_id, on, state))

    async def _state(self, job_id: JobId) -> JobState | None:
        """Return the state of a job; None: there is no such job any more."""
        try:
            return (await self._engine.summary(job_id)).runtime.state
        except NotFound:
            return None
