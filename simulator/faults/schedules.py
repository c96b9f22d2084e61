"""What must hold for schedules: each of their times gets one run, or none by the rules, and never two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from jobmgr.core.state.change import Change
from peloton import cron
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.schedule import (
    MAX_QUEUED,
    ON_TIME_SECONDS,
    Overlap,
    Schedule,
    ScheduleState,
)
from simulator.daemons.jobmgr_schedules import MOST_DUE, run_of, schedule_seconds
from simulator.faults.asks import SCHEDULE_SPEED
from simulator.faults.violation import Violation
from simulator.world.kernel import NANOSECONDS, Kernel
from simulator.world.store import Store, StoredJob


@dataclass(slots=True)
class _Runs:
    """The runs of a schedule, by time."""

    created: dict[int, JobId] = field(default_factory=dict)
    stored: dict[int, JobId] = field(default_factory=dict)


class ScheduleChecks:
    """The invariants of schedules."""

    def __init__(self, store: Store, kernel: Kernel, clocks: bool) -> None:
        """`clocks`: whether the clocks of job managers are right, so that what is late can be told."""
        self._store = store
        self._kernel = kernel
        self._clocks = clocks
        self._schedules: dict[str, JobId] = {}
        """By name."""
        self._runs: defaultdict[JobId, _Runs] = defaultdict(_Runs)
        self.schedule_of: dict[JobId, JobId] = {}
        """By run."""

    def on_create(self, job_id: JobId, spec: JobSpec) -> None:
        """Check the creation of a run: of a time of the schedule, once, as it is stored, and alone."""
        if spec.schedule is not None:
            self._schedules[spec.name] = job_id
        found = run_of(spec.name)
        if found is None:
            return
        name, time = found
        schedule = self._schedules[name]
        runs, stored = self._runs[schedule], self._store.jobs[schedule]
        self._check_time(f"the run of {name} at {time}", stored, time)
        if time in runs.created:
            raise Violation(f"{name} gets a second run at {time}")
        for other, run in runs.stored.items():
            if not self._store.jobs[run].runtime.state.terminal:
                raise Violation(f"the run of {name} at {time} begins while that of {other} lives")
        runs.created[time] = runs.stored[time] = job_id
        self.schedule_of[job_id] = schedule

    def _check_time(self, what: str, stored: StoredJob, time: int) -> None:
        state, plan = _state(stored), _plan(stored)
        if state.starting != time:
            raise Violation(f"{what} is created, and it is not stored that it will be: {state}")
        if cron.times_until(plan.cron, plan.time_zone, time - 1, time, 1) != [time]:
            raise Violation(f"{what} is created, which is no time of {plan.cron}")
        if self._clocks and time > self._now():
            raise Violation(f"{what} is created at {self._now()}, before its time")

    def on_delete(self, job_id: JobId, job: StoredJob) -> None:
        """Check that a run is deleted after its end."""
        found = run_of(job.specs[1].name)
        if found is None:
            return
        if not job.runtime.state.terminal:
            raise Violation(f"{job.specs[1].name} is deleted while it is {job.runtime.state.name}")
        del self._runs[self.schedule_of[job_id]].stored[found[1]]

    def on_write(self, job_id: JobId, job: StoredJob, change: Change) -> None:
        """Check how a schedule is moved on."""
        if job.specs[1].schedule is None or change.runtime is None:
            return
        before, after = _state(job), change.runtime.schedule_state
        if before == after:
            return
        name, plan = job.specs[1].name, _plan(job)
        created = self._runs[job_id].created
        if after.seen < before.seen:
            raise Violation(f"{name} goes back from {before.seen} to {after.seen}")
        if before.starting not in (0, after.starting) and before.starting not in created:
            raise Violation(f"{name} was to have a run at {before.starting}, and goes on without: {after}")
        times = cron.times_until(plan.cron, plan.time_zone, before.seen, after.seen, MOST_DUE)
        taken = [t for t in times if t == after.starting or t in after.queued]
        if before.paused:
            if taken or after.starting not in (0, before.starting):
                raise Violation(f"{name} is paused, and goes on from {before} to {after}")
        elif self._clocks and len(after.queued) < MAX_QUEUED:
            self._check_missed(f"{name} goes on from {before} to {after}", plan, before, times, taken)

    def _check_missed(
        self, what: str, plan: Schedule, before: ScheduleState, times: list[int], taken: list[int]
    ) -> None:
        """Check that what gets no run was missed, or is left out by the rule for overlaps."""
        in_time = self._now() - ON_TIME_SECONDS
        lost = [t for t in times if t not in taken]
        if plan.overlap is Overlap.QUEUE:
            if any(t >= in_time for t in lost):
                raise Violation(f"{what}, and {max(lost)} gets no run")
            if lost and (len(taken) < plan.catch_up or (taken and lost[-1] > taken[0])):
                raise Violation(f"{what}, and of {times} only {taken} get runs")
        busy = before.running or before.starting
        if times and not taken and times[-1] >= in_time and (plan.overlap is Overlap.REPLACE or not busy):
            raise Violation(f"{what}, and none of {times} gets a run")

    def end(self, jobs: Collection[JobId]) -> None:
        """Check that all runs have ended, and that no more of them are stored than are kept."""
        for schedule in sorted(jobs):
            job, runs = self._store.jobs[schedule], self._runs.get(schedule)
            if job.specs[1].schedule is None or runs is None:
                continue
            name, state = job.specs[1].name, _state(job)
            for time, run in runs.stored.items():
                if not self._store.jobs[run].runtime.state.terminal:
                    ended = self._store.jobs[run].runtime.state.name
                    raise Violation(f"the run of {name} at {time} is {ended} at the end")
                if time not in (*state.kept, state.starting):
                    raise Violation(f"the run of {name} at {time} is stored, and nobody will delete it")
            most = _plan(job).keep_runs + _UNDER_WAY
            if len(runs.stored) > most:
                raise Violation(f"{name} has {len(runs.stored)} runs at the end, and keeps {most} at most")

    def _now(self) -> int:
        wall = round((self._kernel.epoch + self._kernel.now) * NANOSECONDS)
        return schedule_seconds(self._kernel, wall, SCHEDULE_SPEED)


_UNDER_WAY = 2
"""Runs of a schedule that may be stored beyond those that are kept: one that has ended since the last look,
and one that lives."""


def _state(job: StoredJob) -> ScheduleState:
    return job.runtime.schedule_state


def _plan(job: StoredJob) -> Schedule:
    plan = job.specs[1].schedule
    assert plan is not None
    return plan
