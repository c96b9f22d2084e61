"""Runs jobs by their schedules, as `jobmgr.drivers.schedules` does: carries out what the core decides."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Protocol

from jobmgr.core.schedule.decide import Decision, decide, deleted, started
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import Event, ScheduleMoved, StopRequested
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton import cron
from peloton.errors import AlreadyExists, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.schedule import MAX_CATCH_UP, ON_TIME_SECONDS, Schedule, ScheduleState, run_id
from simulator.world.kernel import NANOSECONDS, Kernel, Life, Timer
from simulator.world.store import Store

LOOK_SECONDS = 30.0
"""The longest pause between two looks at a schedule."""
SOON_SECONDS = 0.5
"""Until a look that follows an end."""
RETRY_SECONDS = 5.0
"""Until a run is created again whose creation failed."""
MOST_DUE = MAX_CATCH_UP + ON_TIME_SECONDS // 60 + 2
"""Times that a decision may concern."""
_AT = " at "

Done = Callable[[Any], None]


class ScheduleLane(Protocol):
    """The job manager whose schedules these are."""

    life: Life

    def post(self, event: Event, done: Done | None = None) -> None:
        """Hand over an event."""
        ...

    def delete(self, job_id: JobId, done: Done) -> None:
        """Delete a job that has ended."""
        ...

    def create(self, job_id: JobId, spec: JobSpec, done: Done) -> None:
        """Store a new job and take it on."""
        ...

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job."""
        ...

    def jobs(self) -> Collection[CachedJob]:
        """Return the active jobs."""
        ...


def spec_of_run(spec: JobSpec, time: int) -> JobSpec:
    """Return the spec of the run of a time."""
    return replace(spec, name=f"{spec.name}{_AT}{time}", schedule=None)


def run_of(name: str) -> tuple[str, int] | None:
    """Return the name of the schedule and the time of a run; None for the name of another job."""
    schedule, found, time = name.rpartition(_AT)
    return (schedule, int(time)) if found else None


def schedule_seconds(kernel: Kernel, wall: int, speed: float) -> int:
    """Return a time of schedules, in seconds since 1970. They may be faster than the clock (nanoseconds)."""
    return int(kernel.epoch + (wall / NANOSECONDS - kernel.epoch) * speed)


class Schedules:
    """Follows the schedules of all active jobs."""

    def __init__(self, lane: ScheduleLane, kernel: Kernel, store: Store, speed: float, again: bool) -> None:
        """`speed`: how many seconds of a schedule pass in a second. `again`: look at all now and then.

        Nothing needs that where nothing fails.
        """
        self._again = again
        self.lane = lane
        self.kernel = kernel
        self.store = store
        self.speed = speed
        self.run_id: Callable[[JobId, int], JobId] = run_id
        """The id of the run of a time. Others are a bug to plant, and so is what follows."""
        self.creates_early = False
        """Whether runs are created before it is stored that they are."""
        self._timers: dict[JobId, Timer] = {}
        self._turns: set[JobId] = set()
        """Schedules about which something is being done."""
        self._woken: set[JobId] = set()
        """Those to look at again afterwards."""
        self._running: dict[JobId, JobId] = {}
        """The schedule of each run whose end is to wake."""

    def start(self) -> None:
        """Look at all schedules, now and then."""
        for job in self.lane.jobs():
            if job.spec.schedule is not None and job.job_id not in self._timers:
                self.wake(job.job_id)
        if self._again:
            self.kernel.after(LOOK_SECONDS, self.lane.life, self.start)

    def now(self) -> int:
        """Return the time of schedules, in seconds since 1970."""
        return schedule_seconds(self.kernel, self.kernel.wall(self.lane.life), self.speed)

    def note_end(self, job_id: JobId) -> None:
        """Look at the schedule whose run has ended."""
        schedule = self._running.pop(job_id, None)
        if schedule is not None:
            self.wake(schedule)

    def wake(self, job_id: JobId) -> None:
        """Look at a schedule now, or once what is being done about it is done."""
        if job_id in self._turns:
            self._woken.add(job_id)
            return
        timer = self._timers.pop(job_id, None)
        if timer is not None:
            timer.cancel()
        job = self.lane.job(job_id)
        schedule = None if job is None else job.spec.schedule
        if job is None or schedule is None or job.runtime.goal in ENDING_JOB_GOALS:
            return
        self._turns.add(job_id)
        _Turn(self, job, schedule).begin()

    def end_turn(self, job_id: JobId, seconds: float, running: JobId | None = None) -> None:
        """Look at a schedule again after so long, or when its run ends."""
        self._turns.discard(job_id)
        if running is not None:
            self._running[running] = job_id
        woken = job_id in self._woken
        self._woken.discard(job_id)
        pause = 0.0 if woken else min(max(seconds, 0.0), LOOK_SECONDS)
        self._timers[job_id] = self.kernel.after(pause, self.lane.life, self.wake, job_id)


