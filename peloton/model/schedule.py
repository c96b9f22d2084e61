"""Schedules: when a job is run again and again. The times themselves are those of `peloton.cron`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from enum import IntEnum

from peloton.model.ids import JobId

SCHEDULE_LABEL = "peloton.schedule"
"""The label of a run with the id of the job whose schedule it follows."""
MAX_CATCH_UP = 100
"""The most missed times that are made up for."""
MAX_QUEUED = 100
"""The most times that wait for the run before them."""
MAX_KEPT_RUNS = 1000
"""The most ended runs that are kept."""
KEPT_RUNS = 100
"""Ended runs that are kept where a schedule does not say."""
MAX_KEPT_DAYS = 3650
DAY_SECONDS = 86_400
ON_TIME_SECONDS = 300
"""A time counts as missed when nobody led for longer than this after it."""


class Overlap(IntEnum):
    """What becomes of a time at which the run before still lives. The numbers are those of the API."""

    SKIP = 0
    QUEUE = 1
    REPLACE = 2


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job is run."""

    cron: str
    time_zone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    catch_up: int = 0
    """How many missed times are made up for, the latest ones."""
    keep_runs: int = KEPT_RUNS
    """How many ended runs are kept, the latest ones."""
    keep_days: int = 0
    """For how many days after its time an ended run is kept at most; 0: no bound."""


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """How far a schedule is. Times are seconds since 1970. At most one run starts or lives at a time."""

    seen: int = 0
    """All times up to this one are decided."""
    queued: tuple[int, ...] = ()
    """Times that wait for the run before them."""
    starting: int = 0
    """The time whose run is to be created, if it is not yet; 0: none."""
    running: int = 0
    """The time whose run has been created and is not known to have ended; 0: none."""
    last: int = 0
    """The last time of which a run was created; 0: none."""
    skipped: int = 0
    """The last time of which no run is created; 0: none."""
    paused: int = 0
    """Since when no run begins; 0: it is not paused."""
    kept: tuple[int, ...] = ()
    """The times of the runs that are created and not deleted, ascending."""


def paused(state: ScheduleState, at: int) -> ScheduleState:
    """Return the state of a schedule that is paused at a time, or has been before."""
    return state if state.paused else replace(state, paused=at)


def resumed(state: ScheduleState, at: int) -> ScheduleState:
    """Return the state of a schedule that goes on from a time on: those of the pause get no run."""
    return replace(state, paused=0, seen=max(state.seen, at)) if state.paused else state


NOT_BEGUN = ScheduleState()


def run_id(job_id: JobId, time: int) -> JobId:
    """Return the id of the job that is the run of a time: the same by every leader."""
    return str(uuid.uuid5(uuid.UUID(job_id), f"run at {time}"))
