"""Rules for the schedule of a job: what makes no sense is refused."""

from __future__ import annotations

from peloton import cron
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.schedule import KEPT_RUNS, MAX_CATCH_UP, MAX_KEPT_DAYS, MAX_KEPT_RUNS
from peloton.wire.schedule import UTC
from peloton.wire.validation.task import check_enum

MAX_CRON_CHARACTERS = 200
LONGEST_NAME = 200
"""Of a job with a schedule: the names of its runs have the time after it."""
_EPOCH_2026 = 1_767_225_600
"""From when on an expression must have a time."""


def check_schedule(config: job_pb2.JobConfig) -> None:
    """Check the schedule of a job. Raises InvalidArgument."""
    if not config.HasField("schedule"):
        return
    wire = config.schedule
    if config.type != job_pb2.BATCH:
        wanted = "left out: only batch jobs are run by a schedule, and this is a service or daemon job"
        raise InvalidArgument("schedule", wire.cron, wanted)
    check_enum(wire, "overlap", "schedule.overlap")
    if wire.catch_up > MAX_CATCH_UP:
        raise InvalidArgument("schedule.catch_up", wire.catch_up, f"a number from 0 to {MAX_CATCH_UP}")
    if wire.keep_runs > MAX_KEPT_RUNS:
        wanted = f"a number from 1 to {MAX_KEPT_RUNS}, or 0 for {KEPT_RUNS}"
        raise InvalidArgument("schedule.keep_runs", wire.keep_runs, wanted)
    if wire.keep_days > MAX_KEPT_DAYS:
        wanted = f"a number from 1 to {MAX_KEPT_DAYS}, or 0 for no bound by age"
        raise InvalidArgument("schedule.keep_days", wire.keep_days, wanted)
    if config.dependsOn:
        wanted = "left out in a job with a schedule: each of its runs would wait for the same end of that job"
        raise InvalidArgument("dependsOn", f"{len(config.dependsOn)} of them", wanted)
    if len(config.name) > LONGEST_NAME:
        wanted = (
            f"at most {LONGEST_NAME} characters in a job with a schedule, whose runs have the time after it"
        )
        raise InvalidArgument("name", f"{config.name[:40]}…", wanted)
    if len(wire.cron) > MAX_CRON_CHARACTERS:
        wanted = f"at most {MAX_CRON_CHARACTERS} characters"
        raise InvalidArgument("schedule.cron", f"{wire.cron[:40]}…", wanted)
    try:
        cron.zone(wire.time_zone or UTC)
    except cron.CronError as error:
        raise InvalidArgument("schedule.time_zone", wire.time_zone, str(error)) from None
    try:
        cron.check(wire.cron, wire.time_zone or UTC, _EPOCH_2026)
    except cron.CronError as error:
        raise InvalidArgument("schedule.cron", wire.cron, str(error)) from None
