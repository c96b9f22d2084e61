"""Runs jobs by their schedules: carries out what `jobmgr.core.schedule` decides."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from jobmgr.core.schedule.decide import MOST_DELETED, decide, deleted, next_expiry, started
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.engine.engine import Engine
from jobmgr.engine.schedule_runs import create_run
from peloton import cron
from peloton.clock import NANOSECONDS
from peloton.errors import NotFound, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.lockdown import Component
from peloton.model.schedule import MAX_CATCH_UP, ON_TIME_SECONDS, Schedule, ScheduleState, run_id

LOOK_SECONDS = 30.0
"""The longest pause between two looks at all schedules."""
SOON_SECONDS = 0.5
"""Until a look that follows an end."""
ELSEWHERE_SECONDS = 2.0
"""Between two looks for the end of a run that another job manager owns."""
RETRY_SECONDS = 5.0
"""Until a run is created again whose creation failed."""
MOST_DUE = MAX_CATCH_UP + ON_TIME_SECONDS // 60 + 2
"""Times that a decision may concern: those made up for and those on time, by the minute, and one skipped."""
log = logging.getLogger(__name__)


class Schedules:
    """Follows the schedules of all active jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next: dict[JobId, tuple[JobRuntime, float]] = {}
        """By job, as long as it has this runtime: when it is to be looked at again, by the wall clock."""
        self._gate = engine.lockdown.gate(Component.GOAL_STATE_ENGINE)

    async def run(self) -> None:
        """Run jobs by their schedules, for ever."""
        ends, woken = self._engine.schedule_ends, False
        while True:
            await self._gate.opened()
            if not woken:
                for job in self._engine.lanes.in_memory():
                    if job.spec.schedule is not None:
                        ends.wait_for(job.job_id, ())
            ends.wanted = set()
            pause = LOOK_SECONDS
            for job_id in list(ends.waiting):
                pause = min(pause, await self._advance(job_id))
            woken = await ends.changed(pause)

    async def _advance(self, job_id: JobId) -> float:
        """Do what is due of one schedule; return the seconds until it has to be looked at again."""
        job = self._engine.job(job_id)
        schedule = None if job is None else job.spec.schedule
        if job is None or schedule is None or job.runtime.goal in ENDING_JOB_GOALS:
            self._engine.schedule_ends.waiting.discard(job_id)
            self._next.pop(job_id, None)
            return LOOK_SECONDS
        try:
            return self._left(job) or await self._decide(job, schedule)
        except Refused:
            return SOON_SECONDS  # it is being stopped, or was paused or resumed meanwhile
        except PelotonError as error:
            log.warning("the schedule of job %s is tried again: %s", job_id, error)
            return RETRY_SECONDS

    def _left(self, job: CachedJob) -> float:
        """Return the seconds until a schedule may have to be decided about, 0 where that is now."""
        runtime, until = self._next.get(job.job_id, (None, 0.0))
        if runtime is not job.runtime or not self._lives(job.job_id, job.runtime.schedule_state):
            return 0.0
        return max(until - self._wall(), 0.0)

    def _lives(self, job_id: JobId, state: ScheduleState) -> bool:
        """Return whether the run that lives, if any, has not ended; its end is to wake."""
        if not state.running:
            return True
        run = run_id(job_id, state.running)
        self._engine.schedule_ends.wanted.add(run)
        return self._engine.job(run) is not None

    def _looks_again(self, job_id: JobId, state: ScheduleState) -> float:
        """Return the seconds until a look at a run that is not in memory: it has ended, or is another's."""
        held = self._engine.shards.holds(run_id(job_id, state.running))
        return SOON_SECONDS if held else ELSEWHERE_SECONDS

    async def _is_alive(self, job_id: JobId, state: ScheduleState) -> bool:
        """Return whether the run that lives has not ended, by the store where it is not in memory."""
        if not state.running or self._lives(job_id, state):
            return bool(state.running)
        try:
            run = await self._engine.summary(run_id(job_id, state.running))
        except NotFound:
            return False
        return not run.runtime.state.terminal

    def _wall(self) -> float:
        return self._engine.clock.wall() / NANOSECONDS

    async def _decide(self, job: CachedJob, schedule: Schedule) -> float:
        job_id, state = job.job_id, job.runtime.schedule_state
        now = int(self._wall())
        due = cron.times_until(schedule.cron, schedule.time_zone, state.seen, now, MOST_DUE)
        decision = decide(schedule, state, due, await self._is_alive(job_id, state), now)
        if decision.state != state:
            await self._engine.move_schedule(job_id, decision.state)
        state = decision.state
        if decision.stop:
            by = f"the schedule of job {job.spec.name}, whose next run replaces it"
            await self._stop(run_id(job_id, decision.stop), by)
        if state.starting:
            await self._start(job, state.starting)
            state = started(state)
            await self._engine.move_schedule(job_id, state)
        if decision.delete:
            state = deleted(state, await self._deleted(job, decision.delete))
            await self._engine.move_schedule(job_id, state)
        if not self._lives(job_id, state):
            return self._looks_again(job_id, state)
        following = next(cron.times_after(schedule.cron, schedule.time_zone, state.seen), None)
        times = (following, next_expiry(schedule, state))
        until = min((float(each) for each in times if each is not None), default=self._wall() + LOOK_SECONDS)
        if len(decision.delete) == MOST_DELETED:
            until = self._wall() + SOON_SECONDS
        held = self._engine.job(job_id)
        if held is not None:
            self._next[job_id] = held.runtime, until
        return max(until - self._wall(), 0.0)

    async def _start(self, job: CachedJob, time: int) -> None:
        """Create the run of a time, unless an earlier leader has done so."""
        if not self._engine.shards.holds(run_id(job.job_id, time)):
            await self._engine.elsewhere.start_run(job.job_id, time)
        else:
            await create_run(self._engine, job.job_id, job.spec, time)

    async def _stop(self, run: JobId, by: str) -> None:
        if not self._engine.shards.holds(run):
            await self._engine.elsewhere.stop_run(run, by)
        else:
            await self._engine.stop_run(run, by)

    async def _deleted(self, job: CachedJob, times: Sequence[int]) -> set[int]:
        """Delete the runs of some times; return the times whose runs are gone.

        A run stays that somebody has started again, until it has ended.
        """
        gone = set()
        for time in times:
            run = run_id(job.job_id, time)
            if kept := await self._kept(run):
                log.info("the run %s of job %s is kept for now: %s", run, job.job_id, kept)
                continue
            gone.add(time)
        return gone

    async def _kept(self, run: JobId) -> str:
        """Delete a run; return why it is kept, an empty text where it is gone."""
        if not self._engine.shards.holds(run):
            return await self._engine.elsewhere.delete_run(run)
        try:
            await self._engine.delete(run)
        except Refused as error:
            return str(error)
        except NotFound:
            log.info("the run %s was deleted already", run)
        return ""
