"""Translate schedules, and how far they are. Their times are those of `peloton.cron`."""

from __future__ import annotations

from itertools import islice

from peloton import cron
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0.job import job_pb2
from peloton.clock import NANOSECONDS, rfc3339
from peloton.errors import InvalidArgument
from peloton.model.ids import JobId
from peloton.model.schedule import KEPT_RUNS, Overlap, Schedule, ScheduleState, run_id

SHOWN_TIMES = 5
UTC = "UTC"


def schedule_from(config: job_pb2.JobConfig) -> Schedule | None:
    """Decode the schedule of a job; None where it has none. Raises InvalidArgument for an unknown overlap."""
    if not config.HasField("schedule"):
        return None
    wire = config.schedule
    try:
        overlap = Overlap(wire.overlap)
    except ValueError:
        known = ", ".join(f"OVERLAP_{each.name} ({each})" for each in Overlap)
        raise InvalidArgument("schedule.overlap", wire.overlap, f"one of {known}") from None
    kept = wire.keep_runs or KEPT_RUNS
    return Schedule(wire.cron, wire.time_zone or UTC, overlap, wire.catch_up, kept, wire.keep_days)


def next_times(schedule: Schedule, state: ScheduleState, most: int = SHOWN_TIMES) -> list[int]:
    """Return the next times, in seconds since 1970; none while the schedule is paused."""
    if state.paused:
        return []
    return list(islice(cron.times_after(schedule.cron, schedule.time_zone, state.seen), most))


def status_to(job_id: JobId, schedule: Schedule, state: ScheduleState) -> scheduling_pb2.ScheduleStatus:
    """Encode how far a schedule is."""
    alive = state.running or state.starting
    return scheduling_pb2.ScheduleStatus(
        next_times=map(told, next_times(schedule, state)),
        queued_times=map(told, state.queued),
        running_job_id=run_id(job_id, alive) if alive else "",
        last_time=told(state.last) if state.last else "",
        last_job_id=run_id(job_id, state.last) if state.last else "",
        skipped_time=told(state.skipped) if state.skipped else "",
        paused_since=told(state.paused) if state.paused else "",
        kept_runs=len(state.kept),
    )


def told(time: int) -> str:
    """Return a time, in seconds since 1970, as RFC 3339 in UTC."""
    return rfc3339(time * NANOSECONDS).partition(".")[0].removesuffix("Z") + "Z"


def told_schedule(schedule: Schedule, state: ScheduleState) -> str:
    """Tell a schedule, such as `scheduled by 0 3 * * * (UTC): next run at 2026-11-28T03:00:00Z`."""
    following = next_times(schedule, state, 1)
    parts = [f"next run at {told(following[0])}" if following else "no further run"]
    if state.paused:
        parts = [f"paused since {told(state.paused)}"]
    if state.running or state.starting:
        parts.append(f"the run of {told(state.running or state.starting)} lives")
    elif state.last:
        parts.append(f"the last one was of {told(state.last)}")
    if state.queued:
        parts.append(f"{len(state.queued)} queued")
    if state.skipped:
        parts.append(f"the last one skipped was of {told(state.skipped)}")
    return f"scheduled by {schedule.cron} ({schedule.time_zone}): " + ", ".join(parts)