class _Turn:
    """Does what is due of one schedule, one step after the other."""

    def __init__(self, schedules: Schedules, job: CachedJob, schedule: Schedule) -> None:
        self._all = schedules
        self._lane = schedules.lane
        self._job = job
        self._schedule = schedule
        self._state: ScheduleState = job.runtime.schedule_state
        self._decision = Decision(self._state)
        self._now = schedules.now()

    def begin(self) -> None:
        """Find out whether the run that lives, if any, has not ended."""
        run = self._run(self._state.running)
        if not self._state.running or self._lane.job(run) is not None:
            self._decide(bool(self._state.running))
            return

        def read(stored: Any) -> None:
            self._decide(stored is not None and not stored.runtime.state.terminal)

        store = self._all.store
        store.read(self._lane.life, lambda: store.jobs.get(run), read)

    def _decide(self, lives: bool) -> None:
        plan, state = self._schedule, self._state
        due = cron.times_until(plan.cron, plan.time_zone, state.seen, self._now, MOST_DUE)
        self._decision = decision = decide(plan, state, due, lives, self._now)
        if self._all.creates_early and decision.state.starting:
            self._create(decision.state.starting, lambda: self._move(decision.state, self._stop))
        elif decision.state != state:
            self._move(decision.state, self._stop)
        else:
            self._stop()

    def _move(self, state: ScheduleState, then: Callable[[], None]) -> None:
        self._state = state

        def moved(reply: Any) -> None:
            if isinstance(reply, PelotonError):
                self._give_up(reply)
            else:
                then()

        self._lane.post(ScheduleMoved(self._job.job_id, state), moved)

    def _stop(self) -> None:
        if not self._decision.stop:
            self._start()
            return

        def stopped(reply: Any) -> None:
            if isinstance(reply, PelotonError):
                self._give_up(reply)
            else:
                self._start()

        by = f"the schedule of job {self._job.spec.name}, whose next run replaces it"
        self._lane.post(StopRequested(self._run(self._decision.stop), None, by), stopped)

    def _start(self) -> None:
        time = self._state.starting
        if time:
            self._all.kernel.point(self._lane.life, "before a run is created")
            self._create(time, lambda: self._move(started(self._state), self._clean))
        else:
            self._clean()

    def _create(self, time: int, then: Callable[[], None]) -> None:
        def created(answer: Any) -> None:
            if isinstance(answer, PelotonError) and not isinstance(answer, AlreadyExists):
                self._give_up(answer)
                return
            self._all.kernel.point(self._lane.life, "after a run is created")
            then()

        self._lane.create(self._run(time), spec_of_run(self._job.spec, time), created)

    def _clean(self) -> None:
        times = list(self._decision.delete)
        gone: set[int] = set()

        def following() -> None:
            if times:
                self._delete(times.pop(0), gone, following)
            elif gone:
                self._move(deleted(self._state, gone), self._end)
            else:
                self._end()

        following()

    def _delete(self, time: int, gone: set[int], then: Callable[[], None]) -> None:
        """Delete the run of a time, unless it has been started again."""
        run = self._run(time)
        if self._lane.job(run) is not None:
            then()
            return

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self._give_up(answer)
                return
            gone.add(time)
            self._all.kernel.point(self._lane.life, "after a run is deleted")
            then()

        self._lane.delete(run, done)

    def _end(self) -> None:
        plan, state = self._schedule, self._state
        run = self._run(state.running)
        if state.running and self._lane.job(run) is None:
            self._all.end_turn(self._job.job_id, SOON_SECONDS)
            return
        following = next(cron.times_after(plan.cron, plan.time_zone, state.seen))
        seconds = (following - self._all.now()) / self._all.speed
        self._all.end_turn(self._job.job_id, seconds, run if state.running else None)

    def _give_up(self, error: PelotonError) -> None:
        seconds = SOON_SECONDS if isinstance(error, Refused) else RETRY_SECONDS
        self._all.end_turn(self._job.job_id, seconds)

    def _run(self, time: int) -> JobId:
        return self._all.run_id(self._job.job_id, time)
